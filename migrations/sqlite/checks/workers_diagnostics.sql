SELECT 'runtime ' || r.key || ' counts ' || r.diagnostics || ' diagnostics; it has ' || coalesce(d.n, 0) || ', the last at place ' || coalesce(d.last, 0)
FROM worker_runtimes AS r
LEFT JOIN (
    SELECT id >> 40 AS runtime, count(*) AS n, max(id) & 1099511627775 AS last FROM worker_diagnostics GROUP BY id >> 40
) AS d ON d.runtime = r.key
WHERE r.diagnostics <> coalesce(d.n, 0) OR coalesce(d.n, 0) <> coalesce(d.last, 0)
