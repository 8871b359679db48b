-- The runs that lists show, open and ended. Times outside 1678 to 2261 are the nearest that a column holds.
CREATE VIEW v_runs AS
SELECT
    s.name AS scope,
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id,
    coalesce(r.shown_run_id, r.run_id) AS run_id,
    shown(r.intent) AS intent,
    CASE WHEN r.status = 'in_progress' AND EXISTS (SELECT 1 FROM run_steps AS w WHERE w.run = r.key AND w.state = 'waiting')
         THEN 'waiting' ELSE r.status END AS status,
    r.outcome AS outcome,
    CASE WHEN r.status IN ('incomplete', 'cancelled') THEN r.status
         WHEN r.outcome IN ('failure', 'timeout', 'give_up') THEN r.outcome
        END AS error_type,
    shown(r.summary) AS summary,
    utc(r.started_at) COLLATE "C" AS started_at,
    r.started_at AS started_at_ns,
    utc(r.ended_at) COLLATE "C" AS ended_at,
    r.ended_at AS ended_at_ns,
    utc(l.recorded_at) COLLATE "C" AS last_activity_at,
    l.recorded_at AS last_activity_at_ns,
    (r.ended_at / 1000 - r.started_at / 1000 + CASE WHEN r.ended_at < r.started_at THEN -500 ELSE 500 END) / 1000 / 1e3::float8 AS seconds,
    coalesce(r.turn_count, coalesce(l.id & 16777215, 0) - r.others) AS turns,
    coalesce(l.bytes, (
        SELECT sum(coalesce(length(t.parameters), 0) + coalesce(length(t.output), 0) + coalesce(length(t.raw), 0)
            + coalesce(raw_length(t.unknown_kind), 0) + coalesce(raw_length(t.prompt), 0) + coalesce(raw_length(t.tool), 0)
            + coalesce(raw_length(t.policy_rule), 0) + coalesce(raw_length(t.policy_param), 0))
        FROM run_records AS t WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24)::bigint, 0) AS bytes,
    o.pid AS owner_pid,
    coalesce(p.shown_run_id, p.run_id) AS parent_run_id,
    v.session_id AS session_id,
    r.parent AS parent,
    v.key AS live_run,
    r.key AS run
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
LEFT JOIN owners AS o ON o.id = r.owner_id
LEFT JOIN LATERAL (
    SELECT t.id, t.recorded_at, t.bytes FROM run_records AS t WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24 ORDER BY t.id DESC LIMIT 1
) AS l ON true
LEFT JOIN runs AS p ON p.key = r.parent
LEFT JOIN live_runs AS v ON v.scope = r.scope AND v.run_id = r.run_id
WHERE r.started_at IS NOT NULL;

-- The turns of all traces.
CREATE VIEW v_turns AS
SELECT
    s.name AS scope,
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id,
    coalesce(r.shown_run_id, r.run_id) AS run_id,
    t.id & 16777215 AS sequence,
    t.turn_index AS turn_index,
    shown(t.prompt) AS prompt,
    shown(t.tool) AS tool,
    shown(t.tool) AS tool_name,
    text_of(t.parameters) COLLATE "C" AS parameters,
    text_of(t.output) COLLATE "C" AS output,
    t.cli_kind AS cli_kind,
    t.cli_code AS cli_code,
    t.verdict AS verdict,
    shown(t.policy_rule) AS policy_rule,
    shown(t.policy_param) AS policy_param,
    CASE WHEN t.policy_rule IS NOT NULL THEN 'policy_rejected'
         WHEN t.cli_kind IN ('killed', 'timeout') THEN t.cli_kind
         WHEN t.cli_code <> 0 THEN 'exit_code'
         WHEN t.verdict = 'fail' THEN 'refuted'
        END AS error_type,
    json_extract(j.j, '$.action_id') COLLATE "C" AS tool_call_id,
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
    coalesce(double_of(json_number(j.j, '$.action_duration_ms')),
        difference(t.recorded_at, (SELECT b.recorded_at FROM run_records AS b WHERE b.id = t.id - 1 AND b.id & 16777215 > 0)) / 1e6::float8) AS duration_ms,
    utc(t.recorded_at) COLLATE "C" AS recorded_at,
    t.recorded_at AS recorded_at_ns,
    r.key AS run
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN run_records AS t
CROSS JOIN LATERAL (SELECT doc(t.raw) AS j OFFSET 0) AS j
CROSS JOIN LATERAL (SELECT counts_of(j.j) AS u OFFSET 0) AS u
WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24 AND t.kind = 'turn';

-- What later versions record of each answer of a model, in all traces. A trace that has these may count the same in its turns: v_usage
-- counts no use twice.
CREATE VIEW v_model_turns AS
SELECT
    s.name AS scope,
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id,
    coalesce(r.shown_run_id, r.run_id) AS run_id,
    t.id & 16777215 AS sequence,
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
    json_extract(j.j, '$.tool_name') COLLATE "C" AS tool_name,
    json_extract(j.j, '$.tool_call_id') COLLATE "C" AS tool_call_id,
    json_extract(j.j, '$.error_type') COLLATE "C" AS error_type,
    j.j::text COLLATE "C" AS record,
    utc(a.at) COLLATE "C" AS recorded_at,
    a.at AS recorded_at_ns,
    r.key AS run
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN run_records AS t
CROSS JOIN LATERAL (SELECT doc(t.raw) AS j OFFSET 0) AS j
CROSS JOIN LATERAL (SELECT counts_of(j.j) AS u OFFSET 0) AS u
CROSS JOIN LATERAL (SELECT coalesce(t.recorded_at, nanos_of(unix_seconds(json_extract(j.j, '$.recorded_at')))) AS at OFFSET 0) AS a
WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24 AND t.unknown_kind = 'model_turn';

-- What each agent did: its runs counted by how they ended.
CREATE VIEW v_agents_runs AS
SELECT
    s.name AS scope,
    r.agent_id AS agent_id,
    count(*) AS runs,
    count(*) FILTER (WHERE r.status IN ('in_progress', 'cancellation_pending')) AS open,
    count(*) FILTER (WHERE r.status = 'completed') AS completed,
    count(*) FILTER (WHERE r.outcome = 'failure') AS failures,
    count(*) FILTER (WHERE r.status = 'incomplete') AS incomplete,
    count(*) FILTER (WHERE r.status = 'cancelled') AS cancelled,
    utc(max(r.started_at)) COLLATE "C" AS last_started_at,
    max(r.started_at) AS last_started_at_ns
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
WHERE r.started_at IS NOT NULL
GROUP BY s.name, r.agent_id;

-- The steps of runs.
CREATE VIEW v_steps AS
SELECT
    n.name AS scope,
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id,
    coalesce(r.shown_run_id, r.run_id) AS run_id,
    shown(s.step_key) AS step_key,
    s.kind AS kind,
    CASE WHEN s.kind = 'effect' AND (s.state = 'waiting' OR s.state = 'open' AND l.epoch IS NULL AND s.decision IS NULL)
         THEN 'unknown' ELSE s.state END AS state,
    shown(s.tool) AS tool_name,
    s.policy AS policy,
    shown(s.prompt) AS question,
    text_of(s.request) COLLATE "C" AS request,
    text_of(s.result) COLLATE "C" AS result,
    s.attempt AS attempt,
    s.turn AS turn,
    shown(s.decision) AS decision,
    shown(s.settled_by) AS decided_by,
    shown(s.error) AS error,
    utc(s.created_at) COLLATE "C" AS created_at,
    s.created_at AS created_at_ns,
    utc(s.changed_at) COLLATE "C" AS changed_at,
    s.changed_at AS changed_at_ns,
    s.run AS run
FROM run_steps AS s
JOIN runs AS r ON r.key = s.run
JOIN scopes AS n ON n.id = r.scope
LEFT JOIN leases AS l ON l.epoch = s.epoch;
