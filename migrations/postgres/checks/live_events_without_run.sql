SELECT 'live run ' || run || ' is gone and left ' || events || ' events'
FROM (SELECT id >> 32 AS run, count(*) AS events FROM live_events GROUP BY id >> 32) AS x
WHERE NOT EXISTS (SELECT 1 FROM live_runs WHERE key = x.run)
    AND NOT EXISTS (SELECT 1 FROM live_leavings AS l WHERE l.run = x.run)
