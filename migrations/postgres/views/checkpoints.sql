-- Paused runs: what waits for a person, and what was claimed and not completed.
CREATE VIEW v_checkpoints AS
SELECT
    s.name AS scope,
    c.run_id AS run_id,
    c.agent_id AS agent_id,
    c.state AS state,
    shown(c.paused_stage_id) AS paused_stage_id,
    shown(c.prompt) AS prompt,
    utc(c.created_at) COLLATE "C" AS paused_at,
    c.created_at AS paused_at_ns,
    round(extract(epoch FROM now())::float8 - c.created_at / 1e9::float8) AS paused_seconds,
    utc(c.claimed_at) COLLATE "C" AS claimed_at,
    c.claimed_at AS claimed_at_ns,
    round(extract(epoch FROM now())::float8 - c.claimed_at / 1e9::float8) AS claimed_seconds,
    c.epoch AS epoch,
    o.pid AS owner_pid,
    o.program AS owner_program,
    c.lease_ttl / 1e9::float8 AS lease_seconds,
    utc(c.saved_at) COLLATE "C" AS saved_at,
    c.saved_at AS saved_at_ns,
    c.size AS bytes,
    shown(c.problem) AS problem,
    (SELECT shown(max(x.reason)) FROM import_conflicts AS x WHERE x.scope = c.scope AND x.kind = 'checkpoints' AND x.entity_id = c.run_id AND x.decided_at IS NULL)
 AS contested,
    (SELECT max(w.key) FROM runs AS w WHERE w.scope = c.scope AND w.run_id = c.run_id AND w.agent_id = coalesce(c.agent_id, w.agent_id)) AS run,
    c.id AS checkpoint
FROM checkpoints AS c
JOIN scopes AS s ON s.id = c.scope
LEFT JOIN owners AS o ON o.id = c.owner_id;

-- The documents of paused runs, as text.
CREATE VIEW v_checkpoint_documents AS
SELECT
    s.name AS scope,
    c.run_id AS run_id,
    c.agent_id AS agent_id,
    c.state AS state,
    text_of(d.document) COLLATE "C" AS document,
    c.id AS checkpoint
FROM checkpoints AS c
JOIN scopes AS s ON s.id = c.scope
JOIN checkpoint_documents AS d ON d.checkpoint = c.id;
