-- The calls of tools: a row for each tool_start of a live run, and for each turn of a trace that names its tool. Work that a program
-- records both ways is here twice, with one run_id: choose by recorded_in.
CREATE VIEW v_tool_calls AS
SELECT
    c.scope AS scope,
    c.recorded_in COLLATE "C" AS recorded_in,
    c.agent_id AS agent_id,
    c.session_id AS session_id,
    c.run_id AS run_id,
    c.tool_name AS tool_name,
    c.tool_call_id COLLATE "C" AS tool_call_id,
    utc(c.started) COLLATE "C" AS started_at,
    c.started AS started_at_ns,
    utc(c.ended) COLLATE "C" AS ended_at,
    c.ended AS ended_at_ns,
    coalesce(c.duration_ms, difference(c.ended, c.started) / 1e6::float8) AS duration_ms,
    c.exit_code AS exit_code,
    c.error_type AS error_type,
    c.run AS run,
    c.live_run AS live_run
FROM (
    SELECT s.name AS scope, 'live' COLLATE "C" AS recorded_in, NULL AS agent_id, r.session_id AS session_id, r.run_id AS run_id,
        json_extract(doc(e.event), '$.name') AS tool_name, json_extract(doc(e.event), '$.id') COLLATE "C" AS tool_call_id,
        e.recorded_at AS started, f.recorded_at AS ended, NULL::float8 AS duration_ms, bigint_of(json_number(doc(f.event), '$.exit_code')) AS exit_code,
        CASE WHEN json_type(doc(f.event), '$.error_kind') = 'object' THEN json_extract(doc(f.event), '$.error_kind.type')
             WHEN json_type(doc(f.event), '$.error_kind') = 'text' THEN json_extract(doc(f.event), '$.error_kind')
             WHEN exit_failed(doc(f.event)) THEN 'exit_code' END AS error_type,
        NULL::bigint AS run, r.key AS live_run
    FROM live_events AS e
    JOIN live_runs AS r ON r.key = e.id >> 32
    JOIN scopes AS s ON s.id = r.scope

    LEFT JOIN live_events AS f ON f.type = 'tool_end' AND f.id = (
        SELECT x.id FROM live_events AS x
        WHERE x.id > e.id AND x.id < ((e.id >> 32) + 1) << 32 AND x.type IN ('tool_start', 'tool_end')
          AND json_extract(doc(x.event), '$.id') IS NOT DISTINCT FROM json_extract(doc(e.event), '$.id')
        ORDER BY x.id LIMIT 1)
    WHERE e.type = 'tool_start'
    UNION ALL
    SELECT t.scope, 'trace', t.agent_id, NULL, t.run_id, t.tool, t.tool_call_id, NULL::bigint, t.recorded_at_ns, t.duration_ms, t.cli_code, t.error_type, t.run, NULL
    FROM v_turns AS t
    WHERE t.tool IS NOT NULL
) AS c;
