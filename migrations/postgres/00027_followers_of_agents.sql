-- +goose Up
DROP INDEX agents_followed;

-- +goose Down
CREATE INDEX agents_followed ON agents (scope, id, session_id, status, changes, started_at, put_aside_at) WHERE put_aside_at IS NULL;
