SELECT 'runtime ' || key || ' counts ' || diagnostics || ' diagnostics; it has ' || n || ', the last at place ' || last
FROM (
    SELECT key, diagnostics,
        (SELECT count(*) FROM worker_diagnostics WHERE id >= key << 40 AND id < (key + 1) << 40) AS n,
        coalesce((SELECT max(id) & 1099511627775 FROM worker_diagnostics WHERE id >= key << 40 AND id < (key + 1) << 40), 0) AS last
    FROM worker_runtimes
) AS x
WHERE diagnostics <> n OR n <> last
