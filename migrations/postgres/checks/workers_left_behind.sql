SELECT what || ' of ' || owner || ' are there without it'
FROM (
    SELECT DISTINCT 'events' AS what, 'runtime ' || (id >> 40) AS owner FROM worker_events
    WHERE NOT EXISTS (SELECT 1 FROM worker_runtimes WHERE key = worker_events.id >> 40)
    UNION ALL
    SELECT DISTINCT 'diagnostics', 'runtime ' || (id >> 40) FROM worker_diagnostics
    WHERE NOT EXISTS (SELECT 1 FROM worker_runtimes WHERE key = worker_diagnostics.id >> 40)
    UNION ALL
    SELECT DISTINCT 'entries', 'worker ' || (id >> 24) FROM worker_entries
    WHERE NOT EXISTS (SELECT 1 FROM workers WHERE key = worker_entries.id >> 24)
) AS x
UNION ALL
SELECT 'worker ' || key || ' has no request' FROM workers
WHERE NOT EXISTS (SELECT 1 FROM worker_requests WHERE worker = workers.key)
