SELECT 'event ' || e.id || ' of live run ' || r.key || iif(r.places IS NULL, ' has a sequence of its own', ' has no sequence')
FROM live_events AS e JOIN live_runs AS r ON r.key = e.id >> 32
WHERE (e.sequence IS NULL) <> (r.places IS NULL)
