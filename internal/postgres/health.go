package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"selvedge/internal/engine"
)

// Only roles in pg_read_all_stats see what other users' sessions do. All roles see that a session
// exists, its program and user, and the locks that it waits for.
const (
	// sqlLockWaits are the sessions of this database that wait for locks, with a row for each
	// session that blocks them.
	sqlLockWaits = `
SELECT w.pid, w.application_name AS program, coalesce(w.usename, '') AS role, coalesce(w.state, '') AS state,
       coalesce(CAST(extract(epoch FROM clock_timestamp() - w.xact_start) * 1000000000 AS BIGINT),
       0) AS nanos,
       coalesce(CAST(extract(epoch FROM clock_timestamp() - l.since) * 1000000000 AS BIGINT), 0) AS waited,
       h.pid AS "holder.pid", coalesce(b.application_name, '') AS "holder.program",
       coalesce(b.usename, '') AS "holder.role", coalesce(b.state, '') AS "holder.state",
       coalesce(CAST(extract(epoch FROM clock_timestamp() - b.xact_start) * 1000000000 AS BIGINT),
       0) AS "holder.nanos"
FROM (SELECT pid, min(waitstart) AS since FROM pg_locks WHERE NOT granted GROUP BY pid) AS l
JOIN pg_stat_activity AS w ON w.pid = l.pid AND w.datname = current_database()
CROSS JOIN LATERAL (SELECT DISTINCT unnest(pg_blocking_pids(l.pid)) AS pid) AS h
LEFT JOIN pg_stat_activity AS b ON b.pid = h.pid
WHERE l.pid = ? OR ? = 0
ORDER BY l.since, l.pid, h.pid LIMIT 100`
	sqlOldestTransaction = `
SELECT pid, program, role, state,
	CAST(extract(epoch FROM clock_timestamp() - since) * 1000000000 AS BIGINT) AS nanos
FROM (SELECT pid, application_name AS program, coalesce(usename, '') AS role, coalesce(state, '') AS state,
	xact_start AS since
      FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
      AND pid <> pg_backend_pid()
      UNION ALL SELECT 0, gid, owner, 'prepared', prepared FROM pg_prepared_xacts
      WHERE database = current_database()) AS t
WHERE since IS NOT NULL ORDER BY since LIMIT 1`
	sqlServerHealth = `
SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
       (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database) AS connections,
       CAST(current_setting('max_connections') AS BIGINT)
       - CAST(current_setting('superuser_reserved_connections') AS BIGINT) AS most,
       current_setting('synchronous_standby_names') AS awaited,
       EXISTS (SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'
       AND sync_state IN ('sync', 'quorum')) AS there,
       (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep') AS waiting,
       (SELECT max(CAST(age(datfrozenxid) AS BIGINT)) FROM pg_database) AS spent,
       coalesce((SELECT last_failed_wal FROM pg_stat_archiver
       WHERE last_failed_time > coalesce(last_archived_time, '-infinity')), '') AS archive_fails,
       has_function_privilege('pg_ls_waldir()', 'EXECUTE') AS sees_wal`
	sqlStandbys = `
SELECT application_name AS name, coalesce(state, '') AS state, coalesce(sync_state, '') AS sync,
       coalesce(CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS BIGINT), 0) AS behind
FROM pg_stat_replication ORDER BY application_name, pid`
	sqlSlots = `
SELECT slot_name AS name, CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS BIGINT) AS kept
FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY kept DESC, slot_name`
	sqlWALSize = `SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM pg_ls_waldir()`
)

// Health reports the calls under way, the sizes, and what hinders the server's work.
func (e *Engine) Health(ctx context.Context) (engine.Health, error) {
	var h engine.Health
	err := e.Read(ctx, "health", func(x engine.Rx) (err error) {
		var z sizes
		if err := x.Get(&z, sqlSizes, nil); err != nil {
			return err
		}
		h = engine.Health{FileBytes: z.Bytes, PageSize: z.Page, Pages: z.Bytes / z.Page, Server: &engine.Server{}}
		h.WALBytes, err = e.lookAtServer(x, h.Server)
		return err
	}).Err
	h.LongestRead, h.LongestReadFor, _ = e.calls.oldest(false)
	writes := 0
	h.Writing, _, writes = e.calls.oldest(true)
	h.Waiting = max(0, writes-e.config.Writers)
	return h, err
}

// lookAtServer fills s, and returns the size of the WAL in bytes if the user may see it. Without
// functions of the WAL, the standbys and the slots are missing.
func (e *Engine) lookAtServer(x engine.Rx, s *engine.Server) (wal int64, err error) {
	row := struct {
		*engine.Server
		SeesWAL bool `db:"sees_wal"`
	}{Server: s}
	if err := x.Get(&row, sqlServerHealth, nil); err != nil {
		return 0, err
	}
	query := func(dest any, query string, args ...any) error { return x.Select(dest, query, args) }
	if s.Waits, err = lockWaits(query, 0); err != nil {
		return 0, err
	}
	err = x.Get(&s.Oldest, sqlOldestTransaction, nil)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return 0, err
	}
	if e.address.withoutWAL.Load() {
		return 0, nil
	}
	if err := x.Select(&s.Standbys, sqlStandbys, nil); err != nil {
		return 0, err
	}
	if err := x.Select(&s.Slots, sqlSlots, nil); err != nil || !row.SeesWAL {
		return 0, err
	}
	err = x.Get(&wal, sqlWALSize, nil)
	return wal, err
}

// lockWaits returns the waits of one process of the server, or of all if pid is 0, longest first.
func lockWaits(query func(dest any, query string, args ...any) error, pid int) (waits []engine.LockWait,
	err error,
) {
	var rows []struct {
		engine.Session
		Waited time.Duration  `db:"waited"`
		Holder engine.Session `db:"holder"`
	}
	if err := query(&rows, sqlLockWaits, pid, pid); err != nil {
		return nil, err
	}
	for _, r := range rows {
		if last := len(waits) - 1; last < 0 || waits[last].PID != r.PID {
			waits = append(waits, engine.LockWait{Session: r.Session, Waited: r.Waited})
		}
		w := &waits[len(waits)-1]
		w.HeldBy = append(w.HeldBy, r.Holder)
	}
	return waits, nil
}

// A wait for locks is reported once it has lasted for reportAfter; reportEvery is the interval
// between two looks. Tests shorten them.
var (
	reportAfter = 2 * time.Second
	reportEvery = time.Second
)

// reportWaits reports the sessions that hold the locks that this one waits for, if the context asks
// for that, until over is called.
func (e *Engine) reportWaits(ctx context.Context, waiting *session) (over func()) {
	tell := engine.TellingWaits(ctx)
	if tell == nil {
		return func() {}
	}
	within, cancel := context.WithCancel(ctx)
	pid := int(waiting.wire.conn.PID())
	var telling sync.WaitGroup
	telling.Go(func() {
		var own spare
		defer own.close()
		for engine.Pause(within, reportEvery) {
			s, err := own.get(within, e.newSession)
			if err != nil {
				continue
			}
			s.wire.ctx = within //nolint:fatcontext // the same one each time
			waits, err := lockWaits(s.all, pid)
			if err != nil || len(waits) == 0 || waits[0].Waited < reportAfter {
				continue
			}
			tell(waits[0].HeldBy)
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}
