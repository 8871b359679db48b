-- The calls of tools: a row for each tool_start of a live run, and for each turn of a trace that names its tool. Work that a program
-- records both ways is here twice, with one run_id: choose by recorded_in.
CREATE VIEW v_tool_calls AS
SELECT
    c.scope         AS scope,         -- '' is the default scope
    c.recorded_in   AS recorded_in,   -- live: the events of a live run; trace: the turns of a trace
    c.agent_id      AS agent_id,      -- of the trace; NULL: a live run has none
    c.session_id    AS session_id,    -- of the live run; NULL: a trace has none
    c.run_id        AS run_id,        -- the run
    c.tool_name     AS tool_name,     -- the tool; NULL: the event doesn't say
    c.tool_call_id  AS tool_call_id,  -- the call; NULL: not recorded
    utc(c.started)  AS started_at,    -- UTC; NULL: a turn, of which only the end is known
    c.started       AS started_at_ns, -- Unix nanoseconds; NULL: as above
    utc(c.ended)    AS ended_at,      -- UTC; NULL: under way, or its end was not recorded
    c.ended         AS ended_at_ns,   -- Unix nanoseconds; NULL: as above
    coalesce(c.duration_ms, (c.ended - c.started) / 1e6) AS duration_ms, -- from start to end; of a turn as in v_turns; NULL: under way, or not known
    c.exit_code     AS exit_code,     -- NULL: under way, or none
    c.error_type    AS error_type,    -- what went wrong: the event's error_kind, exit_code, or as in v_turns; NULL: nothing, or under way
    c.run           AS run,           -- number of the trace, as in v_turns; NULL: live
    c.live_run      AS live_run       -- number of the live run, as in the column run of v_live_events; NULL: a trace
FROM (
    SELECT s.name AS scope, 'live' AS recorded_in, NULL AS agent_id, r.session_id AS session_id, r.run_id AS run_id,
        json_extract(doc(e.event), '$.name') AS tool_name, json_extract(doc(e.event), '$.id') AS tool_call_id,
        e.recorded_at AS started, f.recorded_at AS ended, NULL AS duration_ms, json_extract(doc(f.event), '$.exit_code') AS exit_code,
        CASE WHEN json_type(doc(f.event), '$.error_kind') = 'object' THEN json_extract(doc(f.event), '$.error_kind.type')
             WHEN json_type(doc(f.event), '$.error_kind') = 'text' THEN json_extract(doc(f.event), '$.error_kind')
             WHEN json_extract(doc(f.event), '$.exit_code') <> 0 THEN 'exit_code' END AS error_type,
        NULL AS run, r.key AS live_run
    FROM live_events AS e
    JOIN live_runs AS r ON r.key = e.id >> 32
    JOIN scopes AS s ON s.id = r.scope
    -- What comes next of the call. Where that is another start, this one has no end.
    LEFT JOIN live_events AS f ON f.type = 'tool_end' AND f.id = (
        SELECT x.id FROM live_events AS x
        WHERE x.id > e.id AND x.id < ((e.id >> 32) + 1) << 32 AND x.type IN ('tool_start', 'tool_end')
          AND json_quote(json_extract(doc(x.event), '$.id')) = json_quote(json_extract(doc(e.event), '$.id'))
        ORDER BY x.id LIMIT 1)
    WHERE e.type = 'tool_start'
    UNION ALL
    SELECT t.scope, 'trace', t.agent_id, NULL, t.run_id, t.tool, t.tool_call_id, NULL, t.recorded_at_ns, t.duration_ms, t.cli_code, t.error_type, t.run, NULL
    FROM v_turns AS t
    WHERE t.tool IS NOT NULL
) AS c;
