SELECT 'agent ' || agent_id || ' of scope ' || scope || ' has ' || real || ' ended runs and ' || coalesce(ended::text, 'no count') || ' counted'
FROM (
    SELECT scope, agent_id, count(*) FILTER (WHERE started_at IS NOT NULL AND status IN ('completed', 'incomplete')) AS real
    FROM runs GROUP BY scope, agent_id
    UNION ALL
    SELECT scope, agent_id, 0 FROM run_agents AS a
    WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.scope = a.scope AND r.agent_id = a.agent_id)
) AS x
LEFT JOIN run_agents USING (scope, agent_id)
WHERE ended IS NULL OR ended <> real
