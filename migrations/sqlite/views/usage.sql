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
    SELECT s.name AS scope, u.account AS kind, u.recorded_at AS at, w.agent_id, session_of(w) AS session_id, w.run_id,
        CASE WHEN w.agent_id IS NOT NULL THEN w.id / 2 END AS run, CASE WHEN w.agent_id IS NULL THEN w.id / 2 END AS live_run, u.sequence, u.step_key,
        named_by(provider) AS provider, named_by(request_model) AS request_model, named_by(response_model) AS response_model,
        u.input_tokens, u.cache_read_input_tokens, u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_nanos
    FROM usage_runs AS w
    JOIN scopes AS s ON s.id = w.scope
    JOIN usage_records AS u ON u.usage_run = w.id AND u.account = finest_account(w)
    UNION ALL
    SELECT w.name, 'run', w.recorded_at, w.agent_id, session_of(w), w.run_id, NULL, NULL, NULL, NULL,
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
    SELECT s.name, 'run', w.recorded_at, t.agent_id, w.session_id, w.run_id, NULL, NULL, NULL, NULL,
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
    SELECT s.name, 'agent', a.at, a.session_id, a.session_id, NULL, NULL, NULL, NULL, NULL, a.provider, a.model, NULL,
        beyond_runs(input_tokens) AS input_tokens,
        NULL AS cache_read_input_tokens,
        NULL AS cache_write_input_tokens,
        beyond_runs(output_tokens) AS output_tokens,
        beyond_runs(reasoning_output_tokens) AS reasoning_output_tokens,
        beyond_runs(cost_nanos) AS cost_nanos
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
) AS u -- SQLite does not copy a condition with a subquery into each part
WHERE (SELECT coalesce(u.input_tokens, u.cache_read_input_tokens, u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_nanos)) IS NOT NULL;

-- What each run used, and what it and all runs below it used (runs.parent). No use is counted twice, as in v_usage. A run without a trace is
-- not here, and of runs that are gone nothing is.
CREATE VIEW v_usage_tree AS
SELECT
    s.name     AS scope,    -- '' is the default scope
    r.agent_id AS agent_id, -- as the calls that wrote the run named it
    r.run_id   AS run_id,   -- as above
    r.parent   AS parent,   -- number of the run that started it; NULL: none
    used_by_run(input_tokens) AS input_tokens, -- tokens read by the run, those from a cache included; NULL: not counted, as in all below
    used_by_run(cache_read_input_tokens) AS cache_read_input_tokens, -- of these, read from a cache
    used_by_run(cache_write_input_tokens) AS cache_write_input_tokens, -- of these, written to a cache
    used_by_run(output_tokens) AS output_tokens, -- tokens answered
    used_by_run(reasoning_output_tokens) AS reasoning_output_tokens, -- of these, for reasoning
    used_by_run(cost_nanos) AS cost_nanos, -- billionths of a US dollar
    used_by_tree(input_tokens) AS tree_input_tokens, -- as input_tokens, of the run and all runs below it
    used_by_tree(cache_read_input_tokens) AS tree_cache_read_input_tokens, -- as cache_read_input_tokens, of the run and all runs below it
    used_by_tree(cache_write_input_tokens) AS tree_cache_write_input_tokens, -- as cache_write_input_tokens, of the run and all runs below it
    used_by_tree(output_tokens) AS tree_output_tokens, -- as output_tokens, of the run and all runs below it
    used_by_tree(reasoning_output_tokens) AS tree_reasoning_output_tokens, -- as reasoning_output_tokens, of the run and all runs below it
    used_by_tree(cost_nanos) AS tree_cost_nanos, -- as cost_nanos, of the run and all runs below it
    r.key      AS run       -- number of the run, as in v_runs
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope;
