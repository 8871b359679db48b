-- What models used and what it cost, and no use twice: a row for each record that counts tokens or money, from the rows that are written
-- with these records (usage_records). A run may have several accounts of the same work: its replies, the model_turns and the turns of its
-- trace, the turn_ends and the agent_ends of the live run with its id. The finest account is here record by record, and a row of the kind
-- run has, for each column, what the largest account counts beyond that. So does a row of the kind agent for what an agent of the registry
-- counts beyond its runs. What removed runs used is here by day (removed).
CREATE VIEW v_usage AS
SELECT
    u.scope           AS scope,           -- '' is the default scope
    u.kind            AS kind,            -- of the record: reply, model_turn, turn or turn_end; run (what the largest account of the run counts beyond its records), agent (what it counts beyond its runs) or removed (runs that are gone)
    utc(u.at)         AS recorded_at,     -- UTC; of the kind run: of its first record; of an agent: its end or last sign of life; removed: the day; NULL: imported without it
    u.at              AS recorded_at_ns,  -- Unix nanoseconds; NULL: as above
    u.agent_id        AS agent_id,        -- of the trace or of the registry; NULL: a live run without a trace
    u.session_id      AS session_id,      -- of the live run, or of the registry; NULL: a trace without a live run
    u.run_id          AS run_id,          -- the run; NULL: an agent's, or removed
    u.provider        AS provider,        -- of the model; NULL: not recorded
    u.request_model   AS request_model,   -- model that was asked for; NULL: not recorded
    u.response_model  AS response_model,  -- model that answered; NULL: not recorded
    u.input_tokens    AS input_tokens,    -- tokens read, those from a cache included; NULL: not counted, as in all below
    u.cache_read_input_tokens  AS cache_read_input_tokens,  -- of these, read from a cache
    u.cache_write_input_tokens AS cache_write_input_tokens, -- of these, written to a cache
    u.output_tokens   AS output_tokens,   -- tokens answered
    u.reasoning_output_tokens AS reasoning_output_tokens, -- of these, for reasoning
    u.cost_nanos / 1e9 AS cost_usd,       -- US dollars
    CASE WHEN u.cost_nanos IS NOT NULL THEN 'reported' END AS cost_source, -- reported: the record says it; nothing is reckoned from price lists
    u.sequence        AS sequence,        -- place of the record, as in v_turns or v_live_events; NULL: none
    u.run             AS run,             -- number of the trace, as in v_runs; NULL: none
    u.live_run        AS live_run,        -- number of the live run, which is the column run of v_live_runs; NULL: none
    u.step_key        AS step_key,        -- of the reply, as in v_steps; NULL: another record
    u.cost_nanos      AS cost_nanos       -- billionths of a US dollar: their sums are exact
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
    SELECT scope, 'run', at, agent_id, session_id, run_id, NULL, NULL, NULL, NULL, provider, request_model, response_model,
        CASE WHEN finest_input_tokens IS NULL THEN most_input_tokens WHEN most_input_tokens > finest_input_tokens THEN most_input_tokens - finest_input_tokens END,
        CASE WHEN finest_cache_read_input_tokens IS NULL THEN most_cache_read_input_tokens WHEN most_cache_read_input_tokens > finest_cache_read_input_tokens THEN most_cache_read_input_tokens - finest_cache_read_input_tokens END,
        CASE WHEN finest_cache_write_input_tokens IS NULL THEN most_cache_write_input_tokens WHEN most_cache_write_input_tokens > finest_cache_write_input_tokens THEN most_cache_write_input_tokens - finest_cache_write_input_tokens END,
        CASE WHEN finest_output_tokens IS NULL THEN most_output_tokens WHEN most_output_tokens > finest_output_tokens THEN most_output_tokens - finest_output_tokens END,
        CASE WHEN finest_reasoning_output_tokens IS NULL THEN most_reasoning_output_tokens WHEN most_reasoning_output_tokens > finest_reasoning_output_tokens THEN most_reasoning_output_tokens - finest_reasoning_output_tokens END,
        CASE WHEN finest_cost_nanos IS NULL THEN most_cost_nanos WHEN most_cost_nanos > finest_cost_nanos THEN most_cost_nanos - finest_cost_nanos END
    FROM (
        SELECT s.name AS scope, w.recorded_at AS at, w.agent_id, w.session_id, w.run_id,
            coalesce(max(CASE u.account WHEN 'agent_end' THEN u.provider END), CASE WHEN min(u.provider) = max(u.provider) THEN max(u.provider) END) AS provider, coalesce(max(CASE u.account WHEN 'agent_end' THEN u.request_model END), CASE WHEN min(u.request_model) = max(u.request_model) THEN max(u.request_model) END) AS request_model, coalesce(max(CASE u.account WHEN 'agent_end' THEN u.response_model END), CASE WHEN min(u.response_model) = max(u.response_model) THEN max(u.response_model) END) AS response_model,
            nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.input_tokens END), -1)), -1) AS most_input_tokens,
            CASE WHEN max(u.account = 'reply') THEN sum(CASE u.account WHEN 'reply' THEN u.input_tokens END) WHEN max(u.account = 'model_turn') THEN sum(CASE u.account WHEN 'model_turn' THEN u.input_tokens END) WHEN max(u.account = 'turn') THEN sum(CASE u.account WHEN 'turn' THEN u.input_tokens END) WHEN max(u.account = 'turn_end') THEN sum(CASE u.account WHEN 'turn_end' THEN u.input_tokens END) END AS finest_input_tokens,
            nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cache_read_input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cache_read_input_tokens END), -1)), -1) AS most_cache_read_input_tokens,
            CASE WHEN max(u.account = 'reply') THEN sum(CASE u.account WHEN 'reply' THEN u.cache_read_input_tokens END) WHEN max(u.account = 'model_turn') THEN sum(CASE u.account WHEN 'model_turn' THEN u.cache_read_input_tokens END) WHEN max(u.account = 'turn') THEN sum(CASE u.account WHEN 'turn' THEN u.cache_read_input_tokens END) WHEN max(u.account = 'turn_end') THEN sum(CASE u.account WHEN 'turn_end' THEN u.cache_read_input_tokens END) END AS finest_cache_read_input_tokens,
            nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cache_write_input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cache_write_input_tokens END), -1)), -1) AS most_cache_write_input_tokens,
            CASE WHEN max(u.account = 'reply') THEN sum(CASE u.account WHEN 'reply' THEN u.cache_write_input_tokens END) WHEN max(u.account = 'model_turn') THEN sum(CASE u.account WHEN 'model_turn' THEN u.cache_write_input_tokens END) WHEN max(u.account = 'turn') THEN sum(CASE u.account WHEN 'turn' THEN u.cache_write_input_tokens END) WHEN max(u.account = 'turn_end') THEN sum(CASE u.account WHEN 'turn_end' THEN u.cache_write_input_tokens END) END AS finest_cache_write_input_tokens,
            nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.output_tokens END), -1)), -1) AS most_output_tokens,
            CASE WHEN max(u.account = 'reply') THEN sum(CASE u.account WHEN 'reply' THEN u.output_tokens END) WHEN max(u.account = 'model_turn') THEN sum(CASE u.account WHEN 'model_turn' THEN u.output_tokens END) WHEN max(u.account = 'turn') THEN sum(CASE u.account WHEN 'turn' THEN u.output_tokens END) WHEN max(u.account = 'turn_end') THEN sum(CASE u.account WHEN 'turn_end' THEN u.output_tokens END) END AS finest_output_tokens,
            nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.reasoning_output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.reasoning_output_tokens END), -1)), -1) AS most_reasoning_output_tokens,
            CASE WHEN max(u.account = 'reply') THEN sum(CASE u.account WHEN 'reply' THEN u.reasoning_output_tokens END) WHEN max(u.account = 'model_turn') THEN sum(CASE u.account WHEN 'model_turn' THEN u.reasoning_output_tokens END) WHEN max(u.account = 'turn') THEN sum(CASE u.account WHEN 'turn' THEN u.reasoning_output_tokens END) WHEN max(u.account = 'turn_end') THEN sum(CASE u.account WHEN 'turn_end' THEN u.reasoning_output_tokens END) END AS finest_reasoning_output_tokens,
            nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cost_nanos END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cost_nanos END), -1)), -1) AS most_cost_nanos,
            CASE WHEN max(u.account = 'reply') THEN sum(CASE u.account WHEN 'reply' THEN u.cost_nanos END) WHEN max(u.account = 'model_turn') THEN sum(CASE u.account WHEN 'model_turn' THEN u.cost_nanos END) WHEN max(u.account = 'turn') THEN sum(CASE u.account WHEN 'turn' THEN u.cost_nanos END) WHEN max(u.account = 'turn_end') THEN sum(CASE u.account WHEN 'turn_end' THEN u.cost_nanos END) END AS finest_cost_nanos
        FROM usage_runs AS w
        JOIN scopes AS s ON s.id = w.scope
        JOIN usage_records AS u ON u.usage_run = w.id
        GROUP BY w.id, s.name, w.recorded_at, w.agent_id, w.session_id, w.run_id
    ) AS u
    UNION ALL
    SELECT s.name, 'agent', a.at, a.session_id, a.session_id, NULL, NULL, NULL, NULL, NULL, a.provider, a.model, NULL,
        CASE WHEN a.input_tokens IS NOT NULL THEN nullif(max(a.input_tokens - coalesce((SELECT sum(b.n) FROM (
            SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.input_tokens END), -1)), -1) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
            UNION ALL
            SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.input_tokens END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.session_id = a.session_id AND (w.agent_id IS NULL OR w.agent_id <> a.session_id) GROUP BY w.id
            UNION ALL
            SELECT d.input_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.agent_id = a.session_id
            UNION ALL
            SELECT d.input_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.session_id = a.session_id AND d.session_id <> '' AND d.agent_id <> a.session_id
        ) AS b), 0), 0), 0) END AS input_tokens,
        NULL AS cache_read_input_tokens,
        NULL AS cache_write_input_tokens,
        CASE WHEN a.output_tokens IS NOT NULL THEN nullif(max(a.output_tokens - coalesce((SELECT sum(b.n) FROM (
            SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.output_tokens END), -1)), -1) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
            UNION ALL
            SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.output_tokens END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.session_id = a.session_id AND (w.agent_id IS NULL OR w.agent_id <> a.session_id) GROUP BY w.id
            UNION ALL
            SELECT d.output_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.agent_id = a.session_id
            UNION ALL
            SELECT d.output_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.session_id = a.session_id AND d.session_id <> '' AND d.agent_id <> a.session_id
        ) AS b), 0), 0), 0) END AS output_tokens,
        CASE WHEN a.reasoning_output_tokens IS NOT NULL THEN nullif(max(a.reasoning_output_tokens - coalesce((SELECT sum(b.n) FROM (
            SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.reasoning_output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.reasoning_output_tokens END), -1)), -1) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
            UNION ALL
            SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.reasoning_output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.reasoning_output_tokens END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.session_id = a.session_id AND (w.agent_id IS NULL OR w.agent_id <> a.session_id) GROUP BY w.id
            UNION ALL
            SELECT d.reasoning_output_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.agent_id = a.session_id
            UNION ALL
            SELECT d.reasoning_output_tokens FROM usage_days AS d WHERE d.scope = a.scope AND d.session_id = a.session_id AND d.session_id <> '' AND d.agent_id <> a.session_id
        ) AS b), 0), 0), 0) END AS reasoning_output_tokens,
        CASE WHEN a.cost_nanos IS NOT NULL THEN nullif(max(a.cost_nanos - coalesce((SELECT sum(b.n) FROM (
            SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cost_nanos END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cost_nanos END), -1)), -1) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
            WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
            UNION ALL
            SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cost_nanos END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cost_nanos END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
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
        WHERE coalesce(input_tokens, output_tokens, reasoning_tokens, cost_micros_usd) IS NOT NULL
        GROUP BY scope, session_id
    ) AS a
    CROSS JOIN scopes AS s -- in this order: a query for one run does not read the agents
    WHERE s.id = a.scope
    UNION ALL
    SELECT s.name, 'removed', d.day, nullif(d.agent_id, ''), nullif(d.session_id, ''), NULL, NULL, NULL, NULL, NULL, d.provider, d.request_model, d.response_model,
        d.input_tokens, d.cache_read_input_tokens, d.cache_write_input_tokens, d.output_tokens, d.reasoning_output_tokens, d.cost_nanos
    FROM usage_days AS d
    JOIN scopes AS s ON s.id = d.scope
) AS u
WHERE coalesce(u.input_tokens, u.cache_read_input_tokens, u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_nanos) IS NOT NULL;

-- What each run used, and what it and all runs below it used (runs.parent). No use is counted twice, as in v_usage. A run without a trace is
-- not here, and of runs that are gone nothing is.
CREATE VIEW v_usage_tree AS
SELECT
    s.name     AS scope,    -- '' is the default scope
    r.agent_id AS agent_id, -- as the calls that wrote the run named it
    r.run_id   AS run_id,   -- as above
    r.parent   AS parent,   -- number of the run that started it; NULL: none
    (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.input_tokens END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS input_tokens, -- tokens read by the run, those from a cache included; NULL: not counted, as in all below
    (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cache_read_input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cache_read_input_tokens END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS cache_read_input_tokens, -- of these, read from a cache
    (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cache_write_input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cache_write_input_tokens END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS cache_write_input_tokens, -- of these, written to a cache
    (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.output_tokens END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS output_tokens, -- tokens answered
    (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.reasoning_output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.reasoning_output_tokens END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS reasoning_output_tokens, -- of these, for reasoning
    (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cost_nanos END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cost_nanos END), -1)), -1) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = r.run_id AND w.scope = r.scope) AS cost_nanos, -- billionths of a US dollar
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.input_tokens END), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_input_tokens, -- as input_tokens, of the run and all runs below it
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cache_read_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cache_read_input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cache_read_input_tokens END), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_cache_read_input_tokens, -- as cache_read_input_tokens, of the run and all runs below it
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cache_write_input_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cache_write_input_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cache_write_input_tokens END), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_cache_write_input_tokens, -- as cache_write_input_tokens, of the run and all runs below it
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.output_tokens END), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_output_tokens, -- as output_tokens, of the run and all runs below it
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.reasoning_output_tokens END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.reasoning_output_tokens END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.reasoning_output_tokens END), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_reasoning_output_tokens, -- as reasoning_output_tokens, of the run and all runs below it
    (WITH RECURSIVE below (key) AS (SELECT r.key UNION SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
        SELECT sum(m.n) FROM (SELECT nullif(max(coalesce(sum(CASE u.account WHEN 'reply' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'model_turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn' THEN u.cost_nanos END), -1), coalesce(sum(CASE u.account WHEN 'turn_end' THEN u.cost_nanos END), -1), coalesce(max(CASE u.account WHEN 'agent_end' THEN u.cost_nanos END), -1)), -1) AS n FROM below AS b JOIN runs AS c ON c.key = b.key JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
            JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m) AS tree_cost_nanos, -- as cost_nanos, of the run and all runs below it
    r.key      AS run       -- number of the run, as in v_runs
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope;
