SELECT 'runtime ' || key || ' counts ' || running_workers || ' running, ' || stopped_workers || ' stopped and ' || cancelled_workers
    || ' cancelled workers; it has ' || running || ', ' || stopped || ' and ' || cancelled
FROM (
    SELECT key, running_workers, stopped_workers, cancelled_workers,
        (SELECT count(*) FROM workers WHERE runtime = r.key AND status = 'running') AS running,
        (SELECT count(*) FROM workers WHERE runtime = r.key AND status = 'stopped') AS stopped,
        (SELECT count(*) FROM workers WHERE runtime = r.key AND status = 'cancelled') AS cancelled
    FROM worker_runtimes AS r
) AS x
WHERE running_workers <> running OR stopped_workers <> stopped OR cancelled_workers <> cancelled
