SELECT 'runtime ' || key || ' says that its last event is at place ' || (next_event_position - 1) || ', which is lost'
FROM worker_runtimes AS r
WHERE created_at IS NOT NULL AND next_event_position > first_event_position -- an imported log may end before its next place
  AND NOT EXISTS (SELECT 1 FROM worker_events WHERE id = (r.key << 40) + r.next_event_position - 1)
