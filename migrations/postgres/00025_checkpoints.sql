-- +goose Up
ALTER TABLE checkpoints DROP CONSTRAINT checkpoints_scope_run_id_state_key;
ALTER TABLE checkpoints ADD COLUMN agent_id TEXT COLLATE "C" CHECK (agent_id <> '');
CREATE UNIQUE INDEX checkpoints_by_run ON checkpoints (scope, run_id, coalesce(agent_id, ''), state);
DROP INDEX checkpoints_claimed;
CREATE INDEX checkpoints_claimed ON checkpoints (scope, run_id, coalesce(agent_id, '')) WHERE state = 'claimed';
ALTER TABLE checkpoint_history ADD COLUMN agent_id TEXT COLLATE "C";
DROP INDEX runs_ready;
CREATE INDEX runs_ready ON runs (scope, agent_id, ready_at, key) WHERE ready_at IS NOT NULL AND (ended_at IS NULL OR status = 'incomplete' AND ready_at >= ended_at);

-- +goose Down
DROP INDEX runs_ready;
CREATE INDEX runs_ready ON runs (scope, agent_id, ready_at, key) WHERE ready_at IS NOT NULL AND ended_at IS NULL;
ALTER TABLE checkpoint_history DROP COLUMN agent_id;
DROP INDEX checkpoints_claimed;
CREATE INDEX checkpoints_claimed ON checkpoints (scope, run_id) WHERE state = 'claimed';
DROP INDEX checkpoints_by_run;
ALTER TABLE checkpoints DROP COLUMN agent_id;
ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_scope_run_id_state_key UNIQUE (scope, run_id, state);
