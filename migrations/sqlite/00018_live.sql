-- Live runs: what is many goes in parts, before and behind the moment at which it can be seen.

-- +goose Up
-- Writing or removing many events in one transaction would hold up all writers. Those of runs that replace others are written
-- before their runs are, and those of runs that were removed go after them, some at a time, whoever goes on where it was stopped.
-- +goose StatementBegin
CREATE TABLE live_leavings (
    run      INTEGER NOT NULL PRIMARY KEY,  -- number of a live run that is not there, and of which events may be
    owner_id INTEGER REFERENCES owners (id) -- the process that writes them, to add the run when it has; once that is dead they go. NULL: they go
) STRICT;
-- +goose StatementEnd
-- The foreign key.
CREATE INDEX live_leavings_by_owner ON live_leavings (owner_id) WHERE owner_id IS NOT NULL;

DROP TRIGGER live_runs_delete_events;
-- A trigger in place of a foreign key: the events of a run are one range of ids, so no event pays for a reference. Those of a run
-- whose number is in live_leavings go later.
-- +goose StatementBegin
CREATE TRIGGER live_runs_delete_events AFTER DELETE ON live_runs
WHEN NOT EXISTS (SELECT 1 FROM live_leavings WHERE run = OLD.key) BEGIN
    DELETE FROM live_events WHERE id >= OLD.key << 32 AND id < (OLD.key + 1) << 32;
END;
-- +goose StatementEnd

-- +goose Down
DELETE FROM live_events WHERE id >> 32 IN (SELECT run FROM live_leavings);
DROP TRIGGER live_runs_delete_events;
DROP TABLE live_leavings;
-- +goose StatementBegin
CREATE TRIGGER live_runs_delete_events AFTER DELETE ON live_runs BEGIN
    DELETE FROM live_events WHERE id >= OLD.key << 32 AND id < (OLD.key + 1) << 32;
END;
-- +goose StatementEnd
