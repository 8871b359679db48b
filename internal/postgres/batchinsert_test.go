//go:build postgres

package postgres_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

// counting gives a server with a table whose inserts are counted, by statement.
func counting(t *testing.T) (e *postgres.Engine, statements func() int64) {
	t.Helper()
	e = open(t, dbtest.Postgres(t))
	for _, s := range []string{
		`CREATE TABLE kept (n BIGINT PRIMARY KEY CHECK (n >= 0), said TEXT, raw BYTEA, f DOUBLE PRECISION,
			few INTEGER, fixed BIGINT)`,
		`CREATE TABLE plain (LIKE kept INCLUDING ALL)`, `CREATE TABLE met (n BIGINT)`,
		`CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO met VALUES (1); RETURN ` +
			`NULL; END'`,
		`CREATE TRIGGER meeting AFTER INSERT ON kept FOR EACH STATEMENT EXECUTE FUNCTION meet()`,
	} {
		exec(t, e, s)
	}
	return e, func() int64 { return get[int64](t, e, `SELECT count(*) FROM met`) }
}

const (
	sqlKeep  = `INSERT INTO kept (n, said, raw, f, few, fixed) VALUES (?1, ?, ?, ?, ?, 7)`
	sqlPlain = `INSERT INTO plain (n, said, raw, f, few, fixed) VALUES (?1, ?, ?, ?, ?, 7)`
)

func TestPostgres_QueuedRowsGoTogetherUnchanged(t *testing.T) {
	e, statements := counting(t)
	rows := [][]any{
		{1, "text", []byte("bytes"), 1.5, 3},
		{2, nil, nil, nil, nil},
		{3, "", []byte{}, 0.0, 0},
		{4, "a\x00b\xff\U0010ffff", []byte{0, 255}, math.Inf(1), -1},
		{math.MaxInt64, "{1,NULL}", []byte("NULL"), math.NaN(), math.MaxInt32},
		{5, []byte("as bytes"), "as text", 7, true},
		{6, 8, nil, int64(9), false},
	}
	for n := range 30 {
		rows = append(rows, []any{100 + n, "said", make([]byte, 1000*n), float64(n), n})
	}
	write(t, e, func(x engine.Tx) (err error) {
		for _, row := range rows {
			err = errors.Join(err, x.Queue(sqlKeep, row))
		}
		return err
	})
	if n := statements(); n != 1 {
		t.Errorf("%d rows went in %d statements", len(rows), n)
	}
	write(t, e, func(x engine.Tx) (err error) {
		for _, row := range rows {
			_, failed := x.Exec(sqlPlain, row)
			err = errors.Join(err, failed)
		}
		return err
	})
	if n := get[int64](t, e, `SELECT count(*) FROM ((TABLE kept EXCEPT TABLE plain)
		UNION ALL (TABLE plain EXCEPT TABLE kept)) AS differ`); n != 0 {
		t.Errorf("%d rows are others than those that came one by one", n)
	}
	if n := get[int64](t, e, `SELECT count(*) FROM kept`); n != int64(len(rows)) {
		t.Errorf("%d rows of %d are there", n, len(rows))
	}
}

func TestPostgres_QueuedAndPrefetchedAreAsGiven(t *testing.T) {
	e, _ := counting(t)
	raw := make([]byte, 2)
	write(t, e, func(x engine.Tx) (err error) {
		for n := range 30 { // the first ones wait by themselves, the others together
			copy(raw, strconv.Itoa(10+n))
			err = errors.Join(err, x.Queue(sqlKeep, []any{10 + n, nil, raw, nil, nil}))
		}
		clear(raw)
		return err
	})
	if n := get[int64](t, e, `SELECT count(*) FROM kept
		WHERE raw = convert_to(CAST(n AS TEXT), 'UTF8')`); n != 30 {
		t.Errorf("%d rows of 30 are as they were given", n)
	}
	write(t, e, func(x engine.Tx) error {
		const find = `SELECT n FROM kept WHERE raw = ?`
		copy(raw, "11")
		if err := x.Prefetch(find, []any{raw}); err != nil {
			return err
		}
		copy(raw, "22")
		var n int64
		if err := x.Get(&n, find, []any{[]byte("11")}); err != nil || n != 11 {
			t.Errorf("the answer is %d: %v", n, err)
		}
		return nil
	})
}

func TestPostgres_BatchedRowsEndWithSavepoint(t *testing.T) {
	e, _ := counting(t)
	queue := func(x engine.Tx, from, to int) (err error) {
		for n := from; n < to; n++ {
			err = errors.Join(err, x.Queue(sqlKeep, []any{n, nil, nil, nil, nil}))
		}
		return err
	}
	write(t, e, func(x engine.Tx) error {
		if err := queue(x, 0, 20); err != nil {
			return err
		}
		for _, keep := range []bool{false, true} {
			s, err := x.Savepoint()
			if err != nil {
				return err
			}
			end := s.RollBack
			if keep {
				end = s.Release
			}
			if err := errors.Join(queue(x, 20, 40), end()); err != nil {
				return err
			}
		}
		var n int64
		if err := x.Get(&n, `SELECT count(*) FROM kept`, nil); err != nil || n != 40 {
			t.Errorf("%d rows are there: %v", n, err)
		}
		return queue(x, 40, 60)
	})
	if n := get[int64](t, e, `SELECT count(*) FROM kept`); n != 60 {
		t.Errorf("%d rows are there", n)
	}
	for name, bad := range map[string]int{"not unique": 59, "refused": -1} {
		out := e.Write(t.Context(), "test", func(x engine.Tx) error {
			return errors.Join(queue(x, 60, 80), queue(x, bad, bad+1), queue(x, 80, 100))
		})
		var f *engine.Failure
		if n := get[int64](t, e, `SELECT count(*) FROM kept`); !errors.As(out.Err, &f) ||
			f.Constraint == engine.NoConstraint || n != 60 {
			t.Errorf("%s: %d rows are there: %v", name, n, out.Err)
		}
	}
}

func TestPostgres_InsertSelectSeesPreviousRow(t *testing.T) {
	e, statements := counting(t)
	write(t, e, func(x engine.Tx) (err error) {
		for range 20 {
			err = errors.Join(err, x.Queue(`INSERT INTO kept (n, few) VALUES ((SELECT count(*) FROM kept), ?)`,
				[]any{1}))
		}
		return err
	})
	var numbers []int64
	write(t, e, func(x engine.Tx) error { return x.Select(&numbers, `SELECT n FROM kept ORDER BY n`, nil) })
	if len(numbers) != 20 || slices.Max(numbers) != 19 || statements() != 20 {
		t.Errorf("%v by %d statements", numbers, statements())
	}
}
