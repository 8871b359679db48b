SELECT 'run ' || key || ' says ' || others || ' lines that are no turns and ' || coalesce(turn_count::text, 'an open number of')
    || ' turns; its trace has ' || real_others || ' and ' || (lines - real_others) || ', the last with sequence ' || last
FROM (
    SELECT key, others, turn_count,
        (SELECT count(*) FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24) AS lines,
        (SELECT count(*) FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24 AND kind <> 'turn') AS real_others,
        coalesce((SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24), 0) AS last
    FROM runs
) AS x
WHERE others <> real_others OR turn_count <> lines - real_others OR last <> lines
