//go:build postgres

package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"selvedge/internal/engine"
	"selvedge/test/dbtest"
)

func TestPostgres_SingleReadTakesOneMessage(t *testing.T) {
	address, trips := dbtest.PostgresTrips(t, dbtest.Postgres(t))
	e := open(t, address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	exec(t, e, "CREATE FUNCTION add(n BIGINT) RETURNS BIGINT LANGUAGE sql AS 'INSERT INTO kept VALUES (n) "+
		"RETURNING n'")
	var n int64
	count := func(x engine.Rx) error { return x.Get(&n, "SELECT count(*) FROM kept", nil) }
	least := int64(math.MaxInt64)
	for range 5 { // the first one on a connection prepares, and others may have a connection meanwhile
		before := trips()
		if out := e.ReadSingle(t.Context(), "test", count); out.Err != nil {
			t.Fatal(out.Err)
		}
		least = min(least, trips()-before)
	}
	if least != 1 {
		t.Errorf("it took %d messages", least)
	}
	for _, query := range []string{"INSERT INTO kept VALUES (1) RETURNING n", "SELECT add(1)"} {
		for _, read := range []func() error{
			func() error {
				return e.ReadSingle(t.Context(), "test",
					func(x engine.Rx) error { return x.Get(new(int64), query, nil) }).Err
			},
			func() error {
				return e.Read(t.Context(), "test", func(x engine.Rx) error { return x.Get(new(int64), query, nil) }).Err
			},
		} {
			if err := read(); err == nil {
				t.Errorf("%s was done by a read", query)
			}
		}
	}
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 0 {
		t.Errorf("reads have made %d rows", n)
	}
}

func TestPostgresAPageIsPlannedOnce(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT PRIMARY KEY, t TEXT)")
	exec(t, e, "INSERT INTO kept SELECT n, 'a text' FROM generate_series(1, 1000) AS n")
	const page = "SELECT n FROM kept WHERE n > ? ORDER BY n LIMIT CAST(? AS BIGINT)"
	out := e.Read(t.Context(), "test", func(x engine.Rx) error {
		read := func(limit int64) error {
			var got []int64
			if err := x.Select(&got, page, []any{int64(3), limit}); err != nil {
				return err
			}
			for i, n := range got {
				if n != int64(i)+4 {
					return fmt.Errorf("row %d is %d", i, n)
				}
			}
			if len(got) != int(min(limit, 997)) {
				return fmt.Errorf("a page of %d has %d rows", limit, len(got))
			}
			return nil
		}
		var planned struct {
			Statements int64 `db:"statements"`
			Anew       int64 `db:"anew"`
		}
		look := func() error {
			return x.Get(&planned, `SELECT count(*) AS statements, coalesce(sum(custom_plans), 0) AS anew
FROM pg_prepared_statements WHERE statement LIKE '%FROM kept WHERE%'
	AND statement NOT LIKE '%pg_prepared%'`, nil)
		}
		for range 20 {
			if err := read(50); err != nil {
				return err
			}
		}
		if err := look(); err != nil {
			return err
		}
		if planned.Statements != 2 || planned.Anew > 6 { // the server tries five before it keeps one
			t.Errorf("20 pages were planned %d times, by %d statements", planned.Anew, planned.Statements)
		}
		for limit := range int64(40) { // as many as they like
			for range 2 {
				if err := read(limit * 40); err != nil {
					return err
				}
			}
		}
		if err := look(); err != nil || planned.Statements > 5 {
			t.Errorf("%d statements are kept for a page: %v", planned.Statements, err)
		}
		var none []int64
		err := x.Select(&none, page, []any{int64(3), nil}) // NULL is no limit
		if len(none) != 997 {
			t.Errorf("without a limit came %d rows", len(none))
		}
		return err
	})
	if out.Err != nil {
		t.Error(out.Err)
	}
}

// The rows of a query are read straight from the connection where that is possible. What comes is
// the same as what database/sql makes of them.
func TestPostgres_RowIsSameHoweverRead(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT, t TEXT, b BYTEA, f DOUBLE PRECISION, yes BOOLEAN)")
	write(t, e, func(x engine.Tx) error {
		_, err := x.Exec("INSERT INTO kept VALUES (?, ?, ?, 0.5, true), (NULL, NULL, NULL, NULL, NULL), (7, '', "+
			"'', 1, false)",
			[]any{int64(1) << 40, "a\x00b\U0010FFFF", []byte{0, 1}})
		return err
	})
	const query = "SELECT n, t, b, f, yes FROM kept"
	type usual struct {
		n *int64
		t *string
		b []byte
		f *float64
		y *bool
	}
	text := func(u usual) string {
		s := "NULL"
		if u.n != nil {
			s = fmt.Sprintf("%d %q %v %v %v", *u.n, *u.t, u.b, *u.f, *u.y)
		}
		return s + fmt.Sprint(u.b == nil)
	}
	want := []string{`1099511627776 "a\x00b\U0010ffff" [0 1] 0.5 truefalse`, "NULLtrue", `7 "" [] 1 falsefalse`}
	for name, beside := range map[string]func(x engine.Rx) error{
		"alone":                    func(engine.Rx) error { return nil },
		"beside another statement": func(x engine.Rx) error { return x.Get(new(int64), "SELECT 1", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			out := e.ReadSingle(t.Context(), "test", func(x engine.Rx) error {
				rows, err := x.Query(query, nil)
				if err != nil {
					return err
				}
				var got []string
				for rows.Next() {
					if err := beside(x); err != nil {
						return err
					}
					var u, again usual
					var values [5]any
					err := errors.Join(rows.Scan(&u.n, &u.t, &u.b, &u.f, &u.y), // by database/sql: of f
						rows.Scan(&values[0], &values[1], &values[2], &values[3], &values[4]))
					for i := range values { // which are the caller's now
						if b, _ := values[i].([]byte); len(b) > 0 {
							b[0]++
						}
					}
					err = errors.Join(err,
						rows.Scan(&again.n, &again.t, &again.b, &again.f, &again.y))
					if err != nil {
						return err
					}
					if text(u) != text(again) {
						t.Errorf("read twice, a row is %s and %s", text(u), text(again))
					}
					if (values[0] == nil) != (u.n == nil) {
						t.Errorf("of %s any is %v", text(u), values)
					}
					got = append(got, text(u))
				}
				if err := errors.Join(rows.Err(), rows.Close()); err != nil {
					return err
				}
				if !slices.Equal(got, want) {
					t.Errorf("there came %q", got)
				}
				if rows.Next() || rows.Scan(new(any)) == nil {
					t.Error("rows that are closed go on")
				}

				rows, err = x.Query("SELECT n, t, b FROM kept", nil)
				if err != nil {
					return err
				}
				i := 0
				for ; rows.Next(); i++ {
					var n *int64
					var s *string
					var b []byte
					if err := errors.Join(beside(x), rows.Scan(&n, &s, &b), rows.Scan(&n, &s, &b)); err != nil {
						return err
					}
					if start := text(usual{n: n, t: s, b: b, f: new(float64), y: new(bool)}); start[:6] != want[i][:6] {
						t.Errorf("row %d is %s", i, start)
					}
					var whole int64
					var str string
					if err := rows.Scan(&whole, &str, &b); (err == nil) != (n != nil) {
						t.Errorf("NULL into what can't hold it, or else: %v", err)
					}
					if err := rows.Scan(&whole); err == nil {
						t.Error("three columns went into one")
					}
				}
				if i != 3 {
					t.Errorf("there came %d rows", i)
				}
				return errors.Join(rows.Err(), rows.Close())
			})
			if out.Err != nil {
				t.Error(out.Err)
			}
		})
	}
	out := e.ReadSingle(t.Context(), "test", func(x engine.Rx) error {
		rows, err := x.Query("SELECT 1 / (3 - n) FROM generate_series(1, 5) AS n", nil)
		if err != nil {
			return err
		}
		n := 0
		for rows.Next() {
			n++
		}
		if rows.Err() == nil || n > 2 {
			t.Errorf("a query that failed gave %d rows: %v", n, rows.Err())
		}
		return errors.Join(rows.Err(), rows.Close())
	})
	if out.Err == nil {
		t.Error("nobody was told")
	}
}

func TestPostgres_UnholdableValueIsNamed(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	for bad := range 3 {
		// another statement, so that the rows are read before they are asked for
		for _, beside := range []bool{false, true} {
			var got []any
			out := e.ReadSingle(t.Context(), "test", func(x engine.Rx) error {
				got = nil
				rows, err := x.Query("SELECT CASE n WHEN ? THEN 1e400 ELSE n END FROM generate_series(0, 4) AS n",
					[]any{bad})
				if err != nil {
					return err
				}
				for rows.Next() {
					if beside {
						if err := x.Get(new(int64), "SELECT 1", nil); err != nil {
							return err
						}
					}
					var value any
					if err := rows.Scan(&value); err != nil {
						return err
					}
					got = append(got, value)
				}
				return rows.Err()
			})
			if want := []any{int64(0), int64(1)}[:bad]; !slices.Equal(got, want) ||
				!errors.Is(out.Err, strconv.ErrRange) {
				t.Errorf("before row %d, beside another statement %v, came %v, and then %v", bad, beside, got, out.Err)
			}
		}
	}
}
