-- All agents that the file knows, those too that a call put aside seven days after their end: no call sees them, and their ids are free.
CREATE VIEW v_agents AS
SELECT
    s.name                    AS scope,             -- '' is the default scope
    a.session_id              AS session_id,        -- the agent's id
    a.thread                  AS thread,            -- the line of work it writes to
    a.status                  AS status,            -- active, abandoned, complete or merged
    r.epoch IS NOT NULL       AS reserved,          -- 1: the thread is reserved for it
    r.lease_ttl IS NOT NULL   AS leased,            -- 1: and the reservation ends without heartbeats
    utc(a.started_at) AS started_at, -- UTC
    a.started_at AS started_at_ns, -- Unix nanoseconds
    utc(a.recorded_at) AS recorded_at, -- UTC, at which it came into this file; NULL: imported
    a.recorded_at AS recorded_at_ns, -- Unix nanoseconds; NULL: imported
    utc(a.put_aside_at) AS put_aside_at, -- UTC; NULL: in the registry
    a.put_aside_at AS put_aside_at_ns, -- Unix nanoseconds; NULL: in the registry
    utc(a.completed_at) AS completed_at, -- UTC; NULL: not ended, or ended without a time
    a.completed_at AS completed_at_ns, -- Unix nanoseconds; NULL: not ended, or ended without a time
    utc(coalesce(r.heartbeat_at, a.heartbeat_at)) AS heartbeat_at, -- UTC; NULL: never
    coalesce(r.heartbeat_at, a.heartbeat_at) AS heartbeat_at_ns, -- Unix nanoseconds; NULL: never
    CASE WHEN a.status = 'active' THEN CAST(strftime('%s', 'now') AS INTEGER) - max(a.started_at, coalesce(a.heartbeat_at, a.started_at), coalesce(a.last_progress_at, a.started_at), coalesce(r.heartbeat_at, a.started_at)) / 1000000000
        END                   AS silent_seconds,    -- since its start or its last heartbeat or progress; NULL: it has ended
    a.pid                     AS pid,               -- NULL: nobody can tell whether it lives
    a.boot_id                 AS boot_id,           -- of the machine's start that pid belongs to
    shown(a.harness)                 AS harness,           -- program the agent runs in
    shown(a.provider)                AS provider,          -- of the model
    shown(a.model)                   AS model,             -- model's name
    shown(a.model)                   AS request_model,     -- the same, under the name that all views have
    NULL                      AS response_model,    -- NULL: a registry doesn't know
    a.path                    AS path,              -- worktree
    shown(a.attach_reason)           AS attach_reason,     -- what the agent is for
    a.client_instance_id      AS client_instance_id, -- client program
    a.native_actor_key        AS native_actor_key,  -- the harness's own name for it
    a.native_parent_actor_key AS native_parent_actor_key, -- and for the actor that started it
    a.input_tokens            AS input_tokens,      -- by all its runs, as all to cost_source: v_usage has what can be added up; NULL: not counted
    NULL                      AS cache_read_input_tokens, -- NULL: a registry doesn't count these
    NULL                      AS cache_write_input_tokens, -- NULL: as above
    a.output_tokens           AS output_tokens,     -- NULL: not counted
    a.reasoning_tokens        AS reasoning_output_tokens, -- NULL: not counted
    a.tool_calls              AS tool_calls,        -- NULL: not counted
    a.cost_micros_usd / 1e6   AS cost_usd,          -- NULL: not counted
    CASE WHEN a.cost_micros_usd IS NOT NULL THEN 'reported' END AS cost_source, -- reported: the agent says it; NULL: not counted
    (SELECT count(*) FROM agent_context_queries q WHERE q.agent_id = a.id) AS context_queries, -- looks at context
    a.id                      AS agent              -- the row's number, which tells those with one id apart
FROM agents a
JOIN scopes s ON s.id = a.scope
LEFT JOIN agent_reservations r ON r.agent_id = a.id;

-- Who is on which thread: a row for every active agent, of which at most one has reserved it.
CREATE VIEW v_threads AS
SELECT
    s.name                  AS scope,         -- '' is the default scope
    a.thread                AS thread,        -- the line of work
    a.session_id            AS session_id,    -- agent that is active on it
    CASE WHEN r.epoch IS NULL THEN 'active' WHEN r.lease_ttl IS NULL THEN 'reserved' ELSE 'leased'
        END                 AS held,          -- reserved and leased: it has the thread; active: it works there without having asked
    utc(coalesce(r.reserved_at, a.started_at)) AS since, -- UTC; of the reservation, else of the agent
    coalesce(r.reserved_at, a.started_at) AS since_ns, -- Unix nanoseconds
    CAST(strftime('%s', 'now') AS INTEGER) - coalesce(r.reserved_at, a.started_at) / 1000000000 AS held_seconds, -- since then
    CAST(strftime('%s', 'now') AS INTEGER) - max(a.started_at, coalesce(a.heartbeat_at, a.started_at), coalesce(a.last_progress_at, a.started_at), coalesce(r.heartbeat_at, a.started_at)) / 1000000000 AS silent_seconds, -- since its start or its last heartbeat or progress
    r.epoch                 AS epoch,         -- grows with every reservation; NULL: not reserved
    r.lease_ttl / 1e9       AS lease_seconds, -- a lease without a heartbeat for so long has ended; NULL: no lease
    a.pid                   AS pid,           -- NULL: nobody can tell whether the agent lives
    o.pid                   AS owner_pid,     -- process that the lease is tied to; NULL: none
    o.program               AS owner_program, -- its program
    shown(a.harness)               AS harness,       -- program the agent runs in
    shown(a.attach_reason)         AS attach_reason  -- what the agent is for
FROM agents a
JOIN scopes s ON s.id = a.scope
LEFT JOIN agent_reservations r ON r.agent_id = a.id
LEFT JOIN owners o ON o.id = r.owner_id
WHERE a.status = 'active';
