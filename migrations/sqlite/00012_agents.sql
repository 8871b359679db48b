-- Indexes that find an agent in one seek, the namespace of its pid, the clocks of its lease, and checksums.

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

ALTER TABLE agents ADD COLUMN pid_ns INTEGER; -- inode of the pid namespace that pid belongs to; in another one nobody can tell whether it lives. NULL: not known, as of what was imported, and taken for the asker's
ALTER TABLE agents ADD COLUMN recorded_at INTEGER; -- Unix nanoseconds at which the agent came into this file; NULL: imported, or from before this was kept
ALTER TABLE agents ADD COLUMN checksum INTEGER; -- CRC-32C of scope, session_id and the columns from thread to document, pid_ns and recorded_at, but for put_aside_at; NULL: not written since there are checksums
ALTER TABLE agent_context_queries ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: from before there were checksums
ALTER TABLE agent_reservations ADD COLUMN lease_time_ns INTEGER; -- inode of the time namespace that lease_until counts in, 0 where the system has none; NULL: no lease
ALTER TABLE agent_reservations ADD COLUMN lease_wall_until INTEGER; -- Unix nanoseconds at which the lease ends by the wall clock, which decides where lease_until can't be compared and there is no owner; NULL: no lease

-- +goose Down
ALTER TABLE agent_reservations DROP COLUMN lease_wall_until;
ALTER TABLE agent_reservations DROP COLUMN lease_time_ns;
ALTER TABLE agent_context_queries DROP COLUMN checksum;
ALTER TABLE agents DROP COLUMN checksum;
ALTER TABLE agents DROP COLUMN recorded_at;
ALTER TABLE agents DROP COLUMN pid_ns;
DROP INDEX agents_by_start;
DROP INDEX agents_by_thread_start;
DROP INDEX agents_by_client;
DROP INDEX agents_by_heddle_session;
DROP INDEX agents_by_actor;
CREATE INDEX agents_by_start ON agents (scope, started_at DESC, session_id) WHERE put_aside_at IS NULL;
CREATE INDEX agents_by_client ON agents (scope, client_instance_id, started_at) WHERE client_instance_id IS NOT NULL AND put_aside_at IS NULL;
CREATE INDEX agents_by_heddle_session ON agents (scope, heddle_session_id, started_at) WHERE heddle_session_id IS NOT NULL AND put_aside_at IS NULL;
CREATE INDEX agents_by_actor ON agents (scope, native_actor_key, started_at) WHERE native_actor_key IS NOT NULL AND put_aside_at IS NULL;
