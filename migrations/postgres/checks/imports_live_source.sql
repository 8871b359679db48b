SELECT 'file ' || quote_literal(text_of(f.path)) || ' of source ' || f.source || ' holds live runs, and its row says ' || f.entity_row
FROM import_files f JOIN import_sources s ON s.id = f.source
WHERE s.kind = 'live' AND f.state = 'taken' AND f.entity_row <> f.source
