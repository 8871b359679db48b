-- The runtimes.
CREATE VIEW v_worker_runtimes AS
SELECT
    s.name                AS scope,             -- '' is the default scope
    r.runtime_id          AS runtime_id,        -- as its callers name it
    shown(r.display_name)        AS display_name,      -- NULL: none
    r.status              AS status,            -- running or stopped
    min(r.running_workers + r.stopped_workers + r.cancelled_workers, 9223372036854775807) AS workers, -- number of all
    r.running_workers     AS running,           -- number of those that run
    r.stopped_workers     AS stopped,           -- number of those that were stopped
    r.cancelled_workers   AS cancelled,         -- number of those that were cancelled
    CASE r.next_event_id WHEN -9223372036854775808 THEN 9223372036854775807 ELSE r.next_event_id - 1 END AS last_event_id,     -- of its last event
    r.diagnostics         AS diagnostics,       -- number of them
    utc(r.created_at) AS created_at, -- UTC; NULL: imported
    r.created_at AS created_at_ns, -- Unix nanoseconds; NULL: imported
    utc(r.stopped_at) AS stopped_at, -- UTC; NULL: running, or imported
    r.stopped_at AS stopped_at_ns, -- Unix nanoseconds; NULL: running, or imported
    r.key                 AS runtime            -- the runtime's number, for joins with the other views
FROM worker_runtimes AS r
JOIN scopes AS s ON s.id = r.scope;

-- The workers, with what they are for and when they last heard something.
CREATE VIEW v_workers AS
SELECT
    s.name                AS scope,             -- '' is the default scope
    r.runtime_id          AS runtime_id,        -- the runtime it belongs to
    w.worker_id           AS worker_id,         -- unique in its runtime
    w.status              AS status,            -- running, stopped or cancelled
    q.intent              AS intent,            -- assistant, task or role
    shown(coalesce(q.objective, q.role, q.purpose)) AS purpose, -- the task's objective, the role, or what the assistant is for; NULL: not given
    shown(coalesce(q.profile_value, q.profile))     AS profile, -- its name, or runtime_default
    q.config_bundle       AS config_bundle,     -- NULL: none
    q.capabilities        AS capabilities,      -- number of requested capabilities
    w.transcript_len      AS inputs,            -- entries in its transcript
    w.last_event_id       AS last_event_id,     -- the last event that it caused
    utc(w.created_at) AS created_at, -- UTC; NULL: imported
    w.created_at AS created_at_ns, -- Unix nanoseconds; NULL: imported
    utc(w.last_input_at) AS last_input_at, -- UTC; NULL: none since it is in this file
    w.last_input_at AS last_input_at_ns, -- Unix nanoseconds; NULL: none since it is in this file
    utc(w.ended_at) AS ended_at, -- UTC; NULL: running, or imported
    w.ended_at AS ended_at_ns, -- Unix nanoseconds; NULL: running, or imported
    r.key                 AS runtime,           -- the runtime's number, for joins with the other views
    w.key                 AS worker             -- the worker's number, for joins with the other views
FROM workers AS w
JOIN worker_runtimes AS r ON r.key = w.runtime
JOIN scopes AS s ON s.id = r.scope
JOIN worker_requests AS q ON q.worker = w.key;

-- The events, in the order of the log.
CREATE VIEW v_worker_events AS
SELECT
    s.name                AS scope,             -- '' is the default scope
    r.runtime_id          AS runtime_id,        -- the runtime whose log it is
    coalesce(e.event_id, e.id & 1099511627775) AS event_id, -- as the calls name it
    e.kind                AS kind,              -- runtime_started, runtime_stopped, worker_created, worker_input_accepted, worker_stopped, worker_cancelled; other words come from imports
    w.worker_id           AS worker_id,         -- the worker it is about; NULL: the runtime itself
    shown(e.message)             AS message,           -- for people
    utc(e.recorded_at) AS recorded_at, -- UTC; NULL: imported
    e.recorded_at AS recorded_at_ns, -- Unix nanoseconds; NULL: imported
    r.key                 AS runtime,           -- the runtime's number, for joins with the other views
    w.key                 AS worker,            -- the worker's number, for joins with the other views
    e.id                  AS place              -- order of the events of a runtime
FROM worker_runtimes AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN worker_events AS e -- in this order: the ids of a runtime's events are one range
LEFT JOIN workers AS w ON w.key = e.worker
WHERE e.id > r.key << 40 AND e.id < (r.key + 1) << 40;

-- What was said to the workers.
CREATE VIEW v_worker_transcripts AS
SELECT
    s.name                AS scope,             -- '' is the default scope
    r.runtime_id          AS runtime_id,        -- the runtime of the worker
    w.worker_id           AS worker_id,         -- whose transcript it is
    coalesce(t.sequence, t.id & 16777215) AS sequence, -- as the calls name it
    t.role                AS role,              -- user or system
    shown(CAST(t.content AS TEXT)) AS content,         -- what was said
    t.event_id            AS event_id,          -- the event that accepted it
    utc(t.recorded_at) AS recorded_at, -- UTC; NULL: imported
    t.recorded_at AS recorded_at_ns, -- Unix nanoseconds; NULL: imported
    r.key                 AS runtime,           -- the runtime's number, for joins with the other views
    w.key                 AS worker             -- the worker's number, for joins with the other views
FROM workers AS w
JOIN worker_runtimes AS r ON r.key = w.runtime
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN worker_entries AS t -- in this order: the ids of a worker's entries are one range
WHERE t.id > w.key << 24 AND t.id < (w.key + 1) << 24;

-- What is worth knowing about runtimes and workers.
CREATE VIEW v_worker_diagnostics AS
SELECT
    s.name                AS scope,             -- '' is the default scope
    r.runtime_id          AS runtime_id,        -- the runtime it belongs to
    coalesce(d.diagnostic_id, d.id & 1099511627775) AS diagnostic_id, -- as the calls name it
    d.severity            AS severity,          -- info, warning or error
    d.code                AS code,              -- a stable word; import.… tells what an import could not read
    shown(d.message)             AS message,           -- for people
    w.worker_id           AS worker_id,         -- the worker it is about; NULL: the runtime itself
    utc(d.recorded_at) AS recorded_at, -- UTC; NULL: imported
    d.recorded_at AS recorded_at_ns, -- Unix nanoseconds; NULL: imported
    r.key                 AS runtime            -- the runtime's number, for joins with the other views
FROM worker_runtimes AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN worker_diagnostics AS d -- in this order: the ids of a runtime's diagnostics are one range
LEFT JOIN workers AS w ON w.key = d.worker
WHERE d.id > r.key << 40 AND d.id < (r.key + 1) << 40;
