SELECT 'agent ' || agent_id || ' of scope ' || scope || ' has ' || real || ' ended runs and ' || coalesce(ended, 'no count') || ' counted'
FROM (
    SELECT scope, agent_id, sum(started_at IS NOT NULL AND status IN ('completed', 'incomplete')) AS real
    FROM runs GROUP BY scope, agent_id
    UNION ALL
    SELECT scope, agent_id, 0 FROM run_agents
    WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.scope = run_agents.scope AND runs.agent_id = run_agents.agent_id)
)
LEFT JOIN run_agents USING (scope, agent_id)
WHERE ended IS NULL OR ended <> real
