package sqlite

import (
	"context"
	"errors"
	"fmt"

	"selvedge/internal/engine"
)

var _ engine.Movable = (*Engine)(nil)

const (
	sqlTables = `SELECT name FROM sqlite_schema WHERE type = 'table'
		AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name`
	sqlTableColumns = `SELECT name, type = 'BLOB' AS bytes, type = 'TEXT' AS text, "notnull", pk AS key
		FROM pragma_table_info(?) ORDER BY cid`
	sqlReferences = `SELECT "from" AS "column", "table" FROM pragma_foreign_key_list(?) ORDER BY "from"`
	sqlCounters   = `SELECT name, seq FROM sqlite_sequence ORDER BY name`
	sqlCounts     = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?
		AND sql LIKE '%AUTOINCREMENT%'`
	sqlNewCounter = `INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0
		WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)`
	sqlSetCounter = `UPDATE sqlite_sequence SET seq = ? WHERE name = ?`
)

// Keep keeps all other handles away until the file is closed.
func (e *Engine) Keep(ctx context.Context) error {
	if e.memory {
		return fmt.Errorf("%w: a database in memory is gone when it is closed", engine.ErrInvalid)
	}
	if e.kept {
		return nil
	}
	if _, err := e.hold.Alone(ctx, e.config.LockTimeout, nil); err != nil {
		return failure(fmt.Errorf("get the file alone, to move rows into it: %w", err))
	}
	e.kept = true
	return failure(e.samePath())
}

// Shut runs fn with no other handle open, so that none outlives it.
func (e *Engine) Shut(ctx context.Context, why, _ string, fn func(engine.Tx) error) (err error) {
	if !e.kept {
		if e.memory {
			return fmt.Errorf("%w: a database in memory is no other process's", engine.ErrInvalid)
		}
		if _, err := e.hold.Alone(ctx, e.config.LockTimeout, nil); err != nil {
			return failure(fmt.Errorf("get the file alone, to shut it to writers: %w", err))
		}
		defer func() { err = errors.Join(err, failure(e.again(ctx))) }()
		if err := e.samePath(); err != nil {
			return failure(err)
		}
	}
	return e.Write(ctx, why, fn).Err
}

// Reopen runs fn while no other program moves rows.
func (e *Engine) Reopen(ctx context.Context, why string, fn func(engine.Tx) error) error {
	return e.Shut(ctx, why, "", fn)
}

// Describe returns the tables.
func (e *Engine) Describe(x engine.Rx) ([]engine.Table, error) {
	return engine.Describe(x, sqlTables, func(name string) string { return name }, sqlTableColumns,
		sqlReferences)
}

// Counters returns the counters of AUTOINCREMENT.
func (e *Engine) Counters(x engine.Rx) (map[string]int64, error) {
	var list []struct {
		Name string `db:"name"`
		Seq  int64  `db:"seq"`
	}
	err := x.Select(&list, sqlCounters, nil)
	counters := map[string]int64{}
	for _, c := range list {
		counters[c.Name] = c.Seq
	}
	return counters, err
}

// Count sets the counter of a table.
func (e *Engine) Count(t engine.Tx, table string, last int64) error {
	var counts int
	if err := t.Get(&counts, sqlCounts, []any{table}); err != nil || counts == 0 {
		return err
	}
	if _, err := t.Exec(sqlNewCounter, []any{table}); err != nil {
		return err
	}
	_, err := t.Exec(sqlSetCounter, []any{last, table})
	return err
}

// Empty deletes the rows table by table.
func (e *Engine) Empty(t engine.Tx, tables []engine.Table) error {
	for _, table := range tables {
		if _, err := t.Exec("DELETE FROM "+engine.Quoted(table.Name), nil); err != nil {
			return err
		}
		if err := e.Count(t, table.Name, 0); err != nil {
			return err
		}
	}
	return nil
}

// KeyLimits returns none: an index takes every key.
func (e *Engine) KeyLimits(engine.Rx) ([]engine.KeyLimit, error) { return nil, nil }

// Fits accepts every row. It is never called, since there are no key limits.
func (e *Engine) Fits(_ context.Context, _ engine.Table, rows [][]any) ([]error, error) {
	return make([]error, len(rows)), nil
}
