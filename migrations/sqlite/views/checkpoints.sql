-- Paused runs: what waits for a person, and what was claimed and not completed.
CREATE VIEW v_checkpoints AS
SELECT
    s.name            AS scope,           -- '' is the default scope
    c.run_id          AS run_id,          -- the run
    c.agent_id        AS agent_id,        -- agent that the run belongs to; NULL: none was named
    c.state           AS state,           -- paused: waits and can be claimed; claimed: a process resumes it. A run that paused again has both
    shown(c.paused_stage_id) AS paused_stage_id, -- approval stage the run waits at; NULL: the document can't be read
    shown(c.prompt)          AS prompt,          -- what the person is asked; NULL: the document can't be read
    utc(c.created_at) AS paused_at,       -- UTC, by the document; NULL: it can't be read
    c.created_at      AS paused_at_ns,    -- Unix nanoseconds; NULL: the document can't be read
    round((julianday('now') - 2440587.5) * 86400 - c.created_at / 1e9) AS paused_seconds, -- since then, until now; NULL: the document can't be read
    utc(c.claimed_at) AS claimed_at,      -- UTC; NULL: waits
    c.claimed_at      AS claimed_at_ns,   -- Unix nanoseconds; NULL: waits
    round((julianday('now') - 2440587.5) * 86400 - c.claimed_at / 1e9) AS claimed_seconds, -- since then, until now; NULL: waits
    c.epoch           AS epoch,           -- of the claim, or of the last one; NULL: never claimed in this file
    o.pid             AS owner_pid,       -- process that claimed; NULL: waits, or the claim was imported
    o.program         AS owner_program,   -- its name; NULL: as above
    c.lease_ttl / 1e9 AS lease_seconds,   -- how long the claim lasts without a renewal; NULL: as long as its process, or waits
    utc(c.saved_at)   AS saved_at,        -- UTC, of the save or import
    c.saved_at        AS saved_at_ns,     -- Unix nanoseconds
    c.size            AS bytes,           -- of the document
    shown(c.problem)         AS problem,         -- why the document can't be read; NULL: it can
    (SELECT max(x.reason) FROM import_conflicts AS x WHERE x.scope = c.scope AND x.kind = 'checkpoints' AND x.entity_id = c.run_id AND x.decided_at IS NULL)
                      AS contested,       -- what the old program did to the run since it was imported: can't be claimed until migrate imports resolve; NULL: nothing
    (SELECT max(w.key) FROM runs AS w WHERE w.scope = c.scope AND w.run_id = c.run_id AND w.agent_id = coalesce(c.agent_id, w.agent_id)) AS run, -- number of the trace with its id, for joins with v_runs; NULL: there is none
    c.id              AS checkpoint       -- the row's number, for joins with v_checkpoint_documents
FROM checkpoints AS c
JOIN scopes AS s ON s.id = c.scope
LEFT JOIN owners AS o ON o.id = c.owner_id;

-- The documents of paused runs, as text.
CREATE VIEW v_checkpoint_documents AS
SELECT
    s.name                   AS scope,     -- '' is the default scope
    c.run_id                 AS run_id,    -- the run
    c.agent_id               AS agent_id,  -- as in v_checkpoints
    c.state                  AS state,     -- as in v_checkpoints
    shown(CAST(d.document AS TEXT)) AS document,  -- JSON; where v_checkpoints names a problem it may be anything
    c.id                     AS checkpoint -- the row's number, for joins with v_checkpoints
FROM checkpoints AS c
JOIN scopes AS s ON s.id = c.scope
JOIN checkpoint_documents AS d ON d.checkpoint = c.id;
