-- A store that comes later brings its kind of tree without a table that is made anew: the kinds are in the program, not in a CHECK.

-- +goose Up
-- Numbers that were given are not given again.
CREATE TABLE sequences_before AS SELECT name, seq FROM sqlite_sequence WHERE name IN ('import_sources', 'import_conflicts');
CREATE TABLE import_sources_before AS SELECT * FROM import_sources;
DROP TABLE import_sources;
-- The trees that were brought in.
-- +goose StatementBegin
CREATE TABLE import_sources (
    id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,      -- number of the tree
    scope    INTEGER NOT NULL REFERENCES scopes (id),         -- the scope that the tree was brought into
    kind     TEXT    NOT NULL CHECK (kind <> ''), -- which old program wrote the tree: runs, agents, checkpoints, workers or live
    root     BLOB    NOT NULL CHECK (length(root) > 0),       -- absolute path of the folder, links resolved, in the bytes of the file system
    first_at INTEGER NOT NULL,                                -- Unix nanoseconds when its first import began
    last_at  INTEGER,                                         -- Unix nanoseconds when an import of it last came to its end; NULL: none did
    checksum INTEGER,                                         -- CRC-32C of the columns before it but id; NULL: not written to since there are checksums
    UNIQUE (scope, kind, root)
) STRICT;
-- +goose StatementEnd
INSERT INTO import_sources (id, scope, kind, root, first_at, last_at, checksum)
SELECT id, scope, kind, root, first_at, last_at, checksum FROM import_sources_before;
DROP TABLE import_sources_before;
CREATE TABLE import_conflicts_before AS SELECT * FROM import_conflicts;
DROP TABLE import_conflicts;
-- What the old program and this one both went on with, and a person decides about: what is not decided is not claimable. Those
-- that are decided stay, and say by whom.
-- +goose StatementBegin
CREATE TABLE import_conflicts (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,                        -- number of the conflict
    scope      INTEGER NOT NULL REFERENCES scopes (id),                           -- the scope of the tree
    kind       TEXT    NOT NULL CHECK (kind <> ''),                                -- the kind of the tree: agents or checkpoints
    entity_id  TEXT    NOT NULL,                                                  -- the agent, or the run that paused
    source     INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path       BLOB    NOT NULL CHECK (length(path) > 0),                         -- its file, or one of them, below the tree's root, in the bytes of the file system
    import     INTEGER NOT NULL REFERENCES imports (id) ON DELETE CASCADE,        -- the import that found it first
    reason     TEXT    NOT NULL,                                                  -- what the old program did, for people
    found_at   INTEGER NOT NULL,                                                  -- Unix nanoseconds
    decided_at INTEGER,                                                           -- Unix nanoseconds; NULL: not decided
    taken      TEXT CHECK (taken IN ('old', 'ours')),                              -- whose was taken; NULL: not decided
    pid        INTEGER,                                                           -- process that decided; NULL: not decided
    user       TEXT,                                                              -- name or number of the user whose process it was; NULL: not decided
    program    TEXT,                                                              -- name and version of the program; NULL: not decided
    checksum   INTEGER,                                                           -- CRC-32C of the columns before it but id; NULL: changed by hand
    CHECK ((decided_at IS NULL) = (taken IS NULL) AND (taken IS NULL) = (pid IS NULL) AND (pid IS NULL) = (user IS NULL) AND (user IS NULL) = (program IS NULL))
) STRICT;
-- +goose StatementEnd
INSERT INTO import_conflicts SELECT * FROM import_conflicts_before;
DROP TABLE import_conflicts_before;
-- What a claim asks, and the list of what is open.
CREATE UNIQUE INDEX import_conflicts_open ON import_conflicts (scope, kind, entity_id, source) WHERE decided_at IS NULL;
-- The foreign key, and the conflicts of a tree.
CREATE INDEX import_conflicts_by_source ON import_conflicts (source, id);
-- The foreign key, and the conflicts that an import found.
CREATE INDEX import_conflicts_by_import ON import_conflicts (import, id);
DELETE FROM sqlite_sequence WHERE name IN ('import_sources', 'import_conflicts');
INSERT INTO sqlite_sequence (name, seq) SELECT name, seq FROM sequences_before;
DROP TABLE sequences_before;

-- +goose Down
-- Numbers that were given are not given again.
CREATE TABLE sequences_before AS SELECT name, seq FROM sqlite_sequence WHERE name IN ('import_sources', 'import_conflicts');
CREATE TABLE import_sources_before AS SELECT * FROM import_sources;
DROP TABLE import_sources;
-- The trees that were brought in.
-- +goose StatementBegin
CREATE TABLE import_sources (
    id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,      -- number of the tree
    scope    INTEGER NOT NULL REFERENCES scopes (id),         -- the scope that the tree was brought into
    kind     TEXT    NOT NULL CHECK (kind IN ('runs', 'agents', 'checkpoints', 'workers', 'live')), -- which old program wrote the tree: runs, agents, checkpoints, workers or live
    root     BLOB    NOT NULL CHECK (length(root) > 0),       -- absolute path of the folder, links resolved, in the bytes of the file system
    first_at INTEGER NOT NULL,                                -- Unix nanoseconds when its first import began
    last_at  INTEGER,                                         -- Unix nanoseconds when an import of it last came to its end; NULL: none did
    checksum INTEGER,                                         -- CRC-32C of the columns before it but id; NULL: not written to since there are checksums
    UNIQUE (scope, kind, root)
) STRICT;
-- +goose StatementEnd
INSERT INTO import_sources (id, scope, kind, root, first_at, last_at, checksum)
SELECT id, scope, kind, root, first_at, last_at, checksum FROM import_sources_before;
DROP TABLE import_sources_before;
CREATE TABLE import_conflicts_before AS SELECT * FROM import_conflicts;
DROP TABLE import_conflicts;
-- What the old program and this one both went on with, and a person decides about: what is not decided is not claimable. Those
-- that are decided stay, and say by whom.
-- +goose StatementBegin
CREATE TABLE import_conflicts (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,                        -- number of the conflict
    scope      INTEGER NOT NULL REFERENCES scopes (id),                           -- the scope of the tree
    kind       TEXT    NOT NULL CHECK (kind IN ('agents', 'checkpoints')),                                -- the kind of the tree: agents or checkpoints
    entity_id  TEXT    NOT NULL,                                                  -- the agent, or the run that paused
    source     INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path       BLOB    NOT NULL CHECK (length(path) > 0),                         -- its file, or one of them, below the tree's root, in the bytes of the file system
    import     INTEGER NOT NULL REFERENCES imports (id) ON DELETE CASCADE,        -- the import that found it first
    reason     TEXT    NOT NULL,                                                  -- what the old program did, for people
    found_at   INTEGER NOT NULL,                                                  -- Unix nanoseconds
    decided_at INTEGER,                                                           -- Unix nanoseconds; NULL: not decided
    taken      TEXT CHECK (taken IN ('old', 'ours')),                              -- whose was taken; NULL: not decided
    pid        INTEGER,                                                           -- process that decided; NULL: not decided
    user       TEXT,                                                              -- name or number of the user whose process it was; NULL: not decided
    program    TEXT,                                                              -- name and version of the program; NULL: not decided
    checksum   INTEGER,                                                           -- CRC-32C of the columns before it but id; NULL: changed by hand
    CHECK ((decided_at IS NULL) = (taken IS NULL) AND (taken IS NULL) = (pid IS NULL) AND (pid IS NULL) = (user IS NULL) AND (user IS NULL) = (program IS NULL))
) STRICT;
-- +goose StatementEnd
INSERT INTO import_conflicts SELECT * FROM import_conflicts_before;
DROP TABLE import_conflicts_before;
-- What a claim asks, and the list of what is open.
CREATE UNIQUE INDEX import_conflicts_open ON import_conflicts (scope, kind, entity_id, source) WHERE decided_at IS NULL;
-- The foreign key, and the conflicts of a tree.
CREATE INDEX import_conflicts_by_source ON import_conflicts (source, id);
-- The foreign key, and the conflicts that an import found.
CREATE INDEX import_conflicts_by_import ON import_conflicts (import, id);
DELETE FROM sqlite_sequence WHERE name IN ('import_sources', 'import_conflicts');
INSERT INTO sqlite_sequence (name, seq) SELECT name, seq FROM sequences_before;
DROP TABLE sequences_before;
