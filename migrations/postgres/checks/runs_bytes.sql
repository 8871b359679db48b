SELECT 'record ' || (r.id & 16777215) || ' of run ' || (r.id >> 24) || ' says that the trace has ' || r.bytes || ' bytes so far; it has '
    || (coalesce(p.bytes, 0) + r.size)
FROM (
    SELECT id, bytes, checksum, coalesce(length(parameters), 0) + coalesce(length(output), 0) + coalesce(length(raw), 0)
        + coalesce(raw_length(unknown_kind), 0) + coalesce(raw_length(prompt), 0) + coalesce(raw_length(tool), 0)
        + coalesce(raw_length(policy_rule), 0) + coalesce(raw_length(policy_param), 0) AS size
    FROM run_records
) AS r
LEFT JOIN run_records AS p ON p.id = r.id - 1 AND r.id & 16777215 > 1
WHERE r.checksum IS NOT NULL AND r.bytes IS NOT NULL AND r.bytes IS DISTINCT FROM coalesce(p.bytes, CASE WHEN p.id IS NULL THEN 0 END) + r.size
    AND NOT EXISTS (SELECT 1 FROM run_leavings AS l WHERE l.run = r.id >> 24)
