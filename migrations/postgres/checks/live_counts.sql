SELECT 'live run ' || key || ' says ' || kept_events || ' events and keeps ' || real
    || CASE WHEN last >= next THEN ', the last in place ' || last || ' of ' || next ELSE '' END
FROM (
    SELECT key, kept_events, coalesce(places, event_count) AS next,
        (SELECT count(*) FROM live_events WHERE id >= key << 32 AND id < (key + 1) << 32) AS real,
        (SELECT max(id) & 4294967295 FROM live_events WHERE id >= key << 32 AND id < (key + 1) << 32) AS last
    FROM live_runs
) AS x
WHERE real <> kept_events OR last >= next
