SELECT 'thing ' || quote_literal(f.entity_id) || ' of ' || quote_literal(f.entity_group) || ' is held by ' || count(*) || ' files of one scope'
FROM import_files f JOIN import_sources s ON s.id = f.source
WHERE f.state = 'taken'
GROUP BY s.scope, s.kind, f.entity_group, f.entity_id, f.entity_row HAVING count(*) > 1
