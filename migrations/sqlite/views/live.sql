-- The live runs, all that are here.
CREATE VIEW v_live_runs AS
SELECT
    s.name        AS scope,       -- '' is the default scope
    r.session_id  AS session_id,  -- the session that the run belongs to
    r.run_id      AS run_id,      -- 'run-' and a UUID, or the caller's own
    r.status      AS status,      -- created, planning, executing, verifying, completed, failed or cancelled
    t.prompt      AS prompt,      -- what the run was asked to do
    t.result_text AS result_text, -- what it answered; NULL: nothing yet
    t.error       AS error,       -- what went wrong; NULL: nothing, or the run got over it
    strftime('%Y-%m-%dT%H:%M:%S', r.created_at / 1000000000, 'unixepoch') || printf('.%03dZ', r.created_at / 1000000 % 1000) AS created_at, -- UTC, at most the year 2262
    strftime('%Y-%m-%dT%H:%M:%S', r.updated_at / 1000000000, 'unixepoch') || printf('.%03dZ', r.updated_at / 1000000 % 1000) AS updated_at, -- UTC, of the last event or mark
    round((r.updated_at - r.created_at) / 1e9, 3) AS seconds, -- from the beginning to the last event or mark
    r.event_count AS events,      -- recorded in all
    r.kept_events AS kept_events, -- of these, still here
    (SELECT e.type FROM live_events AS e WHERE e.id >= r.key << 32 AND e.id < (r.key + 1) << 32 ORDER BY e.id DESC LIMIT 1) AS last_event, -- type of the last event that is here; NULL: none is
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
    strftime('%Y-%m-%dT%H:%M:%S', e.recorded_at / 1000000000, 'unixepoch') || printf('.%03dZ', e.recorded_at / 1000000 % 1000) AS recorded_at, -- UTC
    CAST(e.event AS TEXT) AS event, -- the event as JSON
    r.key        AS run         -- the run's number, for joins with v_live_runs
FROM live_runs AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN live_events AS e -- in this order: the ids of a run's events are one range
WHERE e.id >= r.key << 32 AND e.id < (r.key + 1) << 32;
