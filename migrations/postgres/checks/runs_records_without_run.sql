SELECT 'run ' || run || ' is gone and left ' || records || ' records'
FROM (SELECT id >> 24 AS run, count(*) AS records FROM run_records GROUP BY id >> 24) AS x
WHERE run NOT IN (SELECT key FROM runs) AND run NOT IN (SELECT run FROM run_leavings)
