-- Recovery looks at claims alone; the clocks of their leases, checksums, and the claims that are over.

-- +goose Up
-- The claims: what recovery goes through, however many runs wait.
CREATE INDEX checkpoints_claimed ON checkpoints (scope, run_id) WHERE state = 'claimed';

ALTER TABLE checkpoints ADD COLUMN lease_time_ns INTEGER; -- inode of the time namespace that lease_until counts in, 0 where the system has none; NULL: no lease
ALTER TABLE checkpoints ADD COLUMN lease_wall_until INTEGER; -- Unix nanoseconds at which the claim may be taken away by the wall clock; the lock of its process decides before that. NULL: no lease
ALTER TABLE checkpoints ADD COLUMN changes INTEGER NOT NULL DEFAULT 1; -- how often the row was saved, claimed and given back; what followers go by
ALTER TABLE checkpoints ADD COLUMN row_checksum INTEGER; -- CRC-32C of scope, run_id and the columns from paused_stage_id to problem; NULL: not saved since there are checksums
ALTER TABLE checkpoint_documents ADD COLUMN checksum INTEGER; -- CRC-32C of checkpoint and document; NULL: not saved since there are checksums

-- The claims that are over, in the order of their ends, for who asks later who approved what. They stay until retention takes
-- them, and no call about runs that wait or are claimed sees them. The document does not stay.
-- +goose StatementBegin
CREATE TABLE checkpoint_history (
    id              INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the entry
    scope           INTEGER NOT NULL REFERENCES scopes (id), -- the scope of the run
    run_id          TEXT    NOT NULL,                        -- the run
    ending          TEXT    NOT NULL CHECK (ending IN ('completed', 'superseded')), -- completed: the run was resumed to its next pause or its end, says its holder; superseded: nobody said so, but it had paused again, and that pause was claimed or waits
    decision        TEXT,                                    -- what was decided, in the words of who completed the claim; NULL: not said
    decided_by      TEXT,                                    -- who decided, in the same words; NULL: not said
    paused_stage_id TEXT,                                    -- approval stage that the run waited at; NULL: its document could not be read
    prompt          TEXT,                                    -- what the person was asked; NULL: as above
    created_at      INTEGER,                                 -- Unix nanoseconds at which the run paused, as in checkpoints; NULL: as above
    created_at_text TEXT,                                    -- that time as the document had it, where created_at could not hold it; else NULL
    saved_at        INTEGER NOT NULL,                        -- Unix nanoseconds of the save or import that brought the document
    size            INTEGER NOT NULL CHECK (size >= 0),      -- bytes that the document had
    claimed_at      INTEGER NOT NULL,                        -- Unix nanoseconds of the claim, or of the import that brought it
    completed_at    INTEGER NOT NULL,                        -- Unix nanoseconds at which the claim was over
    epoch           INTEGER,                                 -- of the claim; NULL: it was imported
    owner_pid       INTEGER,                                 -- id of the process that claimed; NULL: it was imported
    owner_program   TEXT,                                    -- base name of its executable; NULL: it was imported
    checksum        INTEGER                                  -- CRC-32C of the columns before it, id excepted; NULL: edited by hand
) STRICT;
-- +goose StatementEnd
-- Those of a run, the last first.
CREATE INDEX checkpoint_history_by_run ON checkpoint_history (scope, run_id, id);
-- The last ones of a scope, and the first ones for retention.
CREATE INDEX checkpoint_history_by_time ON checkpoint_history (scope, completed_at, id);

-- +goose Down
DROP TABLE checkpoint_history;
ALTER TABLE checkpoint_documents DROP COLUMN checksum;
ALTER TABLE checkpoints DROP COLUMN row_checksum;
ALTER TABLE checkpoints DROP COLUMN changes;
ALTER TABLE checkpoints DROP COLUMN lease_wall_until;
ALTER TABLE checkpoints DROP COLUMN lease_time_ns;
DROP INDEX checkpoints_claimed;
