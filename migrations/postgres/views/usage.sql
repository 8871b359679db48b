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
    SELECT s.name AS scope, u.account AS kind, u.recorded_at AS at, w.agent_id AS agent_id, w.session_id, w.run_id, u.run, u.live_run, u.sequence, u.step_key,
        coalesce(u.provider, CASE u.account WHEN 'turn_end' THEN (SELECT max(x.provider) FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account = 'agent_end') END) AS provider,
        coalesce(u.request_model, CASE u.account WHEN 'turn_end' THEN (SELECT max(x.request_model) FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account = 'agent_end') END) AS request_model,
        coalesce(u.response_model, CASE u.account WHEN 'turn_end' THEN (SELECT max(x.response_model) FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account = 'agent_end') END) AS response_model,
        u.input_tokens, u.cache_read_input_tokens, u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_nanos
    FROM usage_records AS u
    JOIN usage_runs AS w ON w.id = u.usage_run
    JOIN scopes AS s ON s.id = w.scope
    WHERE u.agent_id IS NULL AND (u.account = 'reply'
        OR u.account = 'model_turn' AND NOT EXISTS (SELECT 1 FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account = 'reply')
        OR u.account = 'turn' AND NOT EXISTS (SELECT 1 FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account IN ('reply', 'model_turn'))
        OR u.account = 'turn_end' AND NOT EXISTS (SELECT 1 FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account IN ('reply', 'model_turn', 'turn')))
    UNION ALL
    SELECT s.name AS scope, u.account AS kind, u.recorded_at AS at, u.agent_id AS agent_id, w.session_id, w.run_id, u.run, u.live_run, u.sequence, u.step_key,
        coalesce(u.provider, CASE u.account WHEN 'turn_end' THEN (SELECT max(x.provider) FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account = 'agent_end') END) AS provider,
        coalesce(u.request_model, CASE u.account WHEN 'turn_end' THEN (SELECT max(x.request_model) FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account = 'agent_end') END) AS request_model,
        coalesce(u.response_model, CASE u.account WHEN 'turn_end' THEN (SELECT max(x.response_model) FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account = 'agent_end') END) AS response_model,
        u.input_tokens, u.cache_read_input_tokens, u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_nanos
    FROM usage_records AS u
    JOIN usage_runs AS w ON w.id = u.usage_run
    JOIN scopes AS s ON s.id = w.scope
    WHERE u.agent_id IS NOT NULL AND (u.account = 'reply'
        OR u.account = 'model_turn' AND NOT EXISTS (SELECT 1 FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account = 'reply')
        OR u.account = 'turn' AND NOT EXISTS (SELECT 1 FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account IN ('reply', 'model_turn'))
        OR u.account = 'turn_end' AND NOT EXISTS (SELECT 1 FROM usage_records AS x WHERE x.usage_run = u.usage_run AND x.account IN ('reply', 'model_turn', 'turn')))
    UNION ALL
    SELECT scope, 'run', at, agent_id, session_id, run_id, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text, provider, request_model, response_model,
        CASE WHEN finest_input_tokens IS NULL THEN most_input_tokens WHEN most_input_tokens > finest_input_tokens THEN most_input_tokens - finest_input_tokens END,
        CASE WHEN finest_cache_read_input_tokens IS NULL THEN most_cache_read_input_tokens WHEN most_cache_read_input_tokens > finest_cache_read_input_tokens THEN most_cache_read_input_tokens - finest_cache_read_input_tokens END,
        CASE WHEN finest_cache_write_input_tokens IS NULL THEN most_cache_write_input_tokens WHEN most_cache_write_input_tokens > finest_cache_write_input_tokens THEN most_cache_write_input_tokens - finest_cache_write_input_tokens END,
        CASE WHEN finest_output_tokens IS NULL THEN most_output_tokens WHEN most_output_tokens > finest_output_tokens THEN most_output_tokens - finest_output_tokens END,
        CASE WHEN finest_reasoning_output_tokens IS NULL THEN most_reasoning_output_tokens WHEN most_reasoning_output_tokens > finest_reasoning_output_tokens THEN most_reasoning_output_tokens - finest_reasoning_output_tokens END,
        CASE WHEN finest_cost_nanos IS NULL THEN most_cost_nanos WHEN most_cost_nanos > finest_cost_nanos THEN most_cost_nanos - finest_cost_nanos END
    FROM (
        SELECT s.name AS scope, w.recorded_at AS at, w.agent_id, w.session_id, w.run_id,
            coalesce(max(u.provider) FILTER (WHERE u.account = 'agent_end'), CASE WHEN min(u.provider) = max(u.provider) THEN max(u.provider) END) AS provider, coalesce(max(u.request_model) FILTER (WHERE u.account = 'agent_end'), CASE WHEN min(u.request_model) = max(u.request_model) THEN max(u.request_model) END) AS request_model, coalesce(max(u.response_model) FILTER (WHERE u.account = 'agent_end'), CASE WHEN min(u.response_model) = max(u.response_model) THEN max(u.response_model) END) AS response_model,
            nullif(greatest(coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS most_input_tokens,
            CASE WHEN bool_or(u.account = 'reply') THEN sum(u.input_tokens) FILTER (WHERE u.account = 'reply') WHEN bool_or(u.account = 'model_turn') THEN sum(u.input_tokens) FILTER (WHERE u.account = 'model_turn') WHEN bool_or(u.account = 'turn') THEN sum(u.input_tokens) FILTER (WHERE u.account = 'turn') WHEN bool_or(u.account = 'turn_end') THEN sum(u.input_tokens) FILTER (WHERE u.account = 'turn_end') END AS finest_input_tokens,
            nullif(greatest(coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cache_read_input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS most_cache_read_input_tokens,
            CASE WHEN bool_or(u.account = 'reply') THEN sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'reply') WHEN bool_or(u.account = 'model_turn') THEN sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'model_turn') WHEN bool_or(u.account = 'turn') THEN sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'turn') WHEN bool_or(u.account = 'turn_end') THEN sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'turn_end') END AS finest_cache_read_input_tokens,
            nullif(greatest(coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cache_write_input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS most_cache_write_input_tokens,
            CASE WHEN bool_or(u.account = 'reply') THEN sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'reply') WHEN bool_or(u.account = 'model_turn') THEN sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'model_turn') WHEN bool_or(u.account = 'turn') THEN sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'turn') WHEN bool_or(u.account = 'turn_end') THEN sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'turn_end') END AS finest_cache_write_input_tokens,
            nullif(greatest(coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS most_output_tokens,
            CASE WHEN bool_or(u.account = 'reply') THEN sum(u.output_tokens) FILTER (WHERE u.account = 'reply') WHEN bool_or(u.account = 'model_turn') THEN sum(u.output_tokens) FILTER (WHERE u.account = 'model_turn') WHEN bool_or(u.account = 'turn') THEN sum(u.output_tokens) FILTER (WHERE u.account = 'turn') WHEN bool_or(u.account = 'turn_end') THEN sum(u.output_tokens) FILTER (WHERE u.account = 'turn_end') END AS finest_output_tokens,
            nullif(greatest(coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.reasoning_output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS most_reasoning_output_tokens,
            CASE WHEN bool_or(u.account = 'reply') THEN sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'reply') WHEN bool_or(u.account = 'model_turn') THEN sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'model_turn') WHEN bool_or(u.account = 'turn') THEN sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn') WHEN bool_or(u.account = 'turn_end') THEN sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn_end') END AS finest_reasoning_output_tokens,
            nullif(greatest(coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cost_nanos) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS most_cost_nanos,
            CASE WHEN bool_or(u.account = 'reply') THEN sum(u.cost_nanos) FILTER (WHERE u.account = 'reply') WHEN bool_or(u.account = 'model_turn') THEN sum(u.cost_nanos) FILTER (WHERE u.account = 'model_turn') WHEN bool_or(u.account = 'turn') THEN sum(u.cost_nanos) FILTER (WHERE u.account = 'turn') WHEN bool_or(u.account = 'turn_end') THEN sum(u.cost_nanos) FILTER (WHERE u.account = 'turn_end') END AS finest_cost_nanos
        FROM usage_runs AS w
        JOIN scopes AS s ON s.id = w.scope
        JOIN usage_records AS u ON u.usage_run = w.id
        GROUP BY w.id, s.name, w.recorded_at, w.agent_id, w.session_id, w.run_id
    ) AS u
    UNION ALL
    SELECT s.name, 'agent', a.at, a.session_id, a.session_id, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text, a.provider, a.model, NULL::text,
        CASE WHEN a.input_tokens IS NOT NULL THEN nullif(greatest(a.input_tokens - coalesce((SELECT sum(b.n) FROM (
            SELECT nullif(greatest(coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
            UNION ALL
            SELECT nullif(greatest(coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.session_id = a.session_id AND (w.agent_id IS NULL OR w.agent_id <> a.session_id) GROUP BY w.id
            UNION ALL
            SELECT d.input_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.agent_id = a.session_id
            UNION ALL
            SELECT d.input_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.session_id = a.session_id AND d.session_id <> '' AND d.agent_id <> a.session_id
        ) AS b), 0), 0), 0) END AS input_tokens,
        NULL::bigint AS cache_read_input_tokens,
        NULL::bigint AS cache_write_input_tokens,
        CASE WHEN a.output_tokens IS NOT NULL THEN nullif(greatest(a.output_tokens - coalesce((SELECT sum(b.n) FROM (
            SELECT nullif(greatest(coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
            UNION ALL
            SELECT nullif(greatest(coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.session_id = a.session_id AND (w.agent_id IS NULL OR w.agent_id <> a.session_id) GROUP BY w.id
            UNION ALL
            SELECT d.output_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.agent_id = a.session_id
            UNION ALL
            SELECT d.output_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.session_id = a.session_id AND d.session_id <> '' AND d.agent_id <> a.session_id
        ) AS b), 0), 0), 0) END AS output_tokens,
        CASE WHEN a.reasoning_output_tokens IS NOT NULL THEN nullif(greatest(a.reasoning_output_tokens - coalesce((SELECT sum(b.n) FROM (
            SELECT nullif(greatest(coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.reasoning_output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
            UNION ALL
            SELECT nullif(greatest(coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.reasoning_output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.session_id = a.session_id AND (w.agent_id IS NULL OR w.agent_id <> a.session_id) GROUP BY w.id
            UNION ALL
            SELECT d.reasoning_output_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.agent_id = a.session_id
            UNION ALL
            SELECT d.reasoning_output_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.session_id = a.session_id AND d.session_id <> '' AND d.agent_id <> a.session_id
        ) AS b), 0), 0), 0) END AS reasoning_output_tokens,
        CASE WHEN a.cost_nanos IS NOT NULL THEN nullif(greatest(a.cost_nanos - coalesce((SELECT sum(b.n) FROM (
            SELECT nullif(greatest(coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cost_nanos) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
            UNION ALL
            SELECT nullif(greatest(coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cost_nanos) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.session_id = a.session_id AND (w.agent_id IS NULL OR w.agent_id <> a.session_id) GROUP BY w.id
            UNION ALL
            SELECT d.cost_nanos FROM usage_days AS d WHERE d.scope = a.scope AND d.agent_id = a.session_id
            UNION ALL
            SELECT d.cost_nanos FROM usage_days AS d WHERE d.scope = a.scope AND d.session_id = a.session_id AND d.session_id <> '' AND d.agent_id <> a.session_id
        ) AS b), 0), 0), 0) END AS cost_nanos
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
    (SELECT nullif(greatest(coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS input_tokens,
    (SELECT nullif(greatest(coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cache_read_input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS cache_read_input_tokens,
    (SELECT nullif(greatest(coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cache_write_input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS cache_write_input_tokens,
    (SELECT nullif(greatest(coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS output_tokens,
    (SELECT nullif(greatest(coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.reasoning_output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS reasoning_output_tokens,
    (SELECT nullif(greatest(coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cost_nanos) FILTER (WHERE u.account = 'agent_end'), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS cost_nanos,
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(greatest(coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_input_tokens,
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(greatest(coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cache_read_input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cache_read_input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_cache_read_input_tokens,
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(greatest(coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cache_write_input_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cache_write_input_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_cache_write_input_tokens,
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(greatest(coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_output_tokens,
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(greatest(coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.reasoning_output_tokens) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.reasoning_output_tokens) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_reasoning_output_tokens,
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(greatest(coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'reply'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'model_turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn'), -1), coalesce(sum(u.cost_nanos) FILTER (WHERE u.account = 'turn_end'), -1), coalesce(max(u.cost_nanos) FILTER (WHERE u.account = 'agent_end'), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_cost_nanos,
    r.key AS run
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope;
