SELECT 'live run ' || key || ' is there, and its events are to go'
FROM live_runs
WHERE key IN (SELECT run FROM live_leavings)
