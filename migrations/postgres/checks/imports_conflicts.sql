SELECT 'refused file ' || quote_literal(text_of(f.path)) || ' of source ' || f.source || ' is not in quarantine with its ' || f.consumed || ' bytes'
FROM import_files f
WHERE f.state = 'refused' AND NOT EXISTS (
    SELECT 1 FROM quarantine q
    WHERE q.source = f.source AND q.path = f.path AND q.what = 'conflict' AND q.byte_offset = 0 AND q.bytes = f.consumed + coalesce(length(f.tail), 0))
