-- Run traces: what makes an append repeatable where its outcome was unknown, when a record was written, checksums, and the removal of long runs.

-- +goose Up
ALTER TABLE run_records ADD COLUMN batch INTEGER; -- number of the call that wrote the record, by which a repeat of it is known; NULL: not the first of its call, imported, or from before there were such numbers
ALTER TABLE run_records ADD COLUMN recorded_at INTEGER; -- Unix nanoseconds at which it was written; NULL: imported, or from before this was kept
ALTER TABLE run_records ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it, id excepted; NULL: from before there were checksums
ALTER TABLE run_records ADD COLUMN bytes INTEGER; -- bytes of the texts and JSON in this row and in those before it in its trace, so that the last one has the run's; NULL: the run began before this was kept
ALTER TABLE runs ADD COLUMN summary TEXT; -- what the last end says of the run in words; NULL: it says nothing, or was written before this was kept
ALTER TABLE runs ADD COLUMN checksum INTEGER; -- CRC-32C of scope and of the columns from agent_id to others and summary; NULL: not written to since there are checksums
ALTER TABLE runs ADD COLUMN parent INTEGER REFERENCES runs (key) ON DELETE SET NULL; -- the run that started this one; NULL: none did, nobody said, or it was removed
-- The runs that a run started, and the foreign key: few have a parent.
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;

-- Removing a long run in one transaction would hold up all writers. Retention removes its row, so that nobody sees it any
-- more, puts its number here, and then removes the records, some at a time, whoever runs next where it was stopped.
-- +goose StatementBegin
CREATE TABLE run_leavings (
    run INTEGER NOT NULL PRIMARY KEY -- key of a run that is gone, and of whose records some may be left
) STRICT;
-- +goose StatementEnd

-- The keys of appends to runs that were removed, so that a repeat which comes late does not make the run anew. They go after
-- 30 days.
-- +goose StatementBegin
CREATE TABLE run_spent_keys (
    scope      INTEGER NOT NULL REFERENCES scopes (id), -- the scope of the run
    run_id     TEXT    NOT NULL,                        -- the run appended to
    agent_id   TEXT    NOT NULL,                        -- its agent
    append_key TEXT    NOT NULL,                        -- the caller's key
    digest     BLOB    NOT NULL CHECK (length(digest) = 32), -- as in run_append_keys
    removed_at INTEGER NOT NULL,                        -- Unix nanoseconds at which the run was removed
    PRIMARY KEY (scope, run_id, agent_id, append_key)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd
-- Those that are old enough to go.
CREATE INDEX run_spent_keys_by_time ON run_spent_keys (removed_at);

DROP TRIGGER runs_delete_records;
-- In place of a foreign key: the records of a run are one range of ids, so no append pays for a reference. Those of a run whose
-- number is in run_leavings go later.
-- +goose StatementBegin
CREATE TRIGGER runs_delete_records AFTER DELETE ON runs
WHEN NOT EXISTS (SELECT 1 FROM run_leavings WHERE run = OLD.key) BEGIN
    DELETE FROM run_records WHERE id > OLD.key << 24 AND id < (OLD.key + 1) << 24;
END;
-- +goose StatementEnd

-- +goose Down
DELETE FROM run_records WHERE id >> 24 IN (SELECT run FROM run_leavings);
DROP TRIGGER runs_delete_records;
DROP TABLE run_spent_keys;
DROP TABLE run_leavings;
-- +goose StatementBegin
CREATE TRIGGER runs_delete_records AFTER DELETE ON runs BEGIN
    DELETE FROM run_records WHERE id > OLD.key << 24 AND id < (OLD.key + 1) << 24;
END;
-- +goose StatementEnd
DROP INDEX runs_by_parent;
ALTER TABLE runs DROP COLUMN parent;
ALTER TABLE runs DROP COLUMN checksum;
ALTER TABLE runs DROP COLUMN summary;
ALTER TABLE run_records DROP COLUMN bytes;
ALTER TABLE run_records DROP COLUMN checksum;
ALTER TABLE run_records DROP COLUMN recorded_at;
ALTER TABLE run_records DROP COLUMN batch;
