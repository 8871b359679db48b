-- The runs that lists show, open and ended.
CREATE VIEW v_runs AS
SELECT
    s.name                               AS scope,      -- '' is the default scope
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id, -- as the last started record names it
    coalesce(r.shown_run_id, r.run_id)     AS run_id,   -- as the last started record names it
    r.intent                             AS intent,     -- what the run was meant to achieve
    r.status                             AS status,     -- in_progress, completed, incomplete, cancelled or cancellation_pending
    r.outcome                            AS outcome,    -- success, partial_success, give_up, timeout, failure or done; NULL: none was reported
    CASE WHEN r.started_at IS NULL THEN NULL ELSE coalesce(r.started_at_text,
        strftime('%Y-%m-%dT%H:%M:%S', (r.started_at - (r.started_at % 1000000000 + 1000000000) % 1000000000) / 1000000000, 'unixepoch')
        || CASE WHEN (r.started_at % 1000000000 + 1000000000) % 1000000000 = 0 THEN ''
                WHEN (r.started_at % 1000000000 + 1000000000) % 1000000000 % 1000000 = 0 THEN printf('.%03d', (r.started_at % 1000000000 + 1000000000) % 1000000000 / 1000000)
                WHEN (r.started_at % 1000000000 + 1000000000) % 1000000000 % 1000 = 0 THEN printf('.%06d', (r.started_at % 1000000000 + 1000000000) % 1000000000 / 1000)
                ELSE printf('.%09d', (r.started_at % 1000000000 + 1000000000) % 1000000000) END || 'Z') END AS started_at, -- UTC, RFC 3339
    CASE WHEN r.ended_at IS NULL THEN NULL ELSE coalesce(r.ended_at_text,
        strftime('%Y-%m-%dT%H:%M:%S', (r.ended_at - (r.ended_at % 1000000000 + 1000000000) % 1000000000) / 1000000000, 'unixepoch')
        || CASE WHEN (r.ended_at % 1000000000 + 1000000000) % 1000000000 = 0 THEN ''
                WHEN (r.ended_at % 1000000000 + 1000000000) % 1000000000 % 1000000 = 0 THEN printf('.%03d', (r.ended_at % 1000000000 + 1000000000) % 1000000000 / 1000000)
                WHEN (r.ended_at % 1000000000 + 1000000000) % 1000000000 % 1000 = 0 THEN printf('.%06d', (r.ended_at % 1000000000 + 1000000000) % 1000000000 / 1000)
                ELSE printf('.%09d', (r.ended_at % 1000000000 + 1000000000) % 1000000000) END || 'Z') END AS ended_at,   -- UTC, RFC 3339; NULL: open
    round((r.ended_at - r.started_at) / 1e9, 3) AS seconds, -- from start to end; NULL: open
    coalesce(r.turn_count,
        coalesce((SELECT max(t.id) & 16777215 FROM run_records AS t
                  WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24), 0) - r.others) AS turns, -- turns in the trace
    o.pid                                AS owner_pid,  -- process that wrote to the open run last; NULL: ended, or imported
    r.key                                AS run         -- the run's number, for joins with v_turns
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
LEFT JOIN owners AS o ON o.id = r.owner_id
WHERE r.started_at IS NOT NULL;

-- The turns of all traces.
CREATE VIEW v_turns AS
SELECT
    s.name                               AS scope,        -- '' is the default scope
    coalesce(r.shown_agent_id, r.agent_id) AS agent_id,   -- as in v_runs
    coalesce(r.shown_run_id, r.run_id)     AS run_id,     -- as in v_runs
    t.id & 16777215                      AS sequence,     -- place of the line in the trace, from 1
    t.turn_index                         AS turn_index,   -- as the recorder stamped it: old traces repeat and skip values
    t.prompt                             AS prompt,       -- NULL: not recorded
    t.tool                               AS tool,         -- NULL: not recorded
    CAST(t.parameters AS TEXT)           AS parameters,   -- JSON; NULL: none
    CAST(t.output AS TEXT)               AS output,       -- JSON; NULL: none
    t.cli_kind                           AS cli_kind,     -- exited, killed or timeout; NULL: no command line
    t.cli_code                           AS cli_code,     -- exit code; NULL: it did not exit by itself
    t.verdict                            AS verdict,      -- pass, fail or not_run
    t.policy_rule                        AS policy_rule,  -- the policy that rejected the turn; NULL: none did
    t.policy_param                       AS policy_param, -- the parameter it objected to
    r.key                                AS run           -- the run's number, for joins with v_runs
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
CROSS JOIN run_records AS t -- in this order, and without an index on kind: the ids of a run's records are one range
WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24 AND +t.kind = 'turn';

-- What each agent did: its runs counted by how they ended.
CREATE VIEW v_agents_runs AS
SELECT
    s.name     AS scope,    -- '' is the default scope
    r.agent_id AS agent_id, -- as the calls that wrote the runs named it
    count(*)   AS runs,     -- with a started record
    sum(r.status IN ('in_progress', 'cancellation_pending')) AS open, -- not ended
    sum(r.status = 'completed')            AS completed, -- with an outcome, whichever
    coalesce(sum(r.outcome = 'failure'), 0) AS failures, -- completed with the outcome failure
    sum(r.status = 'incomplete')           AS incomplete, -- ended without an outcome, as crashed runs do
    sum(r.status = 'cancelled')            AS cancelled, -- by a later version of the original
    CASE WHEN max(r.started_at) IS NULL THEN NULL ELSE coalesce(NULL,
        strftime('%Y-%m-%dT%H:%M:%S', (max(r.started_at) - (max(r.started_at) % 1000000000 + 1000000000) % 1000000000) / 1000000000, 'unixepoch')
        || CASE WHEN (max(r.started_at) % 1000000000 + 1000000000) % 1000000000 = 0 THEN ''
                WHEN (max(r.started_at) % 1000000000 + 1000000000) % 1000000000 % 1000000 = 0 THEN printf('.%03d', (max(r.started_at) % 1000000000 + 1000000000) % 1000000000 / 1000000)
                WHEN (max(r.started_at) % 1000000000 + 1000000000) % 1000000000 % 1000 = 0 THEN printf('.%06d', (max(r.started_at) % 1000000000 + 1000000000) % 1000000000 / 1000)
                ELSE printf('.%09d', (max(r.started_at) % 1000000000 + 1000000000) % 1000000000) END || 'Z') END AS last_started_at -- UTC, RFC 3339
FROM runs AS r
JOIN scopes AS s ON s.id = r.scope
WHERE r.started_at IS NOT NULL
GROUP BY s.name, r.agent_id;
