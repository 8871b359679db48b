SELECT 'worker ' || key || ' counts ' || transcript_len || ' entries; it has ' || n || ', the last at place ' || last
FROM (
    SELECT key, transcript_len,
        (SELECT count(*) FROM worker_entries WHERE id >= key << 24 AND id < (key + 1) << 24) AS n,
        coalesce((SELECT max(id) & 16777215 FROM worker_entries WHERE id >= key << 24 AND id < (key + 1) << 24), 0) AS last
    FROM workers
) AS x
WHERE transcript_len <> n OR n <> last
