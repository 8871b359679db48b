-- A row of a B-tree takes 2,704 bytes. Ids have at most 1 KiB, and of these two fit; what users and files may call something of any
-- length is found by its beginning, which also keeps it in order, and is unique by a digest behind that. package db: Same.
-- +goose Up
-- +goose StatementBegin
-- An index takes no convert_to, which is STABLE since somebody may define another conversion.
CREATE FUNCTION digest_of(value TEXT) RETURNS BYTEA LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN sha256(convert_to(value, 'UTF8'));
-- +goose StatementEnd

ALTER TABLE import_sources DROP CONSTRAINT import_sources_scope_kind_root_key;
CREATE UNIQUE INDEX import_sources_scope_kind_root_key ON import_sources (scope, kind, coalesce(substr(root, 1, 200), root), sha256(root));

ALTER TABLE import_files DROP CONSTRAINT import_files_pkey;
CREATE UNIQUE INDEX import_files_pkey ON import_files (source, coalesce(substr(path, 1, 200), path), sha256(path));

ALTER TABLE quarantine DROP CONSTRAINT quarantine_source_path_byte_offset_what_key;
CREATE UNIQUE INDEX quarantine_source_path_byte_offset_what_key ON quarantine (source, coalesce(substr(path, 1, 200), path), byte_offset, what, sha256(path));

DROP INDEX live_imports_by_file;
CREATE INDEX live_imports_by_file ON live_imports (source, coalesce(substr(path, 1, 200), path), position);

ALTER TABLE live_copies DROP CONSTRAINT live_copies_pkey;
CREATE UNIQUE INDEX live_copies_pkey ON live_copies (run, source, coalesce(substr(path, 1, 200), path), sha256(path));
DROP INDEX live_copies_by_file;
CREATE INDEX live_copies_by_file ON live_copies (source, coalesce(substr(path, 1, 200), path));

-- Three ids in one key.
ALTER TABLE run_spent_keys DROP CONSTRAINT run_spent_keys_pkey;
CREATE UNIQUE INDEX run_spent_keys_pkey ON run_spent_keys (scope, coalesce(substr(run_id, 1, 200), run_id), coalesce(substr(agent_id, 1, 200), agent_id), coalesce(substr(append_key, 1, 200), append_key),
    digest_of(run_id), digest_of(agent_id), digest_of(append_key));

ALTER TABLE agent_reservations DROP CONSTRAINT agent_reservations_scope_thread_key;
CREATE UNIQUE INDEX agent_reservations_scope_thread_key ON agent_reservations (scope, coalesce(substr(thread, 1, 200), thread), digest_of(thread));

DROP INDEX agents_by_thread;
CREATE INDEX agents_by_thread ON agents (scope, coalesce(substr(thread, 1, 200), thread), session_id) WHERE status = 'active';
DROP INDEX agents_by_thread_start;
CREATE INDEX agents_by_thread_start ON agents (scope, coalesce(substr(thread, 1, 200), thread), started_at DESC, session_id) WHERE put_aside_at IS NULL;
DROP INDEX agents_by_client;
CREATE INDEX agents_by_client ON agents (scope, coalesce(substr(client_instance_id, 1, 200), client_instance_id), started_at DESC, session_id) WHERE client_instance_id IS NOT NULL AND put_aside_at IS NULL AND status = 'active';
DROP INDEX agents_by_heddle_session;
CREATE INDEX agents_by_heddle_session ON agents (scope, coalesce(substr(heddle_session_id, 1, 200), heddle_session_id), started_at DESC, session_id) WHERE heddle_session_id IS NOT NULL AND put_aside_at IS NULL AND status = 'active';
DROP INDEX agents_by_actor;
CREATE INDEX agents_by_actor ON agents (scope, coalesce(substr(native_actor_key, 1, 200), native_actor_key), started_at DESC, session_id) WHERE native_actor_key IS NOT NULL AND put_aside_at IS NULL;
-- In a file these two hold all that is asked of them, so that no row is read.
DROP INDEX agents_by_path;
CREATE INDEX agents_by_path ON agents (scope, status, started_at DESC, session_id, put_aside_at) WHERE path IS NOT NULL AND put_aside_at IS NULL AND status = 'active';
DROP INDEX agents_followed;
CREATE INDEX agents_followed ON agents (scope, id, session_id, status, changes, started_at, put_aside_at) WHERE put_aside_at IS NULL;

-- +goose Down
DROP INDEX agents_followed;
CREATE INDEX agents_followed ON agents (scope, id, session_id, status, changes, thread, started_at, put_aside_at) WHERE put_aside_at IS NULL;
DROP INDEX agents_by_path;
CREATE INDEX agents_by_path ON agents (scope, status, started_at DESC, session_id, path, native_instance_key, put_aside_at) WHERE path IS NOT NULL AND put_aside_at IS NULL AND status = 'active';
DROP INDEX agents_by_actor;
CREATE INDEX agents_by_actor ON agents (scope, native_actor_key, started_at DESC, session_id) WHERE native_actor_key IS NOT NULL AND put_aside_at IS NULL;
DROP INDEX agents_by_heddle_session;
CREATE INDEX agents_by_heddle_session ON agents (scope, heddle_session_id, started_at DESC, session_id) WHERE heddle_session_id IS NOT NULL AND put_aside_at IS NULL AND status = 'active';
DROP INDEX agents_by_client;
CREATE INDEX agents_by_client ON agents (scope, client_instance_id, started_at DESC, session_id) WHERE client_instance_id IS NOT NULL AND put_aside_at IS NULL AND status = 'active';
DROP INDEX agents_by_thread_start;
CREATE INDEX agents_by_thread_start ON agents (scope, thread, started_at DESC, session_id) WHERE put_aside_at IS NULL;
DROP INDEX agents_by_thread;
CREATE INDEX agents_by_thread ON agents (scope, thread, session_id) WHERE status = 'active';
DROP INDEX agent_reservations_scope_thread_key;
ALTER TABLE agent_reservations ADD UNIQUE (scope, thread);
DROP INDEX run_spent_keys_pkey;
ALTER TABLE run_spent_keys ADD PRIMARY KEY (scope, run_id, agent_id, append_key);
DROP INDEX live_copies_by_file;
CREATE INDEX live_copies_by_file ON live_copies (source, path);
DROP INDEX live_copies_pkey;
ALTER TABLE live_copies ADD PRIMARY KEY (run, source, path);
DROP INDEX live_imports_by_file;
CREATE INDEX live_imports_by_file ON live_imports (source, path, position);
DROP INDEX quarantine_source_path_byte_offset_what_key;
ALTER TABLE quarantine ADD UNIQUE (source, path, byte_offset, what);
DROP INDEX import_files_pkey;
ALTER TABLE import_files ADD PRIMARY KEY (source, path);
DROP INDEX import_sources_scope_kind_root_key;
ALTER TABLE import_sources ADD UNIQUE (scope, kind, root);
DROP FUNCTION digest_of;
