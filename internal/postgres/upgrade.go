package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"selvedge/internal/engine"
	"selvedge/migrations"
)

// An upgrade runs beside programs that work. Three things keep it out of their way, and them out
// of its:
//
//   - It waits at most lockPatience for each lock, since every later statement waits behind it.
//     Then it rolls back, and tries again after a pause.
//   - Every session registers: a shared advisory lock of its own names the schema of its program,
//     for as long as the connection lives. An upgrade that excludes older programs waits until
//     none of them is connected. It holds their locks until it ends, so that one that connects
//     meanwhile waits, and then reads which schema there is.
//   - From its commit on, a trigger of each table refuses the writes of sessions that have not
//     said that their program knows the new schema. The trigger fires in the transaction that
//     writes, and creating it waits for the transactions that have written already.
const (
	sqlstateTooOld = "SVOLD"

	// sqlRegister has two parts: the setting that the triggers read, and the lock that other
	// sessions see. The lock's numbers are the OID of selvedge_file, and twice the schema, plus
	// one for a handle that only reads. A schema without that table registers nothing.
	sqlRegister = `; SELECT set_config('selvedge.schema', '%d', false),
	pg_advisory_lock_shared(CAST(CAST(to_regclass('selvedge_file') AS OID) AS INTEGER), %d)`

	// sqlExcluded lists the sessions whose programs may not write, or read, the schema to come.
	// Programs from before the registry are found by the name that sessions have by default, or
	// by their LISTEN. The query of a scout, which only asks who is the primary, is not theirs.
	sqlExcluded = `
SELECT a.pid, a.application_name AS program, coalesce(a.usename, '') AS role, coalesce(a.state, '') AS state
FROM pg_stat_activity AS a LEFT JOIN pg_locks AS l ON l.pid = a.pid AND l.database = a.datid
    AND l.locktype = 'advisory' AND l.objsubid = 2
    AND l.classid IN (SELECT oid FROM pg_class WHERE relname = 'selvedge_file')
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND CASE
    WHEN l.classid = CAST(to_regclass('selvedge_file') AS OID)
    THEN CAST(l.objid AS BIGINT) / 2 < CASE CAST(l.objid AS BIGINT) % 2
        WHEN 1 THEN CAST(? AS BIGINT) ELSE CAST(? AS BIGINT) END
    WHEN l.classid IS NULL AND a.query NOT LIKE '%pg_walfile_name%'
    THEN a.application_name = '` + defaultProgram + `'
        OR a.query = 'LISTEN "` + channelName + `' || current_schema() || '"' END
ORDER BY a.backend_start, a.pid LIMIT 10`

	// sqlKeepOut takes the locks of those that sqlExcluded finds, until the transaction ends.
	sqlKeepOut = `
SELECT pg_advisory_xact_lock(CAST(CAST(to_regclass('selvedge_file') AS OID) AS INTEGER), n)
FROM (SELECT CAST(? AS INTEGER) AS reader, CAST(? AS INTEGER) AS writer) AS least
CROSS JOIN LATERAL generate_series(0, 2 * greatest(reader, writer)) AS n
WHERE n / 2 < CASE n % 2 WHEN 1 THEN reader ELSE writer END`

	sqlMakeFence = `DROP FUNCTION IF EXISTS selvedge_fence() CASCADE;
CREATE FUNCTION selvedge_fence() RETURNS trigger LANGUAGE plpgsql AS $selvedge$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '` + sqlstateTooOld + `',
        MESSAGE = 'the database has schema %d, which programs from schema %d on may write',
        HINT = 'use a newer release of the program';
END $selvedge$`
	sqlFence = `CREATE TRIGGER selvedge_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s
FOR EACH STATEMENT WHEN (coalesce(nullif(current_setting('selvedge.schema', true), ''), '0')::bigint < %d)
EXECUTE FUNCTION selvedge_fence()`

	// sqlLockedHere returns the given tables that the schema has, in their given order.
	sqlLockedHere = `SELECT name FROM unnest(CAST(? AS TEXT[])) WITH ORDINALITY AS t (name, place)
		WHERE to_regclass(quote_ident(name)) IS NOT NULL ORDER BY place`
)

// lockPatience bounds the wait of an upgrade for each lock. An autovacuum gives its table up only
// to a session that has waited for a second, so a wait for one lasts up to vacuumPatience.
const (
	lockPatience   = 200 * time.Millisecond
	vacuumPatience = 2 * time.Second
	longestPause   = 5 * time.Second
)

// register returns the SQL that registers a session of the handle.
func (e *Engine) register() string {
	known := ladder().Last().Version
	number := 2 * known
	if e.config.ReadOnly {
		number++
	}
	return fmt.Sprintf(sqlRegister, known, number)
}

// upgrade calls try until it succeeds, or fails for a reason other than a lock. If the new schema
// excludes older programs, it first waits until none of them is connected. LockTimeout bounds the
// wait, which is reported like a wait for a lock.
func (e *Engine) upgrade(ctx context.Context, s *session, excludes bool, to migrations.Step,
	try func(patience time.Duration) error,
) error {
	began, report := time.Now(), engine.TellingWaits(ctx)
	patience := lockPatience
	for pause := lockPatience; ; pause = min(2*pause, longestPause) {
		var sessions []engine.Session
		var err error
		if excludes {
			err = s.all(&sessions, sqlExcluded, to.MinReader, to.MinWriter)
		}
		excluded := len(sessions) > 0
		if err == nil && !excluded {
			if err = try(patience); err == nil || state(err) != "55P03" && !isBeaten(err) {
				return err
			}
			blocked := err
			err = s.all(&sessions, sqlInTheWay, true)
			sessions = slices.DeleteFunc(sessions, isBrief)
			patience = lockPatience
			if slices.ContainsFunc(sessions, isVacuum) {
				patience = vacuumPatience
			}
			if err == nil && time.Since(began) >= e.config.LockTimeout {
				return inTheWay(blocked, sessions, "upgrade")
			}
		}
		switch {
		case err != nil:
			return err
		case excluded && time.Since(began) >= e.config.LockTimeout:
			return engine.Failf(engine.ErrBusy,
				"close these programs, or start their newer release instead; --wait, or Options.LockTimeout, "+
					"gives them more time",
				"schema %d excludes programs that have the database open: %s", to.Version, nameSessions(sessions))
		}
		if report != nil && len(sessions) > 0 && time.Since(began) >= reportAfter {
			report(sessions)
		}
		if !engine.Pause(ctx, pause/2+rand.N(pause/2)) {
			return waitEnded(ctx, "the tables of the schema")
		}
	}
}

// isBrief reports whether a session's transaction began a moment ago. If its age can't be seen, it is
// not brief.
func isBrief(s engine.Session) bool { return s.For > 0 && s.For < time.Second }

// isVacuum reports whether a session is an autovacuum, which has no user.
func isVacuum(s engine.Session) bool { return s.User == "" }

// lockAll takes the locks of a call that runs alone, in the same order. Once it has them, no
// transaction that writes is in progress.
func (e *Engine) lockAll(ctx context.Context, s *session, patience time.Duration) error {
	if _, err := s.wire.simple(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d; "+
		"LOCK TABLE selvedge_file IN EXCLUSIVE MODE", patience.Milliseconds())); err != nil {
		return err
	}
	var tables []string
	err := s.all(&tables, sqlLockedHere, "{"+strings.Join(e.config.Locked, ",")+"}")
	if err == nil && len(tables) > 0 {
		_, err = s.wire.simple(ctx, "LOCK TABLE "+strings.Join(tables, ", ")+" IN EXCLUSIVE MODE")
	}
	return err
}

// fence makes the tables refuse writes by programs that may not write the schema.
func fence(ctx context.Context, s *session, at migrations.Step) error {
	var tables []string
	if err := s.all(&tables, sqlGuarded); err != nil {
		return err
	}
	statements := []string{fmt.Sprintf(sqlMakeFence, at.Version, at.MinWriter)}
	for _, name := range tables {
		statements = append(statements, fmt.Sprintf(sqlFence, engine.Quoted(name), at.MinWriter))
	}
	_, err := s.wire.simple(ctx, strings.Join(statements, "; "))
	return err
}
