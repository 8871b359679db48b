SELECT 'scope ' || s.id || ' counts ' || coalesce(c.runs, 0) || ' live runs and has ' || s.runs
    || CASE WHEN s.oldest < c.oldest THEN ', one of them older than it says' ELSE '' END
FROM (
    SELECT id, (SELECT count(*) FROM live_runs WHERE scope = id) AS runs, (SELECT min(key) FROM live_runs WHERE scope = id) AS oldest
    FROM scopes
) AS s
LEFT JOIN live_scopes AS c ON c.scope = s.id
WHERE s.runs <> coalesce(c.runs, 0) OR s.oldest < c.oldest
