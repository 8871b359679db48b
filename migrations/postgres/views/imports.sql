-- What was imported, and from where.
CREATE VIEW v_imports AS
SELECT
    sc.name AS scope,
    s.kind AS kind,
    text_of(s.root) COLLATE "C" AS source,
    text_of(f.path) COLLATE "C" AS file,
    f.state AS state,
    f.entity_group AS entity_group,
    f.entity_id AS entity_id,
    f.records AS records,
    f.size AS bytes,
    f.consumed AS bytes_taken,
    utc(f.imported_at) COLLATE "C" AS imported_at,
    f.imported_at AS imported_at_ns
FROM import_files f
JOIN import_sources s ON s.id = f.source
JOIN scopes sc ON sc.id = s.scope;

-- What could not be taken as it is, and why.
CREATE VIEW v_quarantine AS
SELECT
    q.id AS id,
    sc.name AS scope,
    s.kind AS kind,
    text_of(s.root) COLLATE "C" AS source,
    text_of(q.path) COLLATE "C" AS file,
    q.byte_offset AS byte_offset,
    q.what AS what,
    shown(q.reason) AS reason,
    q.entity_group AS entity_group,
    q.entity_id AS entity_id,
    q.bytes AS bytes,
    utc(q.found_at) COLLATE "C" AS found_at,
    q.found_at AS found_at_ns
FROM quarantine q
JOIN import_sources s ON s.id = q.source
JOIN scopes sc ON sc.id = q.scope;

-- What the old program and this one both went on with since it was imported, and what was decided.
CREATE VIEW v_import_conflicts AS
SELECT
    c.id AS id,
    sc.name AS scope,
    c.kind AS kind,
    c.entity_id AS entity_id,
    text_of(s.root) COLLATE "C" AS source,
    text_of(c.path) COLLATE "C" AS file,
    c.import AS import,
    shown(c.reason) AS reason,
    utc(c.found_at) COLLATE "C" AS found_at,
    c.found_at AS found_at_ns,
    c.taken AS taken,
    utc(c.decided_at) COLLATE "C" AS decided_at,
    c.decided_at AS decided_at_ns,
    c.pid AS pid,
    c."user" AS "user"
FROM import_conflicts c
JOIN import_sources s ON s.id = c.source
JOIN scopes sc ON sc.id = c.scope;
