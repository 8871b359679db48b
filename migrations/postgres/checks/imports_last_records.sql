SELECT 'file ' || quote_literal(text_of(f.path)) || ' of source ' || f.source || ' was taken up to line ' || f.last_sequence || ' of run ' || r.run_id || ', which is lost'
FROM import_files AS f
JOIN import_sources AS s ON s.id = f.source
JOIN runs AS r ON r.key = f.entity_row
WHERE s.kind = 'runs' AND f.state = 'taken' AND f.last_sequence > 0
  AND NOT EXISTS (SELECT 1 FROM run_records WHERE id >= (r.key << 24) + f.last_sequence AND id < (r.key + 1) << 24)
UNION ALL
SELECT 'folder ' || quote_literal(text_of(path)) || ' of source ' || source || ' had ' || said || ' events of runtime ' || entity_row || ', which has ' || here
FROM (
    SELECT f.path, f.source, f.entity_row, substring(', ' || f.records FROM ', event ([0-9]+)')::bigint AS said,
        (SELECT count(*) FROM worker_events WHERE id >= r.key << 40 AND id < (r.key + 1) << 40) AS here
    FROM import_files AS f
    JOIN import_sources AS s ON s.id = f.source
    JOIN worker_runtimes AS r ON r.key = f.entity_row
    WHERE s.kind = 'workers' AND f.state = 'taken' AND r.first_event_position = 1
) AS f
WHERE here < said
