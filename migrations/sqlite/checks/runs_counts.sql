SELECT 'run ' || key || ' says ' || others || ' lines that are no turns and '
    || coalesce(turn_count, 'an open number of') || ' turns; its trace has ' || coalesce(real_others, 0) || ' and '
    || coalesce(real_turns, 0) || ', the last with sequence ' || coalesce(last, 0)
FROM runs
LEFT JOIN (
    SELECT id >> 24 AS run, sum(kind <> 'turn') AS real_others, sum(kind = 'turn') AS real_turns, max(id) & 16777215 AS last
    FROM run_records GROUP BY id >> 24
) ON run = key
WHERE others <> coalesce(real_others, 0)
   OR turn_count <> coalesce(real_turns, 0)
   OR coalesce(last, 0) <> coalesce(real_others, 0) + coalesce(real_turns, 0)
