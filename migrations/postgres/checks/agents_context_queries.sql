SELECT 'agent ' || agent_id || ' has ' || count(*) || ' context queries, the last at position ' || max(position)
FROM agent_context_queries GROUP BY agent_id HAVING max(position) <> count(*) - 1
