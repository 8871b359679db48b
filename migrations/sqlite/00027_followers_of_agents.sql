-- Followers read what a commit touched by its key. The index for reading all cost each write of an agent as much as three others.
-- +goose Up
-- run_steps.epoch: of the lease under which the last attempt began; 0: a person said that the effect was done
DROP INDEX agents_followed;

-- +goose Down
CREATE INDEX agents_followed ON agents (scope, id, session_id, status, changes, thread, started_at, put_aside_at) WHERE put_aside_at IS NULL;
