-- The runs that lists show, open and ended. Times outside 1678 to 2261 are the nearest that a column holds.
CREATE VIEW v_runs AS
SELECT
    s.name                               AS scope,      -- '' is the default scope
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id, -- as the last started record names it
    coalesce(r.shown_run_id, r.run_id)     AS run_id,   -- as the last started record names it
    shown(r.intent)                             AS intent,     -- what the run was meant to achieve
    CASE WHEN r.status = 'in_progress' AND EXISTS (SELECT 1 FROM run_steps AS w WHERE w.run = r.key AND w.state = 'waiting')
         THEN 'waiting' ELSE r.status END AS status,  -- in_progress, waiting (for a person), completed, incomplete, cancelled or cancellation_pending
    r.outcome                            AS outcome,    -- success, partial_success, give_up, timeout, failure or done; NULL: none was reported
    CASE WHEN r.status IN ('incomplete', 'cancelled') THEN r.status
         WHEN r.outcome IN ('failure', 'timeout', 'give_up') THEN r.outcome
        END                              AS error_type, -- what kept the run from its aim: failure, timeout, give_up, incomplete or cancelled; NULL: nothing, or not yet
    shown(r.summary)                            AS summary,    -- why, in the words of its end; NULL: it says nothing
    utc(r.started_at)                    AS started_at, -- UTC
    r.started_at                         AS started_at_ns, -- Unix nanoseconds
    utc(r.ended_at)                      AS ended_at,   -- UTC; NULL: open
    r.ended_at                           AS ended_at_ns, -- Unix nanoseconds; NULL: open
    utc(l.recorded_at)                   AS last_activity_at, -- UTC, at which its last record was written; NULL: imported
    l.recorded_at                        AS last_activity_at_ns, -- Unix nanoseconds; NULL: imported
    (r.ended_at / 1000 - r.started_at / 1000 + CASE WHEN r.ended_at < r.started_at THEN -500 ELSE 500 END) / 1000 / 1e3 AS seconds, -- from start to end; NULL: open
    coalesce(r.turn_count, coalesce(l.id & 16777215, 0) - r.others) AS turns, -- turns in the trace
    coalesce(l.bytes, (
        SELECT sum(coalesce(length(t.parameters), 0) + coalesce(length(t.output), 0) + coalesce(length(t.raw), 0)
            + coalesce(length(CAST(t.unknown_kind AS BLOB)), 0) + coalesce(length(CAST(t.prompt AS BLOB)), 0) + coalesce(length(CAST(t.tool AS BLOB)), 0)
            + coalesce(length(CAST(t.policy_rule AS BLOB)), 0) + coalesce(length(CAST(t.policy_param AS BLOB)), 0))
        FROM run_records AS t WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24), 0) AS bytes, -- of the texts and JSON in its trace
    o.pid                                AS owner_pid,  -- process that wrote to the open run last; NULL: ended, or imported
    coalesce(p.shown_run_id, p.run_id)   AS parent_run_id, -- the run that started it; NULL: none did, nobody said, or it was removed
    v.session_id                         AS session_id, -- session of the live run with its id; NULL: there is none
    r.parent                             AS parent,     -- the parent's number, which is its column run
    v.key                                AS live_run,   -- number of the live run with its id, which is the column run of v_live_runs; NULL: there is none
    r.key                                AS run         -- the run's number, for joins with the other views
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
LEFT JOIN owners AS o ON o.id = r.owner_id
LEFT JOIN run_records AS l ON l.id = (SELECT max(t.id) FROM run_records AS t WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24)
LEFT JOIN runs AS p ON p.key = r.parent
LEFT JOIN live_runs AS v ON v.scope = r.scope AND v.run_id = r.run_id
WHERE r.started_at IS NOT NULL;

-- The turns of all traces.
CREATE VIEW v_turns AS
SELECT
    s.name                               AS scope,        -- '' is the default scope
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id,   -- as in v_runs
    coalesce(r.shown_run_id, r.run_id)     AS run_id,     -- as in v_runs
    t.id & 16777215                      AS sequence,     -- place of the line in the trace, from 1
    t.turn_index                         AS turn_index,   -- as the recorder stamped it: old traces repeat and skip values
    shown(t.prompt)                             AS prompt,       -- NULL: not recorded
    shown(t.tool)                               AS tool,         -- NULL: not recorded
    shown(t.tool)                               AS tool_name,    -- the same, under the name that all views have
    CAST(t.parameters AS TEXT)           AS parameters,   -- JSON; NULL: none
    CAST(t.output AS TEXT)               AS output,       -- JSON; NULL: none
    t.cli_kind                           AS cli_kind,     -- exited, killed or timeout; NULL: no command line
    t.cli_code                           AS cli_code,     -- exit code; NULL: it did not exit by itself
    t.verdict                            AS verdict,      -- pass, fail or not_run
    shown(t.policy_rule)                        AS policy_rule,  -- the policy that rejected the turn; NULL: none did
    shown(t.policy_param)                       AS policy_param, -- the parameter it objected to
    CASE WHEN t.policy_rule IS NOT NULL THEN 'policy_rejected'
         WHEN t.cli_kind IN ('killed', 'timeout') THEN t.cli_kind
         WHEN t.cli_code <> 0 THEN 'exit_code'
         WHEN t.verdict = 'fail' THEN 'refuted'
        END                              AS error_type,   -- what went wrong: policy_rejected, timeout, killed, exit_code or refuted; NULL: nothing
    json_extract(t.j, '$.action_id')     AS tool_call_id, -- id of the action, as later versions write it; NULL: not recorded
    t.provider                           AS provider,     -- of the model; NULL: the record doesn't say, as in the two below
    t.request_model                      AS request_model, -- model that was asked for
    t.response_model                     AS response_model, -- model that answered
    input_tokens_of(t)                   AS input_tokens, -- tokens read, those from a cache included; NULL: not counted, as in all below. v_usage has what can be added up
    t.cache_read                         AS cache_read_input_tokens, -- of these, read from a cache
    t.cache_write                        AS cache_write_input_tokens, -- of these, written to a cache
    t.output_tokens                      AS output_tokens, -- tokens answered
    t.reasoning_tokens                   AS reasoning_output_tokens, -- of these, for reasoning
    t.cost_usd                           AS cost_usd,     -- US dollars
    CASE WHEN t.cost_usd IS NOT NULL THEN 'reported' END AS cost_source, -- reported: the record says it; nothing is reckoned from price lists
    coalesce(json_extract(t.j, '$.action_duration_ms'),
        (t.recorded_at - (SELECT b.recorded_at FROM run_records AS b WHERE b.id = t.id - 1 AND b.id & 16777215 > 0)) / 1e6)
                                         AS duration_ms,  -- of the action, as later versions write it, else since the record before was written; NULL: imported without it
    utc(t.recorded_at)                   AS recorded_at,  -- UTC, at which it was written; NULL: imported
    t.recorded_at                        AS recorded_at_ns, -- Unix nanoseconds; NULL: imported
    r.key                                AS run           -- the run's number, for joins with v_runs
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN ( -- in this order, and without an index on kind: the ids of a run's records are one range
    SELECT *, use_of_model()
    FROM (SELECT *, CASE WHEN raw IS NOT NULL THEN counts_of(j) END AS u FROM (SELECT *, doc(raw) AS j FROM run_records AS t))
) AS t
WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24 AND +t.kind = 'turn';

-- What later versions record of each answer of a model, in all traces. A trace that has these may count the same in its turns: v_usage
-- counts no use twice.
CREATE VIEW v_model_turns AS
SELECT
    s.name                               AS scope,        -- '' is the default scope
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id,   -- as in v_runs
    coalesce(r.shown_run_id, r.run_id)     AS run_id,     -- as in v_runs
    t.id & 16777215                      AS sequence,     -- place of the line in the trace, from 1
    t.provider                           AS provider,     -- of the model; NULL: the record doesn't say, as in the two below
    t.request_model                      AS request_model, -- model that was asked for
    t.response_model                     AS response_model, -- model that answered
    input_tokens_of(t)                   AS input_tokens, -- tokens read, those from a cache included; NULL: not counted, as in all below. v_usage has what can be added up
    t.cache_read                         AS cache_read_input_tokens, -- of these, read from a cache
    t.cache_write                        AS cache_write_input_tokens, -- of these, written to a cache
    t.output_tokens                      AS output_tokens, -- tokens answered
    t.reasoning_tokens                   AS reasoning_output_tokens, -- of these, for reasoning
    t.cost_usd                           AS cost_usd,     -- US dollars
    CASE WHEN t.cost_usd IS NOT NULL THEN 'reported' END AS cost_source, -- reported: the record says it; nothing is reckoned from price lists
    json_extract(t.j, '$.tool_name')     AS tool_name,    -- the tool it is about; NULL: none
    json_extract(t.j, '$.tool_call_id')  AS tool_call_id, -- the call it is about; NULL: none
    json_extract(t.j, '$.error_type')    AS error_type,   -- what went wrong; NULL: nothing
    t.j                                  AS record,       -- as it was written, JSON
    utc(t.at)                            AS recorded_at,  -- UTC, at which it was written, else as it says itself; NULL: imported without it
    t.at                                 AS recorded_at_ns, -- Unix nanoseconds; NULL: as above
    r.key                                AS run           -- the run's number, for joins with v_runs
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN (
    SELECT *, use_of_model()
    FROM (SELECT *, CASE WHEN raw IS NOT NULL THEN counts_of(j) END AS u, coalesce(recorded_at, CAST(strftime('%s', json_extract(j, '$.recorded_at')) AS INTEGER) * 1000000000) AS at
        FROM (SELECT *, doc(raw) AS j FROM run_records AS t))
) AS t
WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24 AND +t.unknown_kind = 'model_turn';

-- What each agent did: its runs counted by how they ended.
CREATE VIEW v_agents_runs AS
SELECT
    s.name     AS scope,    -- '' is the default scope
    r.agent_id AS agent_id, -- as the calls that wrote the runs named it
    count(*)   AS runs,     -- with a started record
    sum(r.status IN ('in_progress', 'cancellation_pending')) AS open, -- not ended
    sum(r.status = 'completed')            AS completed, -- with an outcome, whichever
    coalesce(sum(r.outcome = 'failure'), 0) AS failures, -- completed with the outcome failure
    sum(r.status = 'incomplete')           AS incomplete, -- ended without an outcome, as crashed runs do
    sum(r.status = 'cancelled')            AS cancelled, -- by a later version of the original
    utc(max(r.started_at))                 AS last_started_at, -- UTC
    max(r.started_at)                      AS last_started_at_ns -- Unix nanoseconds
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
WHERE r.started_at IS NOT NULL
GROUP BY s.name, r.agent_id;

-- The steps of runs: what models answered, what was done outside, and what people were asked.
CREATE VIEW v_steps AS
SELECT
    n.name                               AS scope,      -- '' is the default scope
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id, -- as in v_runs
    coalesce(r.shown_run_id, r.run_id)     AS run_id,   -- as in v_runs
    shown(s.step_key)                    AS step_key,   -- name of the step within its run
    s.kind                               AS kind,       -- reply, effect or question
    CASE WHEN s.kind = 'effect' AND (s.state = 'waiting' OR s.state = 'open' AND l.epoch IS NULL AND s.decision IS NULL)
         THEN 'unknown' ELSE s.state END AS state,      -- waiting: a question without an answer; unknown: an effect that may have happened; open: an effect under way, or to be attempted again; done; given_up: an effect that may have happened and is not attempted again
    shown(s.tool)                        AS tool_name,  -- what performs an effect; NULL: not an effect
    s.policy                             AS policy,     -- of an effect: ask, retry or give_up; NULL: not an effect
    shown(s.prompt)                      AS question,   -- what the person is asked; NULL: not a question
    CAST(s.request AS TEXT)              AS request,    -- JSON: arguments of an effect, fields of a question; NULL: none
    CAST(s.result AS TEXT)               AS result,     -- JSON: the reply, the result of an effect, the fields of an answer; NULL: none, or not yet
    s.attempt                            AS attempt,    -- number of the last attempt at an effect, from 1
    s.turn                               AS turn,       -- turns that the run had when the step began
    shown(s.decision)                    AS decision,   -- of the person; NULL: nobody decided
    shown(s.settled_by)                  AS decided_by, -- name of the person; NULL: not said, or nobody
    shown(s.error)                       AS error,      -- of the last attempt; NULL: none
    utc(s.created_at)                    AS created_at, -- UTC
    s.created_at                         AS created_at_ns, -- Unix nanoseconds
    utc(s.changed_at)                    AS changed_at, -- UTC
    s.changed_at                         AS changed_at_ns, -- Unix nanoseconds
    s.run                                AS run         -- the run's number, as in v_runs
FROM run_steps AS s
JOIN runs AS r ON r.key = s.run
JOIN scopes AS n ON n.id = r.scope
LEFT JOIN leases AS l ON l.epoch = s.epoch;
