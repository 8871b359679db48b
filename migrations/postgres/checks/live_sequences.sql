SELECT 'event ' || e.id || ' of live run ' || r.key || CASE WHEN r.places IS NULL THEN ' has a sequence of its own' ELSE ' has no sequence' END
FROM live_events AS e JOIN live_runs AS r ON r.key = e.id >> 32
WHERE (e.sequence IS NULL) <> (r.places IS NULL)
