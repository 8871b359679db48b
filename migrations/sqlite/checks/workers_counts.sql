SELECT 'runtime ' || r.key || ' counts ' || r.running_workers || ' running, ' || r.stopped_workers || ' stopped and '
    || r.cancelled_workers || ' cancelled workers; it has ' || coalesce(c.running, 0) || ', ' || coalesce(c.stopped, 0) || ' and ' || coalesce(c.cancelled, 0)
FROM worker_runtimes AS r
LEFT JOIN (
    SELECT runtime, sum(status = 'running') AS running, sum(status = 'stopped') AS stopped, sum(status = 'cancelled') AS cancelled
    FROM workers GROUP BY runtime
) AS c ON c.runtime = r.key
WHERE r.running_workers <> coalesce(c.running, 0) OR r.stopped_workers <> coalesce(c.stopped, 0) OR r.cancelled_workers <> coalesce(c.cancelled, 0)
