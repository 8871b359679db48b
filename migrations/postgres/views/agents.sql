-- All agents that the file knows, those too that a call put aside seven days after their end: no call sees them, and their ids are free.
CREATE VIEW v_agents AS
SELECT
    s.name AS scope,
    a.session_id AS session_id,
    a.thread AS thread,
    a.status AS status,
    (r.epoch IS NOT NULL)::int::bigint AS reserved,
    (r.lease_ttl IS NOT NULL)::int::bigint AS leased,
    utc(a.started_at) COLLATE "C" AS started_at,
    a.started_at AS started_at_ns,
    utc(a.recorded_at) COLLATE "C" AS recorded_at,
    a.recorded_at AS recorded_at_ns,
    utc(a.put_aside_at) COLLATE "C" AS put_aside_at,
    a.put_aside_at AS put_aside_at_ns,
    utc(a.completed_at) COLLATE "C" AS completed_at,
    a.completed_at AS completed_at_ns,
    utc(coalesce(r.heartbeat_at, a.heartbeat_at)) COLLATE "C" AS heartbeat_at,
    coalesce(r.heartbeat_at, a.heartbeat_at) AS heartbeat_at_ns,
    CASE WHEN a.status = 'active' THEN floor(extract(epoch FROM now()))::bigint - greatest(a.started_at, coalesce(a.heartbeat_at, a.started_at), coalesce(a.last_progress_at, a.started_at), coalesce(r.heartbeat_at, a.started_at)) / 1000000000
        END AS silent_seconds,
    a.pid AS pid,
    a.boot_id AS boot_id,
    shown(a.harness) AS harness,
    shown(a.provider) AS provider,
    shown(a.model) AS model,
    shown(a.model) AS request_model,
    NULL::text COLLATE "C" AS response_model,
    a.path AS path,
    shown(a.attach_reason) AS attach_reason,
    a.client_instance_id AS client_instance_id,
    a.native_actor_key AS native_actor_key,
    a.native_parent_actor_key AS native_parent_actor_key,
    a.input_tokens AS input_tokens,
    NULL::bigint AS cache_read_input_tokens,
    NULL::bigint AS cache_write_input_tokens,
    a.output_tokens AS output_tokens,
    a.reasoning_tokens AS reasoning_output_tokens,
    a.tool_calls AS tool_calls,
    a.cost_micros_usd / 1e6::float8 AS cost_usd,
    CASE WHEN a.cost_micros_usd IS NOT NULL THEN 'reported' END COLLATE "C" AS cost_source,
    (SELECT count(*) FROM agent_context_queries q WHERE q.agent_id = a.id) AS context_queries,
    a.id AS agent
FROM agents a
JOIN scopes s ON s.id = a.scope
LEFT JOIN agent_reservations r ON r.agent_id = a.id;

-- Who is on which thread: a row for every active agent, of which at most one has reserved it.
CREATE VIEW v_threads AS
SELECT
    s.name AS scope,
    a.thread AS thread,
    a.session_id AS session_id,
    CASE WHEN r.epoch IS NULL THEN 'active' WHEN r.lease_ttl IS NULL THEN 'reserved' ELSE 'leased'
        END COLLATE "C" AS held,
    utc(coalesce(r.reserved_at, a.started_at)) COLLATE "C" AS since,
    coalesce(r.reserved_at, a.started_at) AS since_ns,
    floor(extract(epoch FROM now()))::bigint - coalesce(r.reserved_at, a.started_at) / 1000000000 AS held_seconds,
    floor(extract(epoch FROM now()))::bigint - greatest(a.started_at, coalesce(a.heartbeat_at, a.started_at), coalesce(a.last_progress_at, a.started_at), coalesce(r.heartbeat_at, a.started_at)) / 1000000000 AS silent_seconds,
    r.epoch AS epoch,
    r.lease_ttl / 1e9::float8 AS lease_seconds,
    a.pid AS pid,
    o.pid AS owner_pid,
    o.program AS owner_program,
    shown(a.harness) AS harness,
    shown(a.attach_reason) AS attach_reason
FROM agents a
JOIN scopes s ON s.id = a.scope
LEFT JOIN agent_reservations r ON r.agent_id = a.id
LEFT JOIN owners o ON o.id = r.owner_id
WHERE a.status = 'active';
