-- What was imported from the old programs' trees, file by file, and what could not be taken.

-- +goose Up
-- The folders that trees were imported from.
-- +goose StatementBegin
CREATE TABLE import_sources (
    id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,      -- number of the tree
    scope    INTEGER NOT NULL REFERENCES scopes (id),         -- the scope that the tree was brought into
    kind     TEXT    NOT NULL CHECK (kind IN ('runs', 'agents', 'checkpoints', 'workers', 'live')), -- which old program wrote the tree
    root     BLOB    NOT NULL CHECK (length(root) > 0),       -- absolute path of the folder, links resolved, in the bytes of the file system
    first_at INTEGER NOT NULL,                                -- Unix nanoseconds when its first import began
    last_at  INTEGER,                                         -- Unix nanoseconds when an import of it last came to its end; NULL: none did
    UNIQUE (scope, kind, root)
) STRICT;
-- +goose StatementEnd

-- How far each file was read and where its records are, so that an import goes on where it was.
-- +goose StatementBegin
CREATE TABLE import_files (
    source        INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path          BLOB    NOT NULL CHECK (length(path) > 0),  -- path below the root, parts divided by '/', in the bytes of the file system
    state         TEXT    NOT NULL CHECK (state IN ('taken', 'shared', 'refused')), -- taken: its records are here; shared: the same records are here from elsewhere; refused: its id is here from elsewhere with other records, the file is in quarantine
    entity_group  TEXT    NOT NULL,                           -- with entity_id, what the file's records are here, or for a refused file would be. Runs: the agent id
    entity_id     TEXT    NOT NULL,                           -- runs: the run id
    entity_row    INTEGER,                                    -- number of that thing's row in its store (runs.key); NULL: refused
    last_sequence INTEGER NOT NULL CHECK (last_sequence >= 0), -- sequence of the last line written here from this file; a larger one in the store was written since
    size          INTEGER NOT NULL CHECK (size >= consumed),  -- bytes of the file when it was read last
    consumed      INTEGER NOT NULL CHECK (consumed >= 0),     -- bytes that were taken: its whole lines, and a last line without line feed that is a record
    prefix_sha256 BLOB    NOT NULL CHECK (length(prefix_sha256) = 32), -- SHA-256 of the consumed bytes
    open_line     INTEGER NOT NULL CHECK (open_line IN (0, 1)), -- 1: the last consumed line has no line feed yet
    records       TEXT    NOT NULL,                           -- records in the consumed bytes by kind, such as "started 1, turn 22, ended 1"
    imported_at   INTEGER NOT NULL,                           -- Unix nanoseconds when this row last changed
    tail          BLOB CHECK (length(tail) > 0),              -- bytes behind the consumed ones: a torn last line, which may still grow; NULL: none
    PRIMARY KEY (source, path),
    CHECK ((state = 'refused') = (entity_row IS NULL))
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- Who holds an id.
CREATE INDEX import_files_by_entity ON import_files (entity_id, entity_group, source);

-- What could not be taken as it is: why, and where it was.
-- +goose StatementBegin
CREATE TABLE quarantine (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,  -- the number that quarantine show and drop take
    scope        INTEGER NOT NULL REFERENCES scopes (id),     -- the scope of the import
    source       INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path         BLOB    NOT NULL,                            -- file below the tree's root, in the bytes of the file system
    byte_offset  INTEGER NOT NULL CHECK (byte_offset >= 0),   -- where in the file it begins
    what         TEXT    NOT NULL CHECK (what IN ('line', 'tail', 'file', 'conflict', 'name')), -- line: can't be read, also kept in its place; tail: a torn last line; file: can't be opened or read on; conflict: a whole file whose id is here from elsewhere with other content; name: taken, but under another id than its records say
    reason       TEXT    NOT NULL,                            -- what is wrong, for people
    entity_group TEXT,                                        -- with entity_id, whose it is or would be; NULL: not known
    entity_id    TEXT,                                        -- see entity_group; NULL: not known
    bytes        INTEGER NOT NULL CHECK (bytes >= 0),         -- how many bytes are kept, see quarantine_parts
    found_at     INTEGER NOT NULL,                            -- Unix nanoseconds
    UNIQUE (source, path, byte_offset, what)
) STRICT;
-- +goose StatementEnd

-- The list of a scope.
CREATE INDEX quarantine_by_scope ON quarantine (scope, id);

-- The bytes themselves, in parts, so that a large file is never whole in memory.
-- +goose StatementBegin
CREATE TABLE quarantine_parts (
    quarantine INTEGER NOT NULL REFERENCES quarantine (id) ON DELETE CASCADE, -- the row they belong to
    part       INTEGER NOT NULL CHECK (part >= 0),            -- place among its parts, from 0
    raw        BLOB    NOT NULL CHECK (length(raw) > 0),      -- the bytes as they were
    PRIMARY KEY (quarantine, part)
) STRICT;
-- +goose StatementEnd

-- What a tree says about how long its runs are kept, for retention to go by when nobody says otherwise.
-- +goose StatementBegin
CREATE TABLE run_limits (
    scope         INTEGER NOT NULL PRIMARY KEY REFERENCES scopes (id), -- the scope whose runs are meant
    source        INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree beside whose config.toml this was; another tree of the scope does not change it
    max_per_agent INTEGER NOT NULL CHECK (max_per_agent >= 0),         -- ended runs kept of each agent
    max_age_days  INTEGER NOT NULL                                     -- days that an ended run is kept
) STRICT;
-- +goose StatementEnd

-- The foreign key.
CREATE INDEX run_limits_by_source ON run_limits (source);

-- +goose Down
DROP TABLE run_limits;
DROP TABLE quarantine_parts;
DROP TABLE quarantine;
DROP TABLE import_files;
DROP TABLE import_sources;
