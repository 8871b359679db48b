-- Numbers of agents that are never used again, what their followers go by, indexes that find an agent in one seek, the namespace of its pid, the clocks of its lease, and checksums.

-- +goose Up
-- A cursor names an agent by the number of its row, and so does an import: no other agent may come under it.
CREATE TABLE agents_before AS SELECT * FROM agents;
DROP TABLE agents;
-- The agents, stale ones included. NULL: not given, where a column says nothing else.
-- +goose StatementBegin
CREATE TABLE agents (
    id                      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row in this file, never used again
    scope                   INTEGER NOT NULL REFERENCES scopes (id),  -- the scope the agent belongs to
    session_id              TEXT    NOT NULL CHECK (session_id <> '' AND session_id NOT GLOB '*[^a-z0-9-]*'), -- the agent's id
    thread                  TEXT    NOT NULL,                         -- the line of work it writes to
    status                  TEXT    NOT NULL CHECK (status IN ('active', 'abandoned', 'complete', 'merged')), -- every change between them is allowed
    started_at              INTEGER NOT NULL,                         -- Unix nanoseconds, clamped to 1677-2262
    completed_at            INTEGER,                                  -- Unix nanoseconds, clamped; NULL: not ended, or ended without a time
    put_aside_at            INTEGER,                                  -- Unix nanoseconds at which a call met it seven days after its end: gone for every call, kept until gc; NULL: in the registry
    pid                     INTEGER CHECK (pid BETWEEN 0 AND 4294967295), -- process whose death ends the agent; NULL: nobody can tell
    boot_id                 TEXT,                                     -- of the machine's start that pid belongs to; NULL: taken for the present one
    heartbeat_at            INTEGER,                                  -- Unix nanoseconds, clamped; NULL: never. agent_reservations has the heartbeats of a lease
    last_progress_at        INTEGER,                                  -- Unix nanoseconds, clamped; NULL: never
    client_instance_id      TEXT,                                     -- client program; NULL: not given, as in all TEXT columns below
    native_actor_key        TEXT,                                     -- the harness's own name for this actor
    native_parent_actor_key TEXT,                                     -- the native_actor_key of the actor that started it
    native_instance_key     TEXT,                                     -- the harness's own name for its instance
    heddle_session_id       TEXT,                                     -- session of the program that kept the registry
    thread_id               TEXT,                                     -- id of the thread
    liveness_path           TEXT,                                     -- a note; no rule looks at it
    anchor_state            TEXT,                                     -- state the work is anchored to
    anchor_root             TEXT,                                     -- its root
    reservation_token       TEXT,                                     -- a note; never compared
    path                    TEXT,                                     -- worktree
    base_state              TEXT    NOT NULL,                         -- state the work began from
    provider                TEXT,                                     -- of the model
    model                   TEXT,                                     -- model's name
    harness                 TEXT,                                     -- program the agent runs in
    thinking_level          TEXT,                                     -- as the harness names it
    input_tokens            INTEGER,                                  -- count, clamped to 2^63-1; NULL: not counted, as in the four below
    output_tokens           INTEGER,                                  -- count, clamped
    reasoning_tokens        INTEGER,                                  -- count, clamped
    tool_calls              INTEGER,                                  -- count
    cost_micros_usd         INTEGER,                                  -- millionths of a US dollar, clamped
    report_flush_state      TEXT,                                     -- as the harness bridge names it
    attach_precedence       TEXT,                                     -- JSON array of the rules that were tried; NULL: none
    winning_attach_rule     TEXT,                                     -- the rule that won
    probe_source            TEXT,                                     -- where the attach rule got its facts
    probe_confidence        REAL,                                     -- 0 to 1 by custom; NULL: not given, or no number
    attach_reason           TEXT,                                     -- what the agent is for, in words
    exact                   TEXT,                                     -- JSON object: column name to text, of the values that their columns can't hold (other years, second 60, above 2^63-1, nan); NULL: all can
    document                BLOB,                                     -- TOML document it was imported from, where writing the columns would give another; NULL: it would not
    CHECK (put_aside_at IS NULL OR status <> 'active')
) STRICT;
-- +goose StatementEnd
INSERT INTO agents SELECT * FROM agents_before;
DROP TABLE agents_before;

-- An id names one agent; those put aside have given theirs back.
CREATE UNIQUE INDEX agents_by_session ON agents (scope, session_id) WHERE put_aside_at IS NULL;
-- Who is on this thread: what reserving looks at, however many agents there are.
CREATE INDEX agents_by_thread ON agents (scope, thread, session_id) WHERE status = 'active';
-- What has become stale.
CREATE INDEX agents_by_end ON agents (scope, coalesce(completed_at, started_at)) WHERE status <> 'active' AND put_aside_at IS NULL;
-- What gc removes.
CREATE INDEX agents_aside ON agents (scope, put_aside_at) WHERE put_aside_at IS NOT NULL;
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

-- Where the active agents work, newest first: who looks for a path reads no rows.
CREATE INDEX agents_by_path ON agents (scope, status, started_at DESC, session_id, path, native_instance_key, put_aside_at)
    WHERE path IS NOT NULL AND put_aside_at IS NULL AND status = 'active';

ALTER TABLE agents ADD COLUMN pid_ns INTEGER; -- inode of the pid namespace that pid belongs to; in another one nobody can tell whether it lives. NULL: not known, as of what was imported, and taken for the asker's
ALTER TABLE agents ADD COLUMN recorded_at INTEGER; -- Unix nanoseconds at which the agent came into this file; NULL: imported, or from before this was kept
ALTER TABLE agents ADD COLUMN changes INTEGER NOT NULL DEFAULT 1; -- how often the entry was written; what followers go by
ALTER TABLE agents ADD COLUMN checksum INTEGER; -- CRC-32C of scope, session_id and the columns from thread to document, pid_ns and recorded_at, but for put_aside_at; NULL: not written since there are checksums
-- What the followers of all agents look at after a commit.
CREATE INDEX agents_followed ON agents (scope, id, session_id, status, changes, thread, started_at, put_aside_at) WHERE put_aside_at IS NULL;
ALTER TABLE agent_context_queries ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: from before there were checksums
ALTER TABLE agent_reservations ADD COLUMN lease_time_ns INTEGER; -- inode of the time namespace that lease_until counts in, 0 where the system has none; NULL: no lease
ALTER TABLE agent_reservations ADD COLUMN lease_wall_until INTEGER; -- Unix nanoseconds at which the lease ends by the wall clock, which decides where lease_until can't be compared and there is no owner; NULL: no lease

-- +goose Down
ALTER TABLE agent_reservations DROP COLUMN lease_wall_until;
ALTER TABLE agent_reservations DROP COLUMN lease_time_ns;
ALTER TABLE agent_context_queries DROP COLUMN checksum;
CREATE TABLE agents_later AS SELECT * FROM agents;
DROP TABLE agents;
-- The agents, stale ones included. NULL: not given, where a column says nothing else.
-- +goose StatementBegin
CREATE TABLE agents (
    id                      INTEGER NOT NULL PRIMARY KEY,             -- number of the row, inside this file only
    scope                   INTEGER NOT NULL REFERENCES scopes (id),  -- the scope the agent belongs to
    session_id              TEXT    NOT NULL CHECK (session_id <> '' AND session_id NOT GLOB '*[^a-z0-9-]*'), -- the agent's id
    thread                  TEXT    NOT NULL,                         -- the line of work it writes to
    status                  TEXT    NOT NULL CHECK (status IN ('active', 'abandoned', 'complete', 'merged')), -- every change between them is allowed
    started_at              INTEGER NOT NULL,                         -- Unix nanoseconds, clamped to 1677-2262
    completed_at            INTEGER,                                  -- Unix nanoseconds, clamped; NULL: not ended, or ended without a time
    put_aside_at            INTEGER,                                  -- Unix nanoseconds at which a call met it seven days after its end: gone for every call, kept until gc; NULL: in the registry
    pid                     INTEGER CHECK (pid BETWEEN 0 AND 4294967295), -- process whose death ends the agent; NULL: nobody can tell
    boot_id                 TEXT,                                     -- of the machine's start that pid belongs to; NULL: taken for the present one
    heartbeat_at            INTEGER,                                  -- Unix nanoseconds, clamped; NULL: never. agent_reservations has the heartbeats of a lease
    last_progress_at        INTEGER,                                  -- Unix nanoseconds, clamped; NULL: never
    client_instance_id      TEXT,                                     -- client program; NULL: not given, as in all TEXT columns below
    native_actor_key        TEXT,                                     -- the harness's own name for this actor
    native_parent_actor_key TEXT,                                     -- the native_actor_key of the actor that started it
    native_instance_key     TEXT,                                     -- the harness's own name for its instance
    heddle_session_id       TEXT,                                     -- session of the program that kept the registry
    thread_id               TEXT,                                     -- id of the thread
    liveness_path           TEXT,                                     -- a note; no rule looks at it
    anchor_state            TEXT,                                     -- state the work is anchored to
    anchor_root             TEXT,                                     -- its root
    reservation_token       TEXT,                                     -- a note; never compared
    path                    TEXT,                                     -- worktree
    base_state              TEXT    NOT NULL,                         -- state the work began from
    provider                TEXT,                                     -- of the model
    model                   TEXT,                                     -- model's name
    harness                 TEXT,                                     -- program the agent runs in
    thinking_level          TEXT,                                     -- as the harness names it
    input_tokens            INTEGER,                                  -- count, clamped to 2^63-1; NULL: not counted, as in the four below
    output_tokens           INTEGER,                                  -- count, clamped
    reasoning_tokens        INTEGER,                                  -- count, clamped
    tool_calls              INTEGER,                                  -- count
    cost_micros_usd         INTEGER,                                  -- millionths of a US dollar, clamped
    report_flush_state      TEXT,                                     -- as the harness bridge names it
    attach_precedence       TEXT,                                     -- JSON array of the rules that were tried; NULL: none
    winning_attach_rule     TEXT,                                     -- the rule that won
    probe_source            TEXT,                                     -- where the attach rule got its facts
    probe_confidence        REAL,                                     -- 0 to 1 by custom; NULL: not given, or no number
    attach_reason           TEXT,                                     -- what the agent is for, in words
    exact                   TEXT,                                     -- JSON object: column name to text, of the values that their columns can't hold (other years, second 60, above 2^63-1, nan); NULL: all can
    document                BLOB,                                     -- TOML document it was imported from, where writing the columns would give another; NULL: it would not
    CHECK (put_aside_at IS NULL OR status <> 'active')
) STRICT;
-- +goose StatementEnd
INSERT INTO agents SELECT id, scope, session_id, thread, status, started_at, completed_at, put_aside_at, pid, boot_id, heartbeat_at,
    last_progress_at, client_instance_id, native_actor_key, native_parent_actor_key, native_instance_key,
    heddle_session_id, thread_id, liveness_path, anchor_state, anchor_root, reservation_token, path, base_state,
    provider, model, harness, thinking_level, input_tokens, output_tokens, reasoning_tokens, tool_calls,
    cost_micros_usd, report_flush_state, attach_precedence, winning_attach_rule, probe_source, probe_confidence,
    attach_reason, exact, document
FROM agents_later;
DROP TABLE agents_later;
CREATE UNIQUE INDEX agents_by_session ON agents (scope, session_id) WHERE put_aside_at IS NULL;
CREATE INDEX agents_by_thread ON agents (scope, thread, session_id) WHERE status = 'active';
CREATE INDEX agents_by_start ON agents (scope, started_at DESC, session_id) WHERE put_aside_at IS NULL;
CREATE INDEX agents_by_end ON agents (scope, coalesce(completed_at, started_at)) WHERE status <> 'active' AND put_aside_at IS NULL;
CREATE INDEX agents_aside ON agents (scope, put_aside_at) WHERE put_aside_at IS NOT NULL;
CREATE INDEX agents_by_client ON agents (scope, client_instance_id, started_at) WHERE client_instance_id IS NOT NULL AND put_aside_at IS NULL;
CREATE INDEX agents_by_heddle_session ON agents (scope, heddle_session_id, started_at) WHERE heddle_session_id IS NOT NULL AND put_aside_at IS NULL;
CREATE INDEX agents_by_actor ON agents (scope, native_actor_key, started_at) WHERE native_actor_key IS NOT NULL AND put_aside_at IS NULL;
