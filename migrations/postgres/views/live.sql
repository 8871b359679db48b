-- The live runs, all that are here.
CREATE VIEW v_live_runs AS
SELECT
    s.name AS scope,
    r.session_id AS session_id,
    r.run_id AS run_id,
    CASE WHEN r.status NOT IN ('completed', 'failed', 'cancelled') AND (SELECT max((SELECT 1 FROM run_steps AS w WHERE w.run = a.key AND w.state = 'waiting' LIMIT 1))
         FROM runs AS a WHERE a.scope = r.scope AND a.run_id = r.run_id AND a.ended_at IS NULL) IS NOT NULL
         THEN 'waiting' ELSE r.status END AS status,
    shown(t.prompt) AS prompt,
    shown(t.result_text) AS result_text,
    shown(t.error) AS error,
    CASE WHEN r.status IN ('failed', 'cancelled') THEN r.status END AS error_type,
    utc(r.created_at) COLLATE "C" AS created_at,
    r.created_at AS created_at_ns,
    utc(r.updated_at) COLLATE "C" AS updated_at,
    r.updated_at AS updated_at_ns,
    (r.updated_at / 1000 - r.created_at / 1000 + CASE WHEN r.updated_at < r.created_at THEN -500 ELSE 500 END) / 1000 / 1e3::float8 AS seconds,
    r.event_count AS events,
    r.kept_events AS kept_events,
    r.kept_bytes AS bytes,
    (SELECT e.type FROM live_events AS e WHERE e.id >= r.key << 32 AND e.id < (r.key + 1) << 32 ORDER BY e.id DESC LIMIT 1) AS last_event,
    (SELECT max(w.key) FROM runs AS w WHERE w.scope = r.scope AND w.run_id = r.run_id) AS trace,
    r.key AS run
FROM live_runs AS r
JOIN scopes AS s ON s.id = r.scope
JOIN live_texts AS t ON t.run = r.key;

-- The events of all live runs.
CREATE VIEW v_live_events AS
SELECT
    s.name AS scope,
    r.session_id AS session_id,
    r.run_id AS run_id,
    coalesce(e.sequence, e.id & 4294967295) AS sequence,
    e.type AS type,
    utc(e.recorded_at) COLLATE "C" AS recorded_at,
    e.recorded_at AS recorded_at_ns,
    CASE WHEN substr(e.type, 1, 4) = 'tool' THEN json_extract(doc(e.event), '$.name') ELSE json_extract(doc(e.event), '$.tool_name') END COLLATE "C" AS tool_name,
    CASE WHEN substr(e.type, 1, 4) = 'tool' THEN json_extract(doc(e.event), '$.id') ELSE json_extract(doc(e.event), '$.tool_id') END COLLATE "C" AS tool_call_id,
    CASE WHEN e.type IN ('error', 'permission_denied', 'command_dead_lettered', 'persistence_failed') THEN e.type
         WHEN e.type = 'tool_end' THEN coalesce(json_extract(doc(e.event), '$.error_kind.type'), json_extract(doc(e.event), '$.error_kind'),
            CASE WHEN exit_failed(doc(e.event)) THEN 'exit_code' END)
         WHEN e.type IN ('subagent_end', 'external_task_completed') AND json_extract(doc(e.event), '$.success') = '0' THEN 'failed'
        END AS error_type,
    provider_of(j.j) COLLATE "C" AS provider,
    request_model_of(j.j) COLLATE "C" AS request_model,
    response_model_of(j.j) COLLATE "C" AS response_model,
    input_tokens_of(u.u) AS input_tokens,
    cache_read_of(u.u) AS cache_read_input_tokens,
    cache_write_of(u.u) AS cache_write_input_tokens,
    output_tokens_of(u.u) AS output_tokens,
    reasoning_of(u.u) AS reasoning_output_tokens,
    cost_of(j.j, u.u) AS cost_usd,
    CASE WHEN cost_of(j.j, u.u) IS NOT NULL THEN 'reported' END COLLATE "C" AS cost_source,
    CASE e.type WHEN 'error' THEN json_extract(doc(e.event), '$.message') WHEN 'permission_denied' THEN json_extract(doc(e.event), '$.reason')
        ELSE json_extract(doc(e.event), '$.error') END COLLATE "C" AS error,
    text_of(e.event) COLLATE "C" AS event,
    e.id AS place,
    r.key AS run
FROM live_runs AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN live_events AS e
CROSS JOIN LATERAL (SELECT CASE WHEN e.type IN ('turn_end', 'agent_end') THEN doc(e.event) END AS j OFFSET 0) AS j
CROSS JOIN LATERAL (SELECT counts_of(j.j) AS u OFFSET 0) AS u
WHERE e.id >= r.key << 32 AND e.id < (r.key + 1) << 32;
