-- Indexes that find an agent in one seek.

-- +goose Up
DROP INDEX agents_by_start;
DROP INDEX agents_by_client;
DROP INDEX agents_by_heddle_session;
DROP INDEX agents_by_actor;

-- The list, newest first; the status besides, so that a list of one status reads no rows of the others.
CREATE INDEX agents_by_start ON agents (scope, started_at DESC, session_id, status) WHERE put_aside_at IS NULL;
-- The list of a thread, newest first.
CREATE INDEX agents_by_thread_start ON agents (scope, thread, started_at DESC, session_id) WHERE put_aside_at IS NULL;
-- Finding the newest active agent by what its client or harness calls it. They serve the order too: SQLite takes an index
-- that sorts before one that finds.
CREATE INDEX agents_by_client ON agents (scope, client_instance_id, started_at DESC, session_id)
    WHERE client_instance_id IS NOT NULL AND put_aside_at IS NULL AND status = 'active';
-- The same by the session of the program that kept the registry.
CREATE INDEX agents_by_heddle_session ON agents (scope, heddle_session_id, started_at DESC, session_id)
    WHERE heddle_session_id IS NOT NULL AND put_aside_at IS NULL AND status = 'active';
-- And, read backwards, the oldest agent of a key, active or not: the parent of others.
CREATE INDEX agents_by_actor ON agents (scope, native_actor_key, started_at DESC, session_id)
    WHERE native_actor_key IS NOT NULL AND put_aside_at IS NULL;

-- +goose Down
DROP INDEX agents_by_start;
DROP INDEX agents_by_thread_start;
DROP INDEX agents_by_client;
DROP INDEX agents_by_heddle_session;
DROP INDEX agents_by_actor;
CREATE INDEX agents_by_start ON agents (scope, started_at DESC, session_id) WHERE put_aside_at IS NULL;
CREATE INDEX agents_by_client ON agents (scope, client_instance_id, started_at) WHERE client_instance_id IS NOT NULL AND put_aside_at IS NULL;
CREATE INDEX agents_by_heddle_session ON agents (scope, heddle_session_id, started_at) WHERE heddle_session_id IS NOT NULL AND put_aside_at IS NULL;
CREATE INDEX agents_by_actor ON agents (scope, native_actor_key, started_at) WHERE native_actor_key IS NOT NULL AND put_aside_at IS NULL;
