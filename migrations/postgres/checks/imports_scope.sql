SELECT 'quarantine row ' || q.id || ' is of scope ' || q.scope || ', its source of ' || s.scope
FROM quarantine q JOIN import_sources s ON s.id = q.source WHERE q.scope <> s.scope
