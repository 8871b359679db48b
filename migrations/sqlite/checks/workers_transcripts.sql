SELECT 'worker ' || w.key || ' counts ' || w.transcript_len || ' entries; it has ' || coalesce(t.n, 0) || ', the last at place ' || coalesce(t.last, 0)
FROM workers AS w
LEFT JOIN (
    SELECT id >> 24 AS worker, count(*) AS n, max(id) & 16777215 AS last FROM worker_entries GROUP BY id >> 24
) AS t ON t.worker = w.key
WHERE w.transcript_len <> coalesce(t.n, 0) OR coalesce(t.n, 0) <> coalesce(t.last, 0)
