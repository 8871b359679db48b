SELECT 'quarantine row ' || q.id || ' says ' || q.bytes || ' bytes and keeps ' || coalesce(sum(length(p.raw)), 0)
FROM quarantine q LEFT JOIN quarantine_parts p ON p.quarantine = q.id
GROUP BY q.id HAVING q.bytes <> coalesce(sum(length(p.raw)), 0)
