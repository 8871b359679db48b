-- What models used and what it cost, and no use twice: a row for each record that counts tokens or money. The finest account of a run
-- wins: the model_turns of its trace, else the turns of its trace that count, else the turn_ends of the live run with its id. An
-- agent_end, which sums its run up, and the usage of an agent of the registry, which sums its work up, are here with what they count
-- beyond that. Records count in members of their own (token_usage, usage, cost_usd, …), as v_turns, v_model_turns and v_live_events show
-- them, for which this view goes through all of them.
CREATE VIEW v_usage AS
WITH said AS (
    SELECT t.scope, 'turn' AS kind, t.recorded_at_ns AS at, t.agent_id, v.session_id, t.run_id, r.run_id AS of_run, t.run, NULL::bigint AS live_run, t.sequence, NULL::bigint AS place,
        t.provider, t.request_model, t.response_model, t.input_tokens, t.cache_read_input_tokens, t.cache_write_input_tokens, t.output_tokens, t.reasoning_output_tokens, t.cost_usd
    FROM v_turns AS t
    JOIN runs AS r ON r.key = t.run
    LEFT JOIN live_runs AS v ON v.scope = r.scope AND v.run_id = r.run_id
    UNION ALL
    SELECT t.scope, 'model_turn', t.recorded_at_ns, t.agent_id, v.session_id, t.run_id, r.run_id, t.run, NULL, t.sequence, NULL,
        t.provider, t.request_model, t.response_model, t.input_tokens, t.cache_read_input_tokens, t.cache_write_input_tokens, t.output_tokens, t.reasoning_output_tokens, t.cost_usd
    FROM v_model_turns AS t
    JOIN runs AS r ON r.key = t.run
    LEFT JOIN live_runs AS v ON v.scope = r.scope AND v.run_id = r.run_id
    UNION ALL
    SELECT scope, type, recorded_at_ns, NULL::text, session_id, run_id, run_id, NULL, run, sequence, place,
        provider, request_model, response_model, input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_usd
    FROM v_live_events
    WHERE type IN ('turn_end', 'agent_end')
), counted AS (
    SELECT * FROM said WHERE num_nonnulls(input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_usd) > 0
), ranked AS (
    SELECT *, bool_or(kind = 'model_turn') OVER (PARTITION BY run) AS modelled,
        bool_or(run IS NOT NULL) OVER (PARTITION BY scope, of_run) AS traced,
        row_number() OVER (PARTITION BY live_run, kind ORDER BY place DESC) AS last,
        max(CASE kind WHEN 'agent_end' THEN provider END) OVER (PARTITION BY live_run) AS run_provider,
        max(CASE kind WHEN 'agent_end' THEN request_model END) OVER (PARTITION BY live_run) AS run_request_model,
        max(CASE kind WHEN 'agent_end' THEN response_model END) OVER (PARTITION BY live_run) AS run_response_model,
        sum(CASE kind WHEN 'turn_end' THEN input_tokens END) OVER (PARTITION BY live_run) AS turns_input_tokens,
        max(CASE kind WHEN 'agent_end' THEN input_tokens END) OVER (PARTITION BY live_run) AS ends_input_tokens,
        sum(CASE kind WHEN 'turn_end' THEN cache_read_input_tokens END) OVER (PARTITION BY live_run) AS turns_cache_read_input_tokens,
        max(CASE kind WHEN 'agent_end' THEN cache_read_input_tokens END) OVER (PARTITION BY live_run) AS ends_cache_read_input_tokens,
        sum(CASE kind WHEN 'turn_end' THEN cache_write_input_tokens END) OVER (PARTITION BY live_run) AS turns_cache_write_input_tokens,
        max(CASE kind WHEN 'agent_end' THEN cache_write_input_tokens END) OVER (PARTITION BY live_run) AS ends_cache_write_input_tokens,
        sum(CASE kind WHEN 'turn_end' THEN output_tokens END) OVER (PARTITION BY live_run) AS turns_output_tokens,
        max(CASE kind WHEN 'agent_end' THEN output_tokens END) OVER (PARTITION BY live_run) AS ends_output_tokens,
        sum(CASE kind WHEN 'turn_end' THEN reasoning_output_tokens END) OVER (PARTITION BY live_run) AS turns_reasoning_output_tokens,
        max(CASE kind WHEN 'agent_end' THEN reasoning_output_tokens END) OVER (PARTITION BY live_run) AS ends_reasoning_output_tokens,
        sum(CASE kind WHEN 'turn_end' THEN cost_usd END) OVER (PARTITION BY live_run) AS turns_cost_usd,
        max(CASE kind WHEN 'agent_end' THEN cost_usd END) OVER (PARTITION BY live_run) AS ends_cost_usd
    FROM counted
), fine AS (
    SELECT scope, kind, at, agent_id, session_id, run_id, run, live_run, sequence,
        CASE WHEN run IS NULL THEN coalesce(provider, run_provider) ELSE provider END AS provider,
        CASE WHEN run IS NULL THEN coalesce(request_model, run_request_model) ELSE request_model END AS request_model,
        CASE WHEN run IS NULL THEN coalesce(response_model, run_response_model) ELSE response_model END COLLATE "C" AS response_model,
        CASE kind WHEN 'agent_end' THEN CASE WHEN turns_input_tokens IS NULL THEN ends_input_tokens WHEN ends_input_tokens > turns_input_tokens THEN ends_input_tokens - turns_input_tokens END ELSE input_tokens END AS input_tokens,
        CASE kind WHEN 'agent_end' THEN CASE WHEN turns_cache_read_input_tokens IS NULL THEN ends_cache_read_input_tokens WHEN ends_cache_read_input_tokens > turns_cache_read_input_tokens THEN ends_cache_read_input_tokens - turns_cache_read_input_tokens END ELSE cache_read_input_tokens END AS cache_read_input_tokens,
        CASE kind WHEN 'agent_end' THEN CASE WHEN turns_cache_write_input_tokens IS NULL THEN ends_cache_write_input_tokens WHEN ends_cache_write_input_tokens > turns_cache_write_input_tokens THEN ends_cache_write_input_tokens - turns_cache_write_input_tokens END ELSE cache_write_input_tokens END AS cache_write_input_tokens,
        CASE kind WHEN 'agent_end' THEN CASE WHEN turns_output_tokens IS NULL THEN ends_output_tokens WHEN ends_output_tokens > turns_output_tokens THEN ends_output_tokens - turns_output_tokens END ELSE output_tokens END AS output_tokens,
        CASE kind WHEN 'agent_end' THEN CASE WHEN turns_reasoning_output_tokens IS NULL THEN ends_reasoning_output_tokens WHEN ends_reasoning_output_tokens > turns_reasoning_output_tokens THEN ends_reasoning_output_tokens - turns_reasoning_output_tokens END ELSE reasoning_output_tokens END AS reasoning_output_tokens,
        CASE kind WHEN 'agent_end' THEN CASE WHEN turns_cost_usd IS NULL THEN ends_cost_usd WHEN ends_cost_usd > turns_cost_usd + 1e-9 THEN ends_cost_usd - turns_cost_usd END ELSE cost_usd END AS cost_usd
    FROM ranked
    WHERE kind = 'model_turn' OR kind = 'turn' AND NOT modelled OR kind = 'turn_end' AND NOT traced OR kind = 'agent_end' AND NOT traced AND last = 1
), named AS (
    SELECT s.name AS scope, session_id AS name, true AS own, coalesce(completed_at, last_progress_at, heartbeat_at, started_at) AS at, provider, model,
        input_tokens, NULL::numeric AS cache_read_input_tokens, NULL::numeric AS cache_write_input_tokens, output_tokens, reasoning_tokens AS reasoning_output_tokens, cost_micros_usd / 1e6::float8 AS cost_usd
    FROM agents
    JOIN scopes AS s ON s.id = scope
    UNION ALL
    SELECT scope, agent_id, false, NULL::bigint, NULL, NULL, input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_usd FROM fine WHERE agent_id IS NOT NULL
    UNION ALL
    SELECT scope, session_id, false, NULL::bigint, NULL, NULL, input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_usd FROM fine WHERE session_id IS NOT NULL AND session_id IS DISTINCT FROM agent_id
), summed AS (
    SELECT scope, name, max(at) AS at, max(provider) AS provider, max(model) AS model,
        sum(CASE WHEN own THEN input_tokens END) AS own_input_tokens, sum(CASE WHEN NOT own THEN input_tokens END) AS fine_input_tokens,
        sum(CASE WHEN own THEN cache_read_input_tokens END) AS own_cache_read_input_tokens, sum(CASE WHEN NOT own THEN cache_read_input_tokens END) AS fine_cache_read_input_tokens,
        sum(CASE WHEN own THEN cache_write_input_tokens END) AS own_cache_write_input_tokens, sum(CASE WHEN NOT own THEN cache_write_input_tokens END) AS fine_cache_write_input_tokens,
        sum(CASE WHEN own THEN output_tokens END) AS own_output_tokens, sum(CASE WHEN NOT own THEN output_tokens END) AS fine_output_tokens,
        sum(CASE WHEN own THEN reasoning_output_tokens END) AS own_reasoning_output_tokens, sum(CASE WHEN NOT own THEN reasoning_output_tokens END) AS fine_reasoning_output_tokens,
        sum(CASE WHEN own THEN cost_usd END) AS own_cost_usd, sum(CASE WHEN NOT own THEN cost_usd END) AS fine_cost_usd
    FROM named
    GROUP BY scope, name
    HAVING bool_or(own)
), uses AS (
    SELECT * FROM fine
    UNION ALL
    SELECT scope, 'agent', at, name, name, NULL, NULL::bigint, NULL::bigint, NULL::bigint, provider, model, NULL,
        CASE WHEN fine_input_tokens IS NULL THEN own_input_tokens WHEN own_input_tokens > fine_input_tokens THEN own_input_tokens - fine_input_tokens END,
        CASE WHEN fine_cache_read_input_tokens IS NULL THEN own_cache_read_input_tokens WHEN own_cache_read_input_tokens > fine_cache_read_input_tokens THEN own_cache_read_input_tokens - fine_cache_read_input_tokens END,
        CASE WHEN fine_cache_write_input_tokens IS NULL THEN own_cache_write_input_tokens WHEN own_cache_write_input_tokens > fine_cache_write_input_tokens THEN own_cache_write_input_tokens - fine_cache_write_input_tokens END,
        CASE WHEN fine_output_tokens IS NULL THEN own_output_tokens WHEN own_output_tokens > fine_output_tokens THEN own_output_tokens - fine_output_tokens END,
        CASE WHEN fine_reasoning_output_tokens IS NULL THEN own_reasoning_output_tokens WHEN own_reasoning_output_tokens > fine_reasoning_output_tokens THEN own_reasoning_output_tokens - fine_reasoning_output_tokens END,
        CASE WHEN fine_cost_usd IS NULL THEN own_cost_usd WHEN own_cost_usd > fine_cost_usd + 1e-9 THEN own_cost_usd - fine_cost_usd END
    FROM summed
)
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
    u.response_model COLLATE "C" AS response_model,
    u.input_tokens AS input_tokens,
    u.cache_read_input_tokens AS cache_read_input_tokens,
    u.cache_write_input_tokens AS cache_write_input_tokens,
    u.output_tokens AS output_tokens,
    u.reasoning_output_tokens AS reasoning_output_tokens,
    u.cost_usd AS cost_usd,
    CASE WHEN u.cost_usd IS NOT NULL THEN 'reported' END COLLATE "C" AS cost_source,
    u.sequence AS sequence,
    u.run AS run,
    u.live_run AS live_run
FROM uses AS u
WHERE num_nonnulls(u.input_tokens, u.cache_read_input_tokens, u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_usd) > 0;
