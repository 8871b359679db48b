package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"selvedge/internal/engine"
)

var _ engine.Movable = (*Engine)(nil)

// Handles on any host may have been opened before a move began. A trigger on each table stops
// them: creating it waits for the transactions that have written to the table, and every later
// statement fires it. A program that moves rows identifies itself by a setting of its session.
const (
	sqlstateShut    = "SVMOV"
	sqlSettingMover = "; SELECT set_config('selvedge.mover', 'on', false)"

	sqlMakeGuard = `CREATE FUNCTION selvedge_shut() RETURNS trigger LANGUAGE plpgsql AS $selvedge$
BEGIN
    IF coalesce(current_setting('selvedge.mover', true), '') <> 'on' THEN
        RAISE EXCEPTION USING ERRCODE = '` + sqlstateShut + `', MESSAGE = %s;
    END IF;
    RETURN NULL;
END $selvedge$`
	sqlGuard = `CREATE TRIGGER selvedge_shut BEFORE INSERT OR UPDATE OR DELETE
		OR TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION selvedge_shut()`
	sqlDropGuards = `DROP FUNCTION IF EXISTS selvedge_shut() CASCADE`
	sqlGuarded    = `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()
AND tablename NOT IN ('moves', 'sessions', 'owner_beats') ORDER BY tablename COLLATE "C"`
	sqlMovable = `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()
	AND tablename NOT IN ('sessions', 'owner_beats')
ORDER BY tablename COLLATE "C"`
	sqlGrown = `SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = current_schema()::regnamespace
	AND relkind = 'r'
AND pg_relation_size(oid) / current_setting('block_size')::BIGINT > 2 * relpages + 8
	ORDER BY relname COLLATE "C"`
	sqlLockTimeout = `SELECT set_config('lock_timeout', ?, true)`

	sqlLiving = `SELECT o.pid, o.program, (b.until - server_nanos()) / 1000000000 + 1 AS seconds
FROM owner_beats AS b JOIN owners AS o ON o.id = b.owner WHERE b.until > server_nanos() ORDER BY o.id
	LIMIT 10`

	// sqlInTheWay lists the sessions whose transactions hold locks for which shutting the tables
	// waits; opening them again waits for readers, too.
	sqlInTheWay = `SELECT pid, application_name AS program, coalesce(usename, '') AS role,
	coalesce(state, '') AS state,
	coalesce(CAST(extract(epoch FROM clock_timestamp() - xact_start) * 1000000000 AS BIGINT), 0) AS nanos
FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND pid IN (
    SELECT l.pid FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
    WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND c.relnamespace = current_schema()::regnamespace
    AND (? OR l.mode NOT IN ('AccessShareLock', 'RowShareLock')))
ORDER BY xact_start LIMIT 10`

	sqlKeep = `SELECT pg_try_advisory_lock(hashtextextended('selvedge move ' || ?, 0))`

	sqlReferencesOf = `SELECT a.attname AS "column", r.relname AS "table"
FROM pg_constraint AS k JOIN pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
	JOIN pg_class AS r ON r.oid = k.confrelid
WHERE k.contype = 'f' AND k.conrelid = to_regclass(?) ORDER BY a.attname`
	sqlColumnsToMove = `SELECT a.attname AS name, a.atttypid = 'bytea'::regtype AS bytes,
	a.atttypid = 'text'::regtype AS text, a.attnotnull AS notnull,
       ` + placeInKey + ` AS key, ` + beginningInKey + ` AS beginning
FROM pg_attribute AS a WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped
	AND a.attgenerated = '' AND a.attidentity <> 'a'
ORDER BY a.attnum`

	// sqlSequences lists the sequences behind the tables' identities, except those of columns that only
	// the server fills. is_called is false for a sequence that has returned no number yet.
	sqlSequences = `SELECT c.relname AS "table",
	pg_get_serial_sequence(quote_ident(c.relname), a.attname) AS sequence
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attidentity = 'd'
	AND NOT a.attisdropped
ORDER BY c.relname`
	sqlSequenceOf = `SELECT pg_get_serial_sequence(quote_ident(c.relname), a.attname)
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.oid = to_regclass(?) AND a.attidentity = 'd' AND NOT a.attisdropped`
	sqlSetSequence = `SELECT setval(CAST(? AS TEXT)::regclass, ?, ? <> 0)`

	// sqlIndexed are the columns of text and bytes of each index.
	sqlIndexed = `SELECT t.relname AS "table", i.indexrelid::BIGINT AS "index", a.attname AS "column"
FROM pg_index AS i JOIN pg_class AS t ON t.oid = i.indrelid JOIN pg_attribute AS a ON a.attrelid = t.oid
	AND a.attnum = ANY (i.indkey::int2[])
WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind = 'r'
	AND a.atttypid IN ('text'::regtype, 'bytea'::regtype)
ORDER BY t.relname, i.indexrelid, a.attnum`
)

// Keep prevents other programs from moving rows into the database. The lock belongs to a session,
// and ends with it: some time after a program that was stopped. So Keep waits for LockTimeout.
func (e *Engine) Keep(ctx context.Context) error {
	if e.keeper != nil {
		return nil
	}
	s, err := e.newSession(ctx)
	if err != nil {
		return failure(err)
	}
	var kept bool
	for began := time.Now(); ; {
		err = s.get(&kept, sqlKeep, e.address.schema)
		if err != nil || kept || time.Since(began) >= e.config.LockTimeout ||
			!engine.Pause(ctx, 50*time.Millisecond) {
			break
		}
	}
	if err == nil && !kept {
		err = engine.Failf(engine.ErrBusy, "wait until it is over",
			"another program moves rows into the database")
	}
	if err != nil {
		return failure(errors.Join(err, s.close()))
	}
	e.keeper = s
	return nil
}

// Shut makes the server refuse all writers, including open handles, and then looks for living
// owners. It may have to wait for the tables: a snapshot from before the wait would show neither
// the owners that came during it nor what they wrote.
func (e *Engine) Shut(ctx context.Context, why, message string, fn func(engine.Tx) error) error {
	err := e.WriteLocked(ctx, why, func(t engine.Tx) error {
		if err := e.lockTimeout(t); err != nil {
			return err
		}
		if _, err := t.Exec(sqlDropGuards, nil); err != nil {
			return err
		}
		var tables []string
		if err := t.Select(&tables, sqlGuarded, nil); err != nil {
			return err
		}
		if _, err := t.Exec(fmt.Sprintf(sqlMakeGuard, literal(message)), nil); err != nil {
			return err
		}
		for _, name := range tables {
			if _, err := t.Exec(fmt.Sprintf(sqlGuard, engine.Quoted(name)), nil); err != nil {
				return err
			}
		}
		if err := nobodyLives(t); err != nil {
			return err
		}
		return fn(t)
	}).Err
	return e.blockedBy(ctx, err, false)
}

// blockedBy looks up the sessions that hold the lock, and names them as inTheWay does.
func (e *Engine) blockedBy(ctx context.Context, err error, readers bool) error {
	if state(err) != "55P03" {
		return err
	}
	var sessions []engine.Session
	out := e.Read(ctx, "look who is in the way",
		func(x engine.Rx) error { return x.Select(&sessions, sqlInTheWay, []any{readers}) })
	if out.Failed() {
		return err
	}
	return inTheWay(err, sessions, "move")
}

// inTheWay names, in the error of a failed lock, the sessions that held it.
func inTheWay(err error, sessions []engine.Session, of string) error {
	if len(sessions) == 0 {
		return err
	}
	return engine.Failf(engine.ErrBusy,
		"wait until that has ended, or end it; --wait, or Options.LockTimeout, gives the "+of+" more time",
		"its tables are in a transaction of %s: %w", nameSessions(sessions), err)
}

func nameSessions(sessions []engine.Session) string {
	var names []string
	for _, s := range sessions {
		names = append(names, fmt.Sprintf("process %d of the server (%s)", s.PID,
			strings.Join(slices.DeleteFunc([]string{s.Program, s.User, s.State},
				func(part string) bool { return part == "" }), ", ")))
	}
	return strings.Join(names, " and ")
}

func (e *Engine) lockTimeout(t engine.Tx) error {
	var set string
	return t.Get(&set, sqlLockTimeout, []any{fmt.Sprint(lockTimeout(e.config.LockTimeout))})
}

func nobodyLives(x engine.Rx) error {
	var living []struct {
		PID     int    `db:"pid"`
		Program string `db:"program"`
		Seconds int64  `db:"seconds"`
	}
	if err := x.Select(&living, sqlLiving, nil); err != nil || len(living) == 0 {
		return err
	}
	busy := &engine.Failure{Kind: engine.ErrBusy}
	var who []string
	var longest int64
	for _, one := range living {
		busy.HeldBy = append(busy.HeldBy, one.PID)
		who = append(who, fmt.Sprintf("process %d (%s)", one.PID, one.Program))
		longest = max(longest, one.Seconds)
	}
	busy.Err = fmt.Errorf("it is in use by %s", strings.Join(who, ", "))
	busy.Hint = fmt.Sprintf("close the programs that use it; one that was killed counts as dead in %d s",
		longest)
	return busy
}

// Reopen removes the triggers.
func (e *Engine) Reopen(ctx context.Context, why string, fn func(engine.Tx) error) error {
	err := e.Write(ctx, why, func(t engine.Tx) error {
		if err := e.lockTimeout(t); err != nil {
			return err
		}
		if _, err := t.Exec(sqlDropGuards, nil); err != nil {
			return err
		}
		return fn(t)
	}).Err
	return e.blockedBy(ctx, err, true)
}

// Describe returns the tables of the schema, without columns that the server computes.
func (e *Engine) Describe(x engine.Rx) ([]engine.Table, error) {
	return engine.Describe(x, sqlMovable, engine.Quoted, sqlColumnsToMove, sqlReferencesOf)
}

// Counters are the sequences of identities.
func (e *Engine) Counters(x engine.Rx) (map[string]int64, error) {
	var list []struct {
		Table    string `db:"table"`
		Sequence string `db:"sequence"`
	}
	if err := x.Select(&list, sqlSequences, nil); err != nil {
		return nil, err
	}
	counters := map[string]int64{}
	for _, s := range list {
		var last int64
		if err := x.Get(&last, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM `+s.Sequence,
			nil); err != nil {
			return nil, err
		}
		if last > 0 {
			counters[s.Table] = last
		}
	}
	return counters, nil
}

// Count sets the counter of a table.
func (e *Engine) Count(t engine.Tx, table string, last int64) error {
	var sequence string
	err := t.Get(&sequence, sqlSequenceOf, []any{engine.Quoted(table)})
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	given := 1
	if last == 0 {
		given = 0
	}
	var set int64
	return t.Get(&set, sqlSetSequence, []any{sequence, max(1, last), given})
}

// Analyze updates the planner's statistics of tables that have doubled since the last update. Until
// autovacuum does, a page of a list may read and sort the whole list.
func (t *tx) Analyze() error {
	var names []string
	if err := t.Select(&names, sqlGrown, nil); err != nil || len(names) == 0 {
		return err
	}
	_, err := t.Exec("ANALYZE "+strings.Join(names, ", "), nil)
	return err
}

// Empty truncates the tables.
func (e *Engine) Empty(t engine.Tx, tables []engine.Table) error {
	var names []string
	for _, table := range tables {
		names = append(names, engine.Quoted(table.Name))
		if table.Name == "owners" {
			names = append(names, "owner_beats") // which refers to it
		}
	}
	_, err := t.Exec("TRUNCATE "+strings.Join(names, ", ")+" RESTART IDENTITY", nil)
	return err
}

// KeyLimits returns the columns of each index that has text or bytes.
func (e *Engine) KeyLimits(x engine.Rx) (limits []engine.KeyLimit, err error) {
	var list []struct {
		Table  string `db:"table"`
		Index  int64  `db:"index"`
		Column string `db:"column"`
	}
	if err := x.Select(&list, sqlIndexed, nil); err != nil {
		return nil, err
	}
	var index int64
	for _, c := range list {
		if c.Index != index {
			index = c.Index
			limits = append(limits, engine.KeyLimit{Table: c.Table})
		}
		last := &limits[len(limits)-1]
		last.Columns = append(last.Columns, c.Column)
	}
	return limits, nil
}

var errUndo = errors.New("nothing is to stay of this")

// Fits inserts the rows into a temporary table with the same indexes: how long a key may be depends
// on how well the server compresses it.
func (e *Engine) Fits(ctx context.Context, table engine.Table, rows [][]any) (unfit []error, err error) {
	var names []string
	for _, c := range table.Columns {
		names = append(names, engine.Quoted(c.Name))
	}
	insert := `INSERT INTO selvedge_fits (` + strings.Join(names, ", ") + `) VALUES (?` +
		strings.Repeat(", ?", len(names)-1) + `)`
	err = e.Write(ctx, "look which keys are too long", func(t engine.Tx) error {
		unfit = make([]error, len(rows))
		if _, err := t.Exec(`CREATE TEMPORARY TABLE selvedge_fits (LIKE `+engine.Quoted(table.Name)+
			` INCLUDING INDEXES INCLUDING GENERATED INCLUDING IDENTITY) ON COMMIT DROP`, nil); err != nil {
			return err
		}
		for i, row := range rows {
			s, err := t.Savepoint()
			if err != nil {
				return err
			}
			_, unfit[i] = t.Exec(insert, row)
			if err := s.RollBack(); err != nil {
				return err
			}
		}
		return errUndo
	}).Err
	if errors.Is(err, errUndo) {
		err = nil
	}
	return unfit, err
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
