-- What models used and what it cost, and no use twice: a row for each record that counts tokens or money, from the rows that are written
-- with these records (usage_records). A run may have several accounts of the same work: its replies, the model_turns and the turns of its
-- trace, the turn_ends and the agent_ends of the live run with its id. The finest account is here record by record, and a row of the kind
-- run has, for each column, what the largest account counts beyond that. So does a row of the kind agent for what an agent of the registry
-- counts beyond its runs. What removed runs used is here by day (removed).
CREATE VIEW v_usage AS
SELECT
    u.scope AS scope,
    u.kind AS kind,
    utc(u.at) COLLATE "C" AS recorded_at,
    u.at AS recorded_at_ns,
    u.agent_id AS agent_id,
    u.session_id AS session_id,
    u.run_id AS run_id,
    u.provider AS provider,
    u.request_model AS request_model,
    u.response_model AS response_model,
    u.input_tokens AS input_tokens,
    u.cache_read_input_tokens AS cache_read_input_tokens,
    u.cache_write_input_tokens AS cache_write_input_tokens,
    u.output_tokens AS output_tokens,
    u.reasoning_output_tokens AS reasoning_output_tokens,
    (u.cost_nanos / 1e9)::float8 AS cost_usd,
    CASE WHEN u.cost_nanos IS NOT NULL THEN 'reported' END COLLATE "C" AS cost_source,
    u.sequence AS sequence,
    u.run AS run,
    u.live_run AS live_run,
    u.step_key AS step_key,
    u.cost_nanos AS cost_nanos
FROM (
    SELECT s.name AS scope, u.account AS kind, u.recorded_at AS at, w.agent_id, session_of(w) AS session_id, w.run_id,
        CASE WHEN w.agent_id IS NOT NULL THEN w.id / 2 END AS run, CASE WHEN w.agent_id IS NULL THEN w.id / 2 END AS live_run, u.sequence, u.step_key,
        named_by(provider) AS provider, named_by(request_model) AS request_model, named_by(response_model) AS response_model,
        u.input_tokens, u.cache_read_input_tokens, u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_nanos
    FROM usage_runs AS w
    JOIN scopes AS s ON s.id = w.scope
    JOIN usage_records AS u ON u.usage_run = w.id AND u.account = finest_account(w)
    UNION ALL
    SELECT w.name, 'run', w.recorded_at, w.agent_id, session_of(w), w.run_id, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
        model_of(provider), model_of(request_model), model_of(response_model),
        beyond(input_tokens),
        beyond(cache_read_input_tokens),
        beyond(cache_write_input_tokens),
        beyond(output_tokens),
        beyond(reasoning_output_tokens),
        beyond(cost_nanos)
    FROM (
        SELECT s.name, w.scope, w.run_id, w.agent_id, w.session_id, w.recorded_at,
            largest_of(u.input_tokens) AS most_input_tokens, finest_of(u.input_tokens) AS finest_input_tokens,
            largest_of(u.cache_read_input_tokens) AS most_cache_read_input_tokens, finest_of(u.cache_read_input_tokens) AS finest_cache_read_input_tokens,
            largest_of(u.cache_write_input_tokens) AS most_cache_write_input_tokens, finest_of(u.cache_write_input_tokens) AS finest_cache_write_input_tokens,
            largest_of(u.output_tokens) AS most_output_tokens, finest_of(u.output_tokens) AS finest_output_tokens,
            largest_of(u.reasoning_output_tokens) AS most_reasoning_output_tokens, finest_of(u.reasoning_output_tokens) AS finest_reasoning_output_tokens,
            largest_of(u.cost_nanos) AS most_cost_nanos, finest_of(u.cost_nanos) AS finest_cost_nanos
        FROM usage_runs AS w
        JOIN scopes AS s ON s.id = w.scope
        JOIN usage_records AS u ON u.usage_run = w.id
        WHERE w.agent_id IS NOT NULL AND (SELECT min(y.account) FROM usage_records AS y WHERE y.usage_run = w.id)
            <> (SELECT max(y.account) FROM usage_records AS y WHERE y.usage_run = w.id)
        GROUP BY w.id, s.name, w.scope, w.run_id, w.agent_id, w.session_id, w.recorded_at
    ) AS w
    UNION ALL
    SELECT s.name, 'run', w.recorded_at, t.agent_id, w.session_id, w.run_id, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
        model_of(provider), model_of(request_model), model_of(response_model),
        live_beyond(input_tokens),
        live_beyond(cache_read_input_tokens),
        live_beyond(cache_write_input_tokens),
        live_beyond(output_tokens),
        live_beyond(reasoning_output_tokens),
        live_beyond(cost_nanos)
    FROM usage_runs AS w
    JOIN scopes AS s ON s.id = w.scope
    LEFT JOIN usage_runs AS t ON t.run_id = w.run_id AND t.scope = w.scope AND t.agent_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM usage_runs AS y WHERE y.run_id = t.run_id AND y.scope = t.scope AND y.agent_id IS NOT NULL AND y.id < t.id)
    WHERE w.agent_id IS NULL
    UNION ALL
    SELECT s.name, 'agent', a.at, a.session_id, a.session_id, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text, a.provider, a.model, NULL::text,
        beyond_runs(input_tokens) AS input_tokens,
        NULL::bigint AS cache_read_input_tokens,
        NULL::bigint AS cache_write_input_tokens,
        beyond_runs(output_tokens) AS output_tokens,
        beyond_runs(reasoning_output_tokens) AS reasoning_output_tokens,
        beyond_runs(cost_nanos) AS cost_nanos
    FROM (
        SELECT scope, session_id, max(coalesce(completed_at, last_progress_at, heartbeat_at, started_at)) AS at, max(provider) AS provider, max(model) AS model,
            sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(reasoning_tokens) AS reasoning_output_tokens, sum(cost_micros_usd) * 1000 AS cost_nanos
        FROM agents
        WHERE num_nonnulls(input_tokens, output_tokens, reasoning_tokens, cost_micros_usd) > 0
        GROUP BY scope, session_id
    ) AS a
    CROSS JOIN scopes AS s
    WHERE s.id = a.scope
    UNION ALL
    SELECT s.name, 'removed', d.day, nullif(d.agent_id, ''), nullif(d.session_id, ''), NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text, d.provider, d.request_model, d.response_model,
        d.input_tokens, d.cache_read_input_tokens, d.cache_write_input_tokens, d.output_tokens, d.reasoning_output_tokens, d.cost_nanos
    FROM usage_days AS d
    JOIN scopes AS s ON s.id = d.scope
) AS u
WHERE num_nonnulls(u.input_tokens, u.cache_read_input_tokens, u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_nanos) > 0;

-- What each run used, and what it and all runs below it used (runs.parent). No use is counted twice, as in v_usage. A run without a trace is
-- not here, and of runs that are gone nothing is.
CREATE VIEW v_usage_tree AS
SELECT
    s.name AS scope,
    r.agent_id AS agent_id,
    r.run_id AS run_id,
    r.parent AS parent,
    used_by_run(input_tokens) AS input_tokens,
    used_by_run(cache_read_input_tokens) AS cache_read_input_tokens,
    used_by_run(cache_write_input_tokens) AS cache_write_input_tokens,
    used_by_run(output_tokens) AS output_tokens,
    used_by_run(reasoning_output_tokens) AS reasoning_output_tokens,
    used_by_run(cost_nanos) AS cost_nanos,
    used_by_tree(input_tokens) AS tree_input_tokens,
    used_by_tree(cache_read_input_tokens) AS tree_cache_read_input_tokens,
    used_by_tree(cache_write_input_tokens) AS tree_cache_write_input_tokens,
    used_by_tree(output_tokens) AS tree_output_tokens,
    used_by_tree(reasoning_output_tokens) AS tree_reasoning_output_tokens,
    used_by_tree(cost_nanos) AS tree_cost_nanos,
    r.key AS run
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope;
