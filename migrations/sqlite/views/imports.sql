-- What was imported, and from where.
CREATE VIEW v_imports AS
SELECT
    sc.name                      AS scope,          -- the scope it was brought into
    s.kind                       AS kind,           -- runs, agents, checkpoints, workers or live
    CAST(s.root AS TEXT)         AS source,         -- the folder
    CAST(f.path AS TEXT)         AS file,           -- file below it
    f.state                      AS state,          -- taken, shared (the same was here from elsewhere) or refused (in quarantine)
    f.entity_group               AS entity_group,   -- runs: the agent id
    f.entity_id                  AS entity_id,      -- runs: the run id
    f.records                    AS records,        -- by kind, such as "started 1, turn 22, ended 1"
    f.size                       AS bytes,          -- of the file when it was read last
    f.consumed                   AS bytes_taken,    -- less than bytes while its last line is torn
    utc(f.imported_at) AS imported_at, -- UTC
    f.imported_at AS imported_at_ns -- Unix nanoseconds
FROM import_files f
JOIN import_sources s ON s.id = f.source
JOIN scopes sc ON sc.id = s.scope;

-- What could not be taken as it is, and why.
CREATE VIEW v_quarantine AS
SELECT
    q.id                         AS id,             -- for: migrate quarantine show ID
    sc.name                      AS scope,          -- the scope of the import
    s.kind                       AS kind,           -- runs, agents, checkpoints, workers or live
    CAST(s.root AS TEXT)         AS source,         -- the folder
    CAST(q.path AS TEXT)         AS file,           -- file below it
    q.byte_offset                AS byte_offset,    -- where in the file
    q.what                       AS what,           -- line, tail, file, conflict or name
    shown(q.reason)                     AS reason,         -- what is wrong
    q.entity_group               AS entity_group,   -- whose it is or would be; runs: the agent id; NULL: not known
    q.entity_id                  AS entity_id,      -- runs: the run id; NULL: not known
    q.bytes                      AS bytes,          -- kept in the table quarantine_parts
    utc(q.found_at) AS found_at, -- UTC
    q.found_at AS found_at_ns -- Unix nanoseconds
FROM quarantine q
JOIN import_sources s ON s.id = q.source
JOIN scopes sc ON sc.id = q.scope;

-- What the old program and this one both went on with since it was imported, and what was decided.
CREATE VIEW v_import_conflicts AS
SELECT
    c.id                         AS id,             -- number of the conflict
    sc.name                      AS scope,          -- the scope of the import
    c.kind                       AS kind,           -- agents or checkpoints
    c.entity_id                  AS entity_id,      -- the agent, or the run that paused; for: migrate imports resolve
    CAST(s.root AS TEXT)         AS source,         -- the folder
    CAST(c.path AS TEXT)         AS file,           -- file below it
    c.import                     AS import,         -- number of the import that found it first, for: migrate imports show
    shown(c.reason)                     AS reason,         -- what the old program did
    utc(c.found_at)              AS found_at,       -- UTC
    c.found_at                   AS found_at_ns,    -- Unix nanoseconds
    c.taken                      AS taken,          -- whose version: old or ours; NULL: not decided, as in the four below
    utc(c.decided_at)            AS decided_at,     -- UTC
    c.decided_at                 AS decided_at_ns,  -- Unix nanoseconds
    c.pid                        AS pid,            -- process that decided
    c.user                       AS user            -- whose process it was
FROM import_conflicts c
JOIN import_sources s ON s.id = c.source
JOIN scopes sc ON sc.id = c.scope;
