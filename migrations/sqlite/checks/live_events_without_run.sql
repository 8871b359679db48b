SELECT 'live run ' || run || ' is gone and left ' || events || ' events'
FROM (SELECT id >> 32 AS run, count(*) AS events FROM live_events GROUP BY id >> 32)
WHERE run NOT IN (SELECT key FROM live_runs) AND run NOT IN (SELECT run FROM live_leavings)
