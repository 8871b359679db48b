SELECT 'live run ' || key || ' has an event in place ' || first || ', before its first place ' || first_place
FROM (
    SELECT key, first_place,
        (SELECT min(id) & 4294967295 FROM live_events WHERE id >= key << 32 AND id < (key + 1) << 32) AS first
    FROM live_runs
) AS x
WHERE first < first_place
