-- Who waits for a person: workflows that paused, and live runs whose tool call was not confirmed yet.
CREATE VIEW v_waiting AS
SELECT
    w.scope         AS scope,         -- '' is the default scope
    w.kind          AS kind,          -- checkpoint: a paused workflow; confirmation: a tool call of a live run
    w.run_id        AS run_id,        -- the run
    w.agent_id      AS agent_id,      -- agent that a paused run belongs to; NULL: none was named, or a confirmation
    w.session_id    AS session_id,    -- of the live run; NULL: a checkpoint
    shown(w.question)      AS question,      -- what the person is asked: the stage's prompt, the words of a question of package selvedge, or the call's arguments as JSON
    shown(w.stage_id)      AS paused_stage_id, -- approval stage; NULL: a confirmation
    w.tool_name     AS tool_name,     -- tool that would be called; NULL: a checkpoint
    w.tool_call_id  AS tool_call_id,  -- the call; NULL: a checkpoint
    utc(w.since)    AS waiting_since, -- UTC
    w.since         AS waiting_since_ns, -- Unix nanoseconds
    round((julianday('now') - 2440587.5) * 86400 - w.since / 1e9) AS waiting_seconds, -- since then, until now
    w.live_run      AS live_run,      -- number of the live run, which is the column run of v_live_runs; NULL: a checkpoint
    w.checkpoint    AS checkpoint     -- number of the checkpoint, as in v_checkpoints; NULL: a confirmation
FROM (
    SELECT s.name AS scope, 'checkpoint' AS kind, c.run_id AS run_id, c.agent_id AS agent_id, NULL AS session_id, c.prompt AS question, c.paused_stage_id AS stage_id,
        NULL AS tool_name, NULL AS tool_call_id, c.created_at AS since, NULL AS live_run, c.id AS checkpoint
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
          AND json_quote(json_extract(doc(x.event), '$.tool_id')) = json_quote(json_extract(doc(e.event), '$.tool_id')))
) AS w;

-- What people were asked and what became of it: the checkpoints that wait, are claimed or are over, until retention takes them, and
-- the confirmations of live runs.
CREATE VIEW v_approvals AS
SELECT
    p.scope           AS scope,           -- '' is the default scope
    p.kind            AS kind,            -- checkpoint or confirmation, as in v_waiting
    p.run_id          AS run_id,          -- the run
    p.agent_id        AS agent_id,        -- agent that a paused run belongs to; NULL: none was named, or a confirmation
    p.session_id      AS session_id,      -- of the live run; NULL: a checkpoint
    p.state           AS state,           -- paused or waiting: for a person; claimed: being resumed; completed or answered: over; superseded: over unsaid, for the run paused or asked again; timeout: nobody answered; ended: the live run ended before
    shown(p.question)        AS question,        -- what the person is asked, as in v_waiting
    p.tool_name       AS tool_name,       -- tool that would be called; NULL: a checkpoint
    shown(p.paused_stage_id) AS paused_stage_id, -- approval stage; NULL: a confirmation
    shown(p.decision)        AS decision,        -- approved, rejected or auto_approved for a confirmation; for a checkpoint the words of who completed it; NULL: not said, or not yet
    shown(p.decided_by)      AS decided_by,      -- who decided, in the same words; NULL: not said
    p.reason          AS reason,          -- why, for a confirmation; NULL: not said
    utc(p.asked)      AS asked_at,        -- UTC; NULL: the document can't be read
    p.asked           AS asked_at_ns,     -- Unix nanoseconds; NULL: as above
    utc(p.answered)   AS answered_at,     -- UTC, of the claim or the confirmation; NULL: not yet
    p.answered        AS answered_at_ns,  -- Unix nanoseconds; NULL: not yet
    utc(p.done)       AS completed_at,    -- UTC, at which the resumed work was done; NULL: not yet, or a confirmation
    p.done            AS completed_at_ns, -- Unix nanoseconds; NULL: as above
    (p.answered / 1000 - p.asked / 1000 + CASE WHEN p.answered < p.asked THEN -500 ELSE 500 END) / 1000 / 1e3 AS waited_seconds, -- from the question to the answer; NULL: not yet
    p.owner_pid       AS owner_pid,       -- process that claimed; NULL: nobody did, imported, or a confirmation
    p.owner_program   AS owner_program    -- its name; NULL: as above
FROM (
    SELECT s.name AS scope, 'checkpoint' AS kind, c.run_id AS run_id, c.agent_id AS agent_id, NULL AS session_id, c.state AS state, c.prompt AS question, NULL AS tool_name,
        c.paused_stage_id AS paused_stage_id, NULL AS decision, NULL AS decided_by, NULL AS reason, c.created_at AS asked, c.claimed_at AS answered,
        NULL AS done, o.pid AS owner_pid, o.program AS owner_program
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
             WHEN json_extract(doc(f.event), '$.approved') THEN 'approved' WHEN f.type IS NOT NULL THEN 'rejected' END,
        NULL, json_extract(doc(f.event), '$.reason'), e.recorded_at, f.recorded_at, NULL, NULL, NULL
    FROM live_events AS e
    JOIN live_runs AS r ON r.key = e.id >> 32
    JOIN scopes AS s ON s.id = r.scope
    -- What comes next of the call: the answer, or the same question again.
    LEFT JOIN live_events AS n ON n.id = (
        SELECT x.id FROM live_events AS x
        WHERE x.id > e.id AND x.id < ((e.id >> 32) + 1) << 32 AND x.type IN ('confirmation_required', 'confirmation_received', 'confirmation_timeout')
          AND json_quote(json_extract(doc(x.event), '$.tool_id')) = json_quote(json_extract(doc(e.event), '$.tool_id'))
        ORDER BY x.id LIMIT 1)
    LEFT JOIN live_events AS f ON f.id = n.id AND f.type <> 'confirmation_required'
    WHERE e.type = 'confirmation_required'
) AS p;
