-- The runtimes.
CREATE VIEW v_worker_runtimes AS
SELECT
    s.name AS scope,
    r.runtime_id AS runtime_id,
    shown(r.display_name) AS display_name,
    r.status AS status,
    least(r.running_workers::numeric + r.stopped_workers + r.cancelled_workers, 9223372036854775807)::bigint AS workers,
    r.running_workers AS running,
    r.stopped_workers AS stopped,
    r.cancelled_workers AS cancelled,
    CASE r.next_event_id WHEN -9223372036854775808 THEN 9223372036854775807 ELSE r.next_event_id - 1 END AS last_event_id,
    r.diagnostics AS diagnostics,
    utc(r.created_at) COLLATE "C" AS created_at,
    r.created_at AS created_at_ns,
    utc(r.stopped_at) COLLATE "C" AS stopped_at,
    r.stopped_at AS stopped_at_ns,
    r.key AS runtime
FROM worker_runtimes AS r
JOIN scopes AS s ON s.id = r.scope;

-- The workers, with what they are for and when they last heard something.
CREATE VIEW v_workers AS
SELECT
    s.name AS scope,
    r.runtime_id AS runtime_id,
    w.worker_id AS worker_id,
    w.status AS status,
    q.intent AS intent,
    shown(coalesce(q.objective, q.role, q.purpose)) AS purpose,
    shown(coalesce(q.profile_value, q.profile)) AS profile,
    q.config_bundle AS config_bundle,
    q.capabilities AS capabilities,
    w.transcript_len AS inputs,
    w.last_event_id AS last_event_id,
    utc(w.created_at) COLLATE "C" AS created_at,
    w.created_at AS created_at_ns,
    utc(w.last_input_at) COLLATE "C" AS last_input_at,
    w.last_input_at AS last_input_at_ns,
    utc(w.ended_at) COLLATE "C" AS ended_at,
    w.ended_at AS ended_at_ns,
    r.key AS runtime,
    w.key AS worker
FROM workers AS w
JOIN worker_runtimes AS r ON r.key = w.runtime
JOIN scopes AS s ON s.id = r.scope
JOIN worker_requests AS q ON q.worker = w.key;

-- The events, in the order of the log.
CREATE VIEW v_worker_events AS
SELECT
    s.name AS scope,
    r.runtime_id AS runtime_id,
    coalesce(e.event_id, e.id & 1099511627775) AS event_id,
    e.kind AS kind,
    w.worker_id AS worker_id,
    shown(e.message) AS message,
    utc(e.recorded_at) COLLATE "C" AS recorded_at,
    e.recorded_at AS recorded_at_ns,
    r.key AS runtime,
    w.key AS worker,
    e.id AS place
FROM worker_runtimes AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN worker_events AS e
LEFT JOIN workers AS w ON w.key = e.worker
WHERE e.id > r.key << 40 AND e.id < (r.key + 1) << 40;

-- What was said to the workers.
CREATE VIEW v_worker_transcripts AS
SELECT
    s.name AS scope,
    r.runtime_id AS runtime_id,
    w.worker_id AS worker_id,
    coalesce(t.sequence, t.id & 16777215) AS sequence,
    t.role AS role,
    text_of(t.content) COLLATE "C" AS content,
    t.event_id AS event_id,
    utc(t.recorded_at) COLLATE "C" AS recorded_at,
    t.recorded_at AS recorded_at_ns,
    r.key AS runtime,
    w.key AS worker
FROM workers AS w
JOIN worker_runtimes AS r ON r.key = w.runtime
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN worker_entries AS t
WHERE t.id > w.key << 24 AND t.id < (w.key + 1) << 24;

-- What is worth knowing about runtimes and workers.
CREATE VIEW v_worker_diagnostics AS
SELECT
    s.name AS scope,
    r.runtime_id AS runtime_id,
    coalesce(d.diagnostic_id, d.id & 1099511627775) AS diagnostic_id,
    d.severity AS severity,
    d.code AS code,
    shown(d.message) AS message,
    w.worker_id AS worker_id,
    utc(d.recorded_at) COLLATE "C" AS recorded_at,
    d.recorded_at AS recorded_at_ns,
    r.key AS runtime
FROM worker_runtimes AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN worker_diagnostics AS d
LEFT JOIN workers AS w ON w.key = d.worker
WHERE d.id > r.key << 40 AND d.id < (r.key + 1) << 40;
