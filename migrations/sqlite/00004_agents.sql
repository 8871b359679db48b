-- The registry of agents: one row an agent session, what it looked at, and who holds which thread.

-- +goose Up
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

-- An id names one agent; those put aside have given theirs back.
CREATE UNIQUE INDEX agents_by_session ON agents (scope, session_id) WHERE put_aside_at IS NULL;
-- Who is on this thread: what reserving looks at, however many agents there are.
CREATE INDEX agents_by_thread ON agents (scope, thread, session_id) WHERE status = 'active';
-- The list, newest first.
CREATE INDEX agents_by_start ON agents (scope, started_at DESC, session_id) WHERE put_aside_at IS NULL;
-- What has become stale.
CREATE INDEX agents_by_end ON agents (scope, coalesce(completed_at, started_at)) WHERE status <> 'active' AND put_aside_at IS NULL;
-- What gc removes.
CREATE INDEX agents_aside ON agents (scope, put_aside_at) WHERE put_aside_at IS NOT NULL;
-- Finding an agent by what its client or harness calls it.
CREATE INDEX agents_by_client ON agents (scope, client_instance_id, started_at) WHERE client_instance_id IS NOT NULL AND put_aside_at IS NULL;
CREATE INDEX agents_by_heddle_session ON agents (scope, heddle_session_id, started_at) WHERE heddle_session_id IS NOT NULL AND put_aside_at IS NULL;
CREATE INDEX agents_by_actor ON agents (scope, native_actor_key, started_at) WHERE native_actor_key IS NOT NULL AND put_aside_at IS NULL;

-- What the agents looked at.
-- +goose StatementBegin
CREATE TABLE agent_context_queries (
    agent_id   INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- agents.id of the agent that looked
    position   INTEGER NOT NULL CHECK (position >= 0), -- from 0 and dense, in the order of looking
    path       TEXT    NOT NULL,                       -- file it looked at
    part       TEXT,                                   -- part of the file, such as 'symbol:main'; NULL: the whole
    queried_at INTEGER NOT NULL,                       -- Unix nanoseconds, clamped to 1677-2262
    exact      TEXT,                                   -- the time as text, where queried_at can't hold it; else NULL
    PRIMARY KEY (agent_id, position)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- Who holds which thread, and the leases: one row a live reservation.
-- +goose StatementBegin
CREATE TABLE agent_reservations (
    epoch         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- grows with every reservation in this file, never given twice; what a lease's writes must carry
    scope         INTEGER NOT NULL REFERENCES scopes (id),    -- the scope of the thread
    thread        TEXT    NOT NULL,                           -- what is reserved
    agent_id      INTEGER NOT NULL UNIQUE REFERENCES agents (id) ON DELETE CASCADE, -- agents.id of the holder, active and on this thread; the row goes when it no longer is
    reserved_at   INTEGER NOT NULL,                           -- Unix nanoseconds
    heartbeat_at  INTEGER,                                    -- Unix nanoseconds of the lease's last heartbeat, newer than those of agents; NULL: none since agents was written
    lease_ttl     INTEGER CHECK (lease_ttl > 0),              -- nanoseconds that a heartbeat adds; NULL: no lease, and pid and boot_id of the agent tell whether it lives
    lease_until   INTEGER,                                    -- nanoseconds of the machine's boot clock at which the lease ends; NULL: no lease
    lease_boot_id TEXT,                                       -- the machine's start that lease_until counts from; NULL: no lease
    owner_id      INTEGER REFERENCES owners (id),             -- process whose death ends the lease; NULL: no lease, or one that outlives its process
    pid_born_at   INTEGER,                                    -- when the agent's pid was started, on a clock of the system's own; another value is another process. NULL: not known
    UNIQUE (scope, thread),
    CHECK ((lease_ttl IS NULL) = (lease_until IS NULL) AND (lease_ttl IS NULL) = (lease_boot_id IS NULL)),
    CHECK (lease_ttl IS NOT NULL OR coalesce(owner_id, pid_born_at, heartbeat_at) IS NULL)
) STRICT;
-- +goose StatementEnd

-- The foreign key: only leases have an owner.
CREATE INDEX agent_reservations_by_owner ON agent_reservations (owner_id) WHERE owner_id IS NOT NULL;

-- +goose Down
DROP TABLE agent_reservations;
DROP TABLE agent_context_queries;
DROP TABLE agents;
