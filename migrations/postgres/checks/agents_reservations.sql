SELECT 'thread ' || quote_literal(r.thread) || ' is reserved for agent ' || a.session_id || ', which is ' || a.status || ' on thread ' || quote_literal(a.thread)
FROM agent_reservations r JOIN agents a ON a.id = r.agent_id
WHERE a.status <> 'active' OR a.thread <> r.thread OR a.scope <> r.scope
