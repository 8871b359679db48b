SELECT 'live run ' || key || ' has no texts'
FROM live_runs
WHERE NOT EXISTS (SELECT 1 FROM live_texts WHERE run = live_runs.key)
