SELECT 'live run ' || key || ' has no texts'
FROM live_runs
WHERE key NOT IN (SELECT run FROM live_texts)
