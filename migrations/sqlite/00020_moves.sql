-- All that is here can move to another database, a server's or a file: what was moved where, and whether it is under way.

-- +goose Up
-- The moves of all that is here to another database, and of all that came from one. The last one says why nobody may write.
-- +goose StatementBegin
CREATE TABLE moves (
    id        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,       -- number of the move
    token     BLOB    NOT NULL UNIQUE CHECK (length(token) = 16), -- drawn when the move began; both databases have it
    direction TEXT    NOT NULL CHECK (direction IN ('out', 'in')), -- out: what was here went there; in: what is here came from there
    place     TEXT    NOT NULL,                                 -- the other database: path of the file, or address of the server without secrets
    began_at  INTEGER NOT NULL,                                 -- Unix nanoseconds
    ended_at  INTEGER,                                          -- Unix nanoseconds; NULL: it is under way, and nobody may write here
    outcome   TEXT CHECK (outcome IN ('complete', 'abandoned')), -- NULL: it is under way. complete: out of here nobody may write here any more
    moved     INTEGER,                                          -- number of rows that were compared at the end; NULL: it did not come to that
    proof     TEXT,                                             -- SHA-256 in hex of those rows, the same in both databases; NULL: as above
    checksum  INTEGER,                                          -- CRC-32C of the columns before it but id; NULL: its user has changed the row
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK ((moved IS NULL) = (proof IS NULL))
) STRICT;
-- +goose StatementEnd

-- +goose Down
DROP TABLE moves;
