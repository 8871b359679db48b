-- Checksums of what imports keep, and of the keys of appends.

-- +goose Up
ALTER TABLE import_sources ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it but id; NULL: not written to since there are checksums
ALTER TABLE import_files ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in import_sources
ALTER TABLE quarantine ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it but id and bytes; NULL: as in import_sources
ALTER TABLE quarantine_parts ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in import_sources
ALTER TABLE run_append_keys ADD COLUMN checksum INTEGER; -- CRC-32C of append_key and digest; NULL: from before there were checksums
ALTER TABLE run_spent_keys ADD COLUMN checksum INTEGER; -- the checksum that the row had in run_append_keys; NULL: it had none
ALTER TABLE run_spent_keys ADD COLUMN run INTEGER; -- key of the run that it was of: a later run of the name does not know it; NULL: from before this was kept
ALTER TABLE live_append_keys ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: from before there were checksums

-- Further files of a tree that hold the record of a live run, such as copies: the run has its origin in another, see live_imports.
-- +goose StatementBegin
CREATE TABLE live_copies (
    run      INTEGER NOT NULL REFERENCES live_runs (key) ON DELETE CASCADE,      -- the run
    source   INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE,  -- the tree
    path     BLOB    NOT NULL CHECK (length(path) > 0),                          -- file below the tree's root, in the bytes of the file system
    position INTEGER NOT NULL CHECK (position >= 0),                             -- of the record among those of the file, from 0
    checksum INTEGER,                                                            -- CRC-32C of the columns before it; NULL: changed by hand
    PRIMARY KEY (run, source, path)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd
-- The foreign key, and what a file that is read again said.
CREATE INDEX live_copies_by_file ON live_copies (source, path);

-- The journal of imports: who brought a tree in, when, and what came of it. A row that has no end runs, or was ended by force.
-- +goose StatementBegin
CREATE TABLE imports (
    id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,                          -- number of the import
    source   INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE,   -- the tree
    began_at INTEGER NOT NULL,                                                    -- Unix nanoseconds
    ended_at INTEGER,                                                             -- Unix nanoseconds; NULL: no end was written
    pid      INTEGER NOT NULL,                                                    -- process that imported
    user     TEXT    NOT NULL,                                                    -- name or number of the user whose process it was
    program  TEXT    NOT NULL,                                                    -- name and version of the program
    outcome  TEXT CHECK (outcome IN ('complete', 'partial', 'stopped', 'failed')), -- partial: something was quarantined or differs; stopped: by its caller; failed: see error; NULL: no end was written
    counts   TEXT,                                                                -- JSON: records by kind, as the report of the import says; NULL: no end was written
    files    TEXT,                                                                -- JSON: the report's counts of files; NULL as counts
    error    TEXT,                                                                -- what it failed with; NULL: it did not fail
    checksum INTEGER,                                                             -- CRC-32C of the columns before it but id; NULL: changed by hand
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;
-- +goose StatementEnd
-- The foreign key, and the list of a tree.
CREATE INDEX imports_by_source ON imports (source, id);

-- What the old program and this one both went on with, and a person decides about: what is not decided is not claimable. Those
-- that are decided stay, and say by whom.
-- +goose StatementBegin
CREATE TABLE import_conflicts (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,                        -- number of the conflict
    scope      INTEGER NOT NULL REFERENCES scopes (id),                           -- the scope of the tree
    kind       TEXT    NOT NULL CHECK (kind IN ('agents', 'checkpoints')),        -- the kind of the tree
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
-- What a claim asks, and the list of what is open.
CREATE UNIQUE INDEX import_conflicts_open ON import_conflicts (scope, kind, entity_id, source) WHERE decided_at IS NULL;
-- The foreign key, and the conflicts of a tree.
CREATE INDEX import_conflicts_by_source ON import_conflicts (source, id);
-- The foreign key, and the conflicts that an import found.
CREATE INDEX import_conflicts_by_import ON import_conflicts (import, id);

-- +goose Down
DROP TABLE import_conflicts;
DROP TABLE imports;
DROP TABLE live_copies;
ALTER TABLE live_append_keys DROP COLUMN checksum;
ALTER TABLE run_spent_keys DROP COLUMN run;
ALTER TABLE run_spent_keys DROP COLUMN checksum;
ALTER TABLE run_append_keys DROP COLUMN checksum;
ALTER TABLE quarantine_parts DROP COLUMN checksum;
ALTER TABLE quarantine DROP COLUMN checksum;
ALTER TABLE import_files DROP COLUMN checksum;
ALTER TABLE import_sources DROP COLUMN checksum;
