-- The live runs, all that are here.
CREATE VIEW v_live_runs AS
SELECT
    s.name        AS scope,       -- '' is the default scope
    r.session_id  AS session_id,  -- the session that the run belongs to
    r.run_id      AS run_id,      -- 'run-' and a UUID, or the caller's own
    CASE WHEN r.status NOT IN ('completed', 'failed', 'cancelled') AND (SELECT max((SELECT 1 FROM run_steps AS w WHERE w.run = a.key AND w.state = 'waiting' LIMIT 1))
         FROM runs AS a WHERE a.scope = r.scope AND a.run_id = r.run_id AND a.ended_at IS NULL) IS NOT NULL
         THEN 'waiting' ELSE r.status END AS status, -- created, planning, executing, verifying, waiting (for a person), completed, failed or cancelled
    shown(t.prompt)      AS prompt,      -- what the run was asked to do
    shown(t.result_text) AS result_text, -- what it answered; NULL: nothing yet
    shown(t.error)       AS error,       -- what went wrong; NULL: nothing, or the run got over it
    CASE WHEN r.status IN ('failed', 'cancelled') THEN r.status END AS error_type, -- failed or cancelled; NULL: neither
    utc(r.created_at) AS created_at, -- UTC, at most the year 2262
    r.created_at  AS created_at_ns, -- Unix nanoseconds
    utc(r.updated_at) AS updated_at, -- UTC, of the last event or mark
    r.updated_at  AS updated_at_ns, -- Unix nanoseconds
    (r.updated_at / 1000 - r.created_at / 1000 + CASE WHEN r.updated_at < r.created_at THEN -500 ELSE 500 END) / 1000 / 1e3 AS seconds, -- from the beginning to the last event or mark
    r.event_count AS events,      -- recorded in all
    r.kept_events AS kept_events, -- of these, still here
    r.kept_bytes  AS bytes,       -- of the events that are here, as JSON
    (SELECT e.type FROM live_events AS e WHERE e.id >= r.key << 32 AND e.id < (r.key + 1) << 32 ORDER BY e.id DESC LIMIT 1) AS last_event, -- type of the last event that is here; NULL: none is
    (SELECT max(w.key) FROM runs AS w WHERE w.scope = r.scope AND w.run_id = r.run_id) AS trace, -- number of the trace with its id, which is the column run of v_runs; NULL: there is none
    r.key         AS run          -- the run's number, for joins with v_live_events
FROM live_runs AS r
JOIN scopes AS s ON s.id = r.scope
JOIN live_texts AS t ON t.run = r.key;

-- The events of all live runs.
CREATE VIEW v_live_events AS
SELECT
    s.name       AS scope,      -- '' is the default scope
    r.session_id AS session_id, -- as in v_live_runs
    r.run_id     AS run_id,     -- as in v_live_runs
    coalesce(e.sequence, e.id & 4294967295) AS sequence, -- place in the run, from 0
    e.type       AS type,       -- the event's own word, as in tool_start
    utc(e.recorded_at) AS recorded_at, -- UTC
    e.recorded_at AS recorded_at_ns, -- Unix nanoseconds, whole milliseconds
    CASE WHEN substr(e.type, 1, 4) = 'tool' THEN json_extract(e.d, '$.name') ELSE json_extract(e.d, '$.tool_name') END AS tool_name, -- the tool it is about; NULL: none
    CASE WHEN substr(e.type, 1, 4) = 'tool' THEN json_extract(e.d, '$.id') ELSE json_extract(e.d, '$.tool_id') END AS tool_call_id, -- the call it is about; NULL: none
    CASE WHEN e.type IN ('error', 'permission_denied', 'command_dead_lettered', 'persistence_failed') THEN e.type
         WHEN e.type = 'tool_end' THEN coalesce(json_extract(e.d, '$.error_kind.type'), json_extract(e.d, '$.error_kind'),
            CASE WHEN json_extract(e.d, '$.exit_code') <> 0 THEN 'exit_code' END)
         WHEN e.type IN ('subagent_end', 'external_task_completed') AND json_extract(e.d, '$.success') = 0 THEN 'failed'
        END      AS error_type, -- what went wrong: the event's error_kind, exit_code, failed (a task without success), error, permission_denied, command_dead_lettered or persistence_failed; NULL: nothing
    e.provider                           AS provider,     -- of the model, in a turn_end or agent_end, as all to cost_source; NULL: the record doesn't say, as in the two below
    e.request_model                      AS request_model, -- model that was asked for
    e.response_model                     AS response_model, -- model that answered
    input_tokens_of(e)                   AS input_tokens, -- tokens read, those from a cache included; NULL: not counted, as in all below. An agent_end sums its turn_ends up: v_usage has what can be added up
    e.cache_read                         AS cache_read_input_tokens, -- of these, read from a cache
    e.cache_write                        AS cache_write_input_tokens, -- of these, written to a cache
    e.output_tokens                      AS output_tokens, -- tokens answered
    e.reasoning_tokens                   AS reasoning_output_tokens, -- of these, for reasoning
    e.cost_usd                           AS cost_usd,     -- US dollars
    CASE WHEN e.cost_usd IS NOT NULL THEN 'reported' END AS cost_source, -- reported: the record says it; nothing is reckoned from price lists
    CASE e.type WHEN 'error' THEN json_extract(e.d, '$.message') WHEN 'permission_denied' THEN json_extract(e.d, '$.reason')
        ELSE json_extract(e.d, '$.error') END AS error, -- what went wrong, in words; NULL: nothing
    CAST(e.event AS TEXT) AS event, -- the event as JSON
    e.id          AS place,      -- order of the events of a run, which restored sequences may repeat or go back in
    r.key         AS run         -- the run's number, for joins with v_live_runs
FROM live_runs AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN ( -- in this order: the ids of a run's events are one range
    SELECT *, use_of_model()
    FROM (SELECT *, CASE WHEN j IS NOT NULL THEN counts_of(j) END AS u
        FROM (SELECT *, CASE WHEN type = 'turn_end' OR type = 'agent_end' THEN d END AS j
            FROM (SELECT *, doc(event) AS d FROM live_events AS e)))
) AS e
WHERE e.id >= r.key << 32 AND e.id < (r.key + 1) << 32;
