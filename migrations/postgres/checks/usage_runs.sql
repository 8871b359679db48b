SELECT 'the usage of run ' || run_id || ' (number ' || id || ') has no record' FROM usage_runs
WHERE NOT EXISTS (SELECT 1 FROM usage_records WHERE usage_run = usage_runs.id)
UNION ALL
SELECT 'the usage of run ' || w.run_id || ' of agent ' || w.agent_id || ' is of trace ' || r.key || ', which has another name'
FROM usage_runs AS w JOIN runs AS r ON r.key = w.id / 2
WHERE w.agent_id IS NOT NULL AND (w.scope, w.run_id, w.agent_id) <> (r.scope, r.run_id, r.agent_id)
UNION ALL
SELECT 'the usage of run ' || w.run_id || ' of session ' || w.session_id || ' is of live run ' || r.key || ', which has another name'
FROM usage_runs AS w JOIN live_runs AS r ON r.key = w.id / 2
WHERE w.session_id IS NOT NULL AND (w.scope, w.run_id, w.session_id) <> (r.scope, r.run_id, r.session_id)
