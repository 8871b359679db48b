SELECT 'runtime ' || r.key || ' has events at places ' || e.first || ' to ' || e.last || ', and says ' || r.first_event_position
    || ' to before ' || r.next_event_position || CASE WHEN r.events_in_order = 1 THEN ', in order' ELSE '' END
    || CASE WHEN e.odd > 0 THEN ', and ' || e.odd || ' have other ids' ELSE '' END
FROM worker_runtimes AS r
JOIN (
    SELECT id >> 40 AS runtime, min(id) & 1099511627775 AS first, max(id) & 1099511627775 AS last, count(event_id) AS odd
    FROM worker_events GROUP BY id >> 40
) AS e ON e.runtime = r.key
WHERE e.first < r.first_event_position OR e.last >= r.next_event_position
   OR r.events_in_order = 1 AND (e.odd > 0 OR r.next_event_id <> r.next_event_position)
