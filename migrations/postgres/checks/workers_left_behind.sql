SELECT what || ' of ' || owner || ' are there without it'
FROM (
    SELECT DISTINCT 'events' AS what, 'runtime ' || (id >> 40) AS owner FROM worker_events
    WHERE id >> 40 NOT IN (SELECT key FROM worker_runtimes)
    UNION ALL
    SELECT DISTINCT 'diagnostics', 'runtime ' || (id >> 40) FROM worker_diagnostics
    WHERE id >> 40 NOT IN (SELECT key FROM worker_runtimes)
    UNION ALL
    SELECT DISTINCT 'entries', 'worker ' || (id >> 24) FROM worker_entries
    WHERE id >> 24 NOT IN (SELECT key FROM workers)
) AS x
UNION ALL
SELECT 'worker ' || key || ' has no request' FROM workers WHERE key NOT IN (SELECT worker FROM worker_requests)
