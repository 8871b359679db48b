package db_test

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// leaver is a sql.Scanner that does not return.
type leaver struct{}

var leaves func() // how a leaver leaves

func (leaver) Scan(any) error { leaves(); return nil }

func TestAScannerMayPanicOrLeave(t *testing.T) {
	type row struct {
		Name string `db:"name"`
		N    leaver `db:"n"`
	}
	type inner struct {
		N *leaver `db:"n"`
	}
	type deep struct {
		Name string `db:"name"`
		*inner
	}
	const both, one = "SELECT name, n FROM numbers", "SELECT n FROM numbers"
	each := func(rx *db.Rx, scan func(*db.Row) error) error {
		for row, err := range rx.Query(both) {
			if err != nil {
				return err
			}
			if err := scan(row); err != nil {
				return err
			}
		}
		return nil
	}
	for name, read := range map[string]func(*db.Rx) error{
		"Get a column":      func(rx *db.Rx) error { return rx.Get(new(leaver), one) },
		"Get by a pointer":  func(rx *db.Rx) error { return rx.Get(new(*leaver), one) },
		"Get a struct":      func(rx *db.Rx) error { return rx.Get(new(row), both) },
		"Get a deep struct": func(rx *db.Rx) error { return rx.Get(&deep{inner: new(inner)}, both) },
		"Select columns":    func(rx *db.Rx) error { return rx.Select(new([]leaver), one) },
		"Select structs":    func(rx *db.Rx) error { return rx.Select(new([]*row), both) },
		"Scan": func(rx *db.Rx) error {
			return each(rx, func(r *db.Row) error { return r.Scan(new(string), new(leaver)) })
		},
		"ScanStruct": func(rx *db.Rx) error {
			return each(rx,
				func(r *db.Row) error { return r.ScanStruct(new(row)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := openNumbers(t, db.Options{Readers: 1})
			write(t, d, "INSERT INTO numbers (name, n) VALUES ('there', 0)")
			other := dbtest.OpenAt(t, d.Path(), db.Options{})
			for says, leave := range map[string]func(){"panic: oh": func() { panic("oh") }, "goexit": runtime.Goexit} {
				leaves = leave
				for range 2 { // with a statement that is new, and one that is kept
					if end := ending(func() error { return d.Read(t.Context(), "read", read) }); end != says {
						t.Errorf("the read ended with %q", end)
					}
					end := ending(func() error {
						return d.Write(t.Context(), "write",
							then(insert("undone", 1), func(tx *db.Tx) error { return read(&tx.Rx) }))
					})
					if end != says {
						t.Errorf("the write ended with %q", end)
					}
				}
			}
			if n := count(t, d, "name = 'undone'"); n != 0 {
				t.Errorf("%d rows are left of what panicked", n)
			}
			write(t, d, "INSERT INTO numbers (name, n) VALUES ('next', 1)")
			write(t, other, "INSERT INTO numbers (name, n) VALUES ('other', 2)")
		})
	}
}

// fickle is a driver.Valuer that panics when it is asked again.
type fickle struct{ asked *bool }

func (f fickle) Value() (driver.Value, error) {
	if *f.asked {
		panic("oh")
	}
	*f.asked = true
	return "", nil
}

func TestValuer_PanicLeavesNoConnectionBehind(t *testing.T) {
	path, d := openTable(t, numbers)
	end := ending(func() error {
		return d.Write(t.Context(), "write", func(tx *db.Tx) error {
			_, err := scanned(tx.Query("SELECT ?", fickle{new(bool)}))
			return err
		})
	})
	if end != "panic: oh" {
		t.Errorf("the write ended with %q", end)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := dbtest.Exists(path + "-wal"); left || err != nil {
		t.Errorf("the WAL is there after closing: %v, %v", left, err)
	}
}

// shout is a sql.Scanner.
type shout string

func (s *shout) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return errors.New("not a text")
	}
	*s = shout(strings.ToUpper(text))
	return nil
}

func TestAScannerGetsItsColumn(t *testing.T) {
	_, d := openTable(t, numbers)
	type row struct {
		A    shout            `db:"a"`
		N    int              `db:"n"`
		B    *shout           `db:"b"`
		None *shout           `db:"none"`
		Null sql.Null[string] `db:"blank"`
	}
	const query = "SELECT 'a' AS a, 7 AS n, 'b' AS b, NULL AS none, NULL AS blank"
	transactions(t, d, "scan", func(t *testing.T, rx *db.Rx) error {
		right := func(r row) {
			t.Helper()
			if r.A != "A" || r.N != 7 || r.B == nil || *r.B != "B" || r.None != nil || r.Null.Valid {
				t.Errorf("it is %+v", r)
			}
		}
		old := shout("old")
		got := row{None: &old, Null: sql.Null[string]{V: "old", Valid: true}}
		if err := rx.Get(&got, query); err != nil {
			return err
		}
		right(got)
		list := []row{{None: &old}}
		if err := rx.Select(&list, query+" UNION ALL "+query); err != nil || len(list) != 2 {
			t.Fatal(err, list)
		}
		right(list[0])
		right(list[1])
		var columns []*shout
		if err := rx.Select(&columns, "SELECT 'a' UNION ALL SELECT 'b'"); err != nil || len(columns) != 2 ||
			*columns[1] != "B" {
			t.Errorf("%v: %v", err, columns)
		}
		for scanned, err := range rx.Query(query) {
			if err != nil {
				return err
			}
			got := row{None: &old}
			if err := scanned.Scan(&got.A, &got.N, &got.B, &got.None, &got.Null); err != nil {
				return err
			}
			right(got)
		}
		if err := rx.Get(&got, "SELECT 'a' AS a, x'00' AS b"); err == nil ||
			!strings.Contains(err.Error(), `column 2, "b": not a text`) {
			t.Errorf("a Scanner's error is told as %v", err)
		}
		return nil
	})
}

type named string

type valuer struct{ of any }

func (v valuer) Value() (driver.Value, error) { return v.of, nil }

// The plain driver, through database/sql, is what arguments and destinations are compared with.
func TestValues_AreThoseOfThePlainDriver(t *testing.T) {
	_, d := openTable(t, numbers)
	plain, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close() //nolint:errcheck // it has nothing
	args := []any{
		nil, "", "a", "a\x00b", "\xff", "7", "1.5", "true", strings.Repeat("long ", 2000), named("of a name"),
		[]byte(nil),
		[]byte{},
		[]byte("bytes"), json.RawMessage(`{}`), 0, 1, -1, math.MaxInt64, math.MinInt64,
		uint32(7), uint64(1 << 63), int8(-7), true, false, 1.5, 2.0, math.Inf(1), math.NaN(), float32(0.5),
		new("pointed to"), (*string)(nil), new(int64(7)),
		valuer{nil},
		valuer{"text"},
		valuer{[]byte("bytes")},
		valuer{7},
		sql.NullString{},
		sql.NullInt64{Int64: 7, Valid: true},
		struct{}{},
		[]int{1},
	}
	types := []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[*string](), reflect.TypeFor[named](), reflect.TypeFor[*named](),
		reflect.TypeFor[[]byte](), reflect.TypeFor[json.RawMessage](),
		reflect.TypeFor[int](), reflect.TypeFor[*int](),
		reflect.TypeFor[int64](), reflect.TypeFor[*int64](), reflect.TypeFor[**int64](), reflect.TypeFor[uint32](),
		reflect.TypeFor[*uint32](), reflect.TypeFor[uint64](), reflect.TypeFor[int8](), reflect.TypeFor[float64](),
		reflect.TypeFor[*float64](), reflect.TypeFor[float32](), reflect.TypeFor[bool](), reflect.TypeFor[*bool](),
		reflect.TypeFor[time.Duration](), reflect.TypeFor[any](), reflect.TypeFor[sql.NullString](),
		reflect.TypeFor[[]int](),
	}
	read := func(tx *db.Tx) error {
		for _, arg := range args {
			const query = "SELECT typeof(?1) || ' ' || quote(?1)"
			var is, want string
			err, wrong := tx.Get(&is, query, arg), plain.QueryRow(query, arg).Scan(&want)
			if is != want || (err == nil) != (wrong == nil) {
				t.Errorf("%#v is %q, %v; by the driver %q, %v", arg, is, err, want, wrong)
			}
			if wrong != nil {
				continue
			}
			if _, err := tx.Exec("UPDATE numbers SET name = ?1 WHERE n < 0", arg); err != nil {
				t.Errorf("change to %#v: %v", arg, err)
			}
			for _, of := range types {
				got, list, want := reflect.New(of).Interface(), reflect.New(of).Interface(), reflect.New(of).Interface()
				err, wrong := tx.Get(got, "SELECT ?", arg), plain.QueryRow("SELECT ?", arg).Scan(want)
				for row, failed := range tx.Query("SELECT ?", arg) {
					if failed == nil {
						failed = row.Scan(list)
					}
					if (failed == nil) != (wrong == nil) {
						t.Errorf("%#v read into a %v in a loop: %v; by the driver %v", arg, of, failed, wrong)
					}
				}
				if (err == nil) != (wrong == nil) {
					t.Errorf("%#v read into a %v: %v; by the driver %v", arg, of, err, wrong)
				}
				if wrong == nil && (!reflect.DeepEqual(got, want) || !reflect.DeepEqual(list, want)) {
					t.Errorf("%#v read into a %v is %v, %v; by the driver %v", arg, of, reflect.ValueOf(got).Elem(),
						reflect.ValueOf(list).Elem(), reflect.ValueOf(want).Elem())
				}
			}
		}
		return nil
	}
	if err := d.Write(t.Context(), "compare", read); err != nil {
		t.Error(err)
	}
}

func TestQuery_BytesMayChangeInsideItsLoop(t *testing.T) {
	_, d := openTable(t, numbers)
	transactions(t, d, "scan", func(t *testing.T, rx *db.Rx) error {
		rows, argument := 0, []byte("a")
		const query = "SELECT value FROM json_each('[1, 2, 3]') WHERE substr(?1, min(value, 1)) = x'61'"
		for _, err := range rx.Query(query, argument) {
			if err != nil {
				return err
			}
			rows++
			argument[0] = 'b'
		}
		if rows != 3 {
			t.Errorf("%d rows", rows)
		}
		return nil
	})
}

func TestWhatCannotTakeARowIsRefused(t *testing.T) {
	_, d := openTable(t, numbers)
	transactions(t, d, "scan", func(t *testing.T, rx *db.Rx) error {
		for name, err := range map[string]error{
			"no pointer":             rx.Get(7, "SELECT 1"),
			"nil":                    rx.Get(nil, "SELECT 1"),
			"a nil pointer":          rx.Get((*bool)(nil), "SELECT 1"),
			"no slice":               rx.Select(new(int), "SELECT 1"),
			"two columns":            rx.Get(new(int), "SELECT 1, 2"),
			"a column without field": rx.Get(new(struct{ A int }), "SELECT 1 AS a, 2 AS b"),
			"bytes of the driver's":  rx.Get(new(sql.RawBytes), "SELECT 'x'"),
		} {
			if !errors.Is(err, db.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for row, err := range rx.Query("SELECT 'x'") {
			if err != nil {
				return err
			}
			if err := row.Scan((*any)(nil)); !errors.Is(err, db.ErrInvalid) {
				t.Errorf("a nil destination: %v", err)
			}
			var bytes sql.RawBytes // inside a loop they are there until the next row
			if err := row.Scan(&bytes); err != nil || string(bytes) != "x" {
				t.Errorf("%q: %v", bytes, err)
			}
		}
		return nil
	})
}
