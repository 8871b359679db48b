-- Who waits for a person: workflows that paused, and live runs whose tool call was not confirmed yet.
CREATE VIEW v_waiting AS
SELECT
    w.scope AS scope,
    w.kind COLLATE "C" AS kind,
    w.run_id AS run_id,
    w.agent_id AS agent_id,
    w.session_id AS session_id,
    shown(w.question) AS question,
    shown(w.stage_id) AS paused_stage_id,
    w.tool_name COLLATE "C" AS tool_name,
    w.tool_call_id COLLATE "C" AS tool_call_id,
    utc(w.since) COLLATE "C" AS waiting_since,
    w.since AS waiting_since_ns,
    round(extract(epoch FROM now())::float8 - w.since / 1e9::float8) AS waiting_seconds,
    w.live_run AS live_run,
    w.checkpoint AS checkpoint
FROM (
    SELECT s.name AS scope, 'checkpoint' COLLATE "C" AS kind, c.run_id AS run_id, c.agent_id AS agent_id, NULL AS session_id, c.prompt AS question, c.paused_stage_id AS stage_id,
        NULL COLLATE "C" AS tool_name, NULL COLLATE "C" AS tool_call_id, c.created_at AS since, NULL::bigint AS live_run, c.id AS checkpoint
    FROM checkpoints AS c
    JOIN scopes AS s ON s.id = c.scope
    WHERE c.state = 'paused' AND c.problem IS NULL
      AND NOT EXISTS (SELECT 1 FROM import_conflicts AS x WHERE x.scope = c.scope AND x.kind = 'checkpoints' AND x.entity_id = c.run_id AND x.decided_at IS NULL)
    UNION ALL
    SELECT s.name, 'confirmation', r.run_id, NULL, r.session_id, json_extract(doc(e.event), CASE json_extract(doc(e.event), '$.tool_name') WHEN 'question' THEN '$.args.prompt' ELSE '$.args' END), NULL,
        json_extract(doc(e.event), '$.tool_name'), json_extract(doc(e.event), '$.tool_id'), e.recorded_at, r.key, NULL
    FROM live_runs AS r
    JOIN scopes AS s ON s.id = r.scope
    CROSS JOIN live_events AS e
    WHERE r.status NOT IN ('completed', 'failed', 'cancelled') AND e.id >= r.key << 32 AND e.id < (r.key + 1) << 32
      AND e.type = 'confirmation_required'
      AND NOT EXISTS (
        SELECT 1 FROM live_events AS x
        WHERE x.id > e.id AND x.id < (r.key + 1) << 32 AND x.type IN ('confirmation_required', 'confirmation_received', 'confirmation_timeout')
          AND json_extract(doc(x.event), '$.tool_id') IS NOT DISTINCT FROM json_extract(doc(e.event), '$.tool_id'))
) AS w;

-- What people were asked and what became of it: the checkpoints that wait, are claimed or are over, until retention takes them, and
-- the confirmations of live runs.
CREATE VIEW v_approvals AS
SELECT
    p.scope AS scope,
    p.kind COLLATE "C" AS kind,
    p.run_id AS run_id,
    p.agent_id AS agent_id,
    p.session_id AS session_id,
    p.state AS state,
    shown(p.question) AS question,
    p.tool_name COLLATE "C" AS tool_name,
    shown(p.paused_stage_id) AS paused_stage_id,
    shown(p.decision) AS decision,
    shown(p.decided_by) AS decided_by,
    p.reason COLLATE "C" AS reason,
    utc(p.asked) COLLATE "C" AS asked_at,
    p.asked AS asked_at_ns,
    utc(p.answered) COLLATE "C" AS answered_at,
    p.answered AS answered_at_ns,
    utc(p.done) COLLATE "C" AS completed_at,
    p.done AS completed_at_ns,
    (p.answered / 1000 - p.asked / 1000 + CASE WHEN p.answered < p.asked THEN -500 ELSE 500 END) / 1000 / 1e3::float8 AS waited_seconds,
    p.owner_pid AS owner_pid,
    p.owner_program AS owner_program
FROM (
    SELECT s.name AS scope, 'checkpoint' COLLATE "C" AS kind, c.run_id AS run_id, c.agent_id AS agent_id, NULL AS session_id, c.state AS state, c.prompt AS question, NULL COLLATE "C" AS tool_name,
        c.paused_stage_id AS paused_stage_id, NULL AS decision, NULL AS decided_by, NULL COLLATE "C" AS reason, c.created_at AS asked, c.claimed_at AS answered,
        NULL::bigint AS done, o.pid AS owner_pid, o.program AS owner_program
    FROM checkpoints AS c
    JOIN scopes AS s ON s.id = c.scope
    LEFT JOIN owners AS o ON o.id = c.owner_id
    UNION ALL
    SELECT s.name, 'checkpoint', h.run_id, h.agent_id, NULL, h.ending, h.prompt, NULL, h.paused_stage_id, h.decision, h.decided_by, NULL, h.created_at, h.claimed_at,
        h.completed_at, h.owner_pid, h.owner_program
    FROM checkpoint_history AS h
    JOIN scopes AS s ON s.id = h.scope
    UNION ALL
    SELECT s.name, 'confirmation', r.run_id, NULL, r.session_id,
        CASE WHEN f.type = 'confirmation_received' THEN 'answered' WHEN f.type IS NOT NULL THEN 'timeout'
             WHEN n.id IS NOT NULL THEN 'superseded' WHEN r.status IN ('completed', 'failed', 'cancelled') THEN 'ended' ELSE 'waiting' END,
        json_extract(doc(e.event), CASE json_extract(doc(e.event), '$.tool_name') WHEN 'question' THEN '$.args.prompt' ELSE '$.args' END), json_extract(doc(e.event), '$.tool_name'), NULL,
        CASE WHEN f.type = 'confirmation_timeout' THEN json_extract(doc(f.event), '$.action_taken')
             WHEN json_extract(doc(f.event), '$.approved') = '1' THEN 'approved' WHEN f.type IS NOT NULL THEN 'rejected' END,
        NULL, json_extract(doc(f.event), '$.reason'), e.recorded_at, f.recorded_at, NULL, NULL, NULL
    FROM live_events AS e
    JOIN live_runs AS r ON r.key = e.id >> 32
    JOIN scopes AS s ON s.id = r.scope

    LEFT JOIN live_events AS n ON n.id = (
        SELECT x.id FROM live_events AS x
        WHERE x.id > e.id AND x.id < ((e.id >> 32) + 1) << 32 AND x.type IN ('confirmation_required', 'confirmation_received', 'confirmation_timeout')
          AND json_extract(doc(x.event), '$.tool_id') IS NOT DISTINCT FROM json_extract(doc(e.event), '$.tool_id')
        ORDER BY x.id LIMIT 1)
    LEFT JOIN live_events AS f ON f.id = n.id AND f.type <> 'confirmation_required'
    WHERE e.type = 'confirmation_required'
) AS p;
