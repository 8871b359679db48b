SELECT 'run ' || run || ' is gone and left ' || records || ' records'
FROM (SELECT id >> 24 AS run, count(*) AS records FROM run_records GROUP BY id >> 24) AS x
WHERE NOT EXISTS (SELECT 1 FROM runs WHERE key = x.run)
    AND NOT EXISTS (SELECT 1 FROM run_leavings AS l WHERE l.run = x.run)
