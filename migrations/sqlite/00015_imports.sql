-- Checksums of what imports keep, and of the keys of appends.

-- +goose Up
ALTER TABLE import_sources ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it but id; NULL: not written to since there are checksums
ALTER TABLE import_files ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in import_sources
ALTER TABLE quarantine ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it but id and bytes; NULL: as in import_sources
ALTER TABLE quarantine_parts ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in import_sources
ALTER TABLE run_append_keys ADD COLUMN checksum INTEGER; -- CRC-32C of append_key and digest; NULL: from before there were checksums
ALTER TABLE run_spent_keys ADD COLUMN checksum INTEGER; -- the checksum that the row had in run_append_keys; NULL: it had none
ALTER TABLE live_append_keys ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: from before there were checksums

-- Further files of a tree that hold the record of a live run, such as copies: the run has its origin in another, see live_imports.
-- +goose StatementBegin
CREATE TABLE live_copies (
    run      INTEGER NOT NULL REFERENCES live_runs (key) ON DELETE CASCADE,      -- the run
    source   INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE,  -- the tree
    path     BLOB    NOT NULL CHECK (length(path) > 0),                          -- file below the tree's root, in the bytes of the file system
    position INTEGER NOT NULL CHECK (position >= 0),                             -- of the record among those of the file, from 0
    PRIMARY KEY (run, source, path)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd
-- The foreign key, and what a file that is read again said.
CREATE INDEX live_copies_by_file ON live_copies (source, path);

-- +goose Down
DROP TABLE live_copies;
ALTER TABLE live_append_keys DROP COLUMN checksum;
ALTER TABLE run_spent_keys DROP COLUMN checksum;
ALTER TABLE run_append_keys DROP COLUMN checksum;
ALTER TABLE quarantine_parts DROP COLUMN checksum;
ALTER TABLE quarantine DROP COLUMN checksum;
ALTER TABLE import_files DROP COLUMN checksum;
ALTER TABLE import_sources DROP COLUMN checksum;
