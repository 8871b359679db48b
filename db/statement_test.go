package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

const byID = "SELECT n FROM numbers ORDER BY id"

// openCounted gives a file with the numbers from 0 to n-1, and one reading connection.
func openCounted(t *testing.T, n int) *db.DB {
	t.Helper()
	d := openNumbers(t, db.Options{Readers: 1})
	err := d.Write(t.Context(), "fill", func(tx *db.Tx) error {
		for i := range n {
			if err := insert("n", i)(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// transactions runs fn in a Read and in a Write.
func transactions(t *testing.T, d *db.DB, why string, fn func(t *testing.T, rx *db.Rx) error) {
	t.Helper()
	t.Run("read", func(t *testing.T) {
		if err := d.Read(t.Context(), why, func(rx *db.Rx) error { return fn(t, rx) }); err != nil {
			t.Error(err)
		}
	})
	t.Run("write", func(t *testing.T) {
		if err := d.Write(t.Context(), why, func(tx *db.Tx) error { return fn(t, &tx.Rx) }); err != nil {
			t.Error(err)
		}
	})
}

// scanned reads numbers from rows.
func scanned[R interface{ Scan(dest ...any) error }](rows iter.Seq2[R, error]) (all []int, err error) {
	for row, err := range rows {
		if err != nil {
			return all, err
		}
		var n int
		if err := row.Scan(&n); err != nil {
			return all, err
		}
		all = append(all, n)
	}
	return all, nil
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestStatement_ReusableInsideOwnLoop(t *testing.T) {
	d := openCounted(t, 10)
	transactions(t, d, "nested", func(t *testing.T, rx *db.Rx) error {
		var outer []int
		for row, err := range rx.Query(byID) {
			if err != nil {
				return err
			}
			var n int
			if err := row.Scan(&n); err != nil {
				return err
			}
			outer = append(outer, n)
			var inner []int
			if err := rx.Select(&inner, byID); err != nil || !slices.Equal(inner, upTo(10)) {
				t.Errorf("inside, at %d: %v, %v", n, inner, err)
			}
			if loop, err := scanned(rx.Query(byID)); err != nil || !slices.Equal(loop, upTo(10)) {
				t.Errorf("in a loop inside, at %d: %v, %v", n, loop, err)
			}
		}
		if !slices.Equal(outer, upTo(10)) {
			t.Errorf("outside: %v", outer)
		}
		return nil
	})
}

func TestATreeIsWalkedWithOneText(t *testing.T) {
	d := openCounted(t, 0)
	write(t, d, "CREATE TABLE tree (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL) STRICT")
	write(t, d, "INSERT INTO tree VALUES (1, 0), (2, 1), (3, 1), (4, 0), (5, 4), (6, 4), (7, 0), (8, 7), (9, 7)")
	transactions(t, d, "walk", func(t *testing.T, rx *db.Rx) error {
		var seen []int
		var walk func(parent int) error
		walk = func(parent int) error {
			for row, err := range rx.Query("SELECT id FROM tree WHERE parent = ? ORDER BY id", parent) {
				var id int
				if err == nil {
					err = row.Scan(&id)
				}
				if err != nil {
					return err
				}
				seen = append(seen, id)
				if err := walk(id); err != nil {
					return err
				}
			}
			return nil
		}
		err := walk(0)
		if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(seen, want) {
			t.Errorf("visited %v", seen)
		}
		return err
	})
}

func TestStatements_MoreThanCacheWithOpenRows(t *testing.T) {
	d := openCounted(t, 10)
	transactions(t, d, "many texts", func(t *testing.T, rx *db.Rx) error {
		var all []int
		for row, err := range rx.Query(byID) {
			var n int
			if err == nil {
				err = row.Scan(&n)
			}
			if err != nil {
				return err
			}
			all = append(all, n)
			for i := range 100 {
				var got int
				if err := rx.Get(&got, fmt.Sprintf("SELECT %d", 100*n+i)); err != nil || got != 100*n+i {
					t.Fatalf("%d, %v", got, err)
				}
			}
		}
		if !slices.Equal(all, upTo(10)) {
			t.Errorf("the rows are %v", all)
		}
		return nil
	})
}

// However a loop ends, the same text gives the next caller all its rows.
func TestALoopThatIsLeftHarmsNobody(t *testing.T) {
	d := openCounted(t, 10)
	for name, leave := range map[string]func(rx *db.Rx) error{
		"break": func(rx *db.Rx) error {
			for range rx.Query(byID) {
				break
			}
			return nil
		},
		"return": func(rx *db.Rx) error {
			for range rx.Query(byID) {
				return errors.New("no")
			}
			return nil
		},
		"panic": func(rx *db.Rx) error {
			for range rx.Query(byID) {
				panic("oh")
			}
			return nil
		},
		"rows that were never read": func(rx *db.Rx) error {
			_, err := rx.Store().QueryContext(context.Background(), byID)
			return err
		},
		"an iterator that was never ended": func(rx *db.Rx) error {
			next, _ := iter.Pull2(rx.Query(byID))
			_, _, _ = next()
			next, _ = iter.Pull2(rx.Query("SELECT id FROM numbers"))
			_, _, _ = next()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			_ = ending(func() error { return d.Read(context.Background(), "left", leave) })
			_ = ending(func() error {
				return d.Write(context.Background(), "left", func(tx *db.Tx) error { return leave(&tx.Rx) })
			})
			var all []int
			for range 2 {
				all = nil
				if err := d.Read(t.Context(), "next",
					func(rx *db.Rx) error { return rx.Select(&all, byID) }); err != nil || !slices.Equal(all, upTo(10)) {
					t.Errorf("the next reader got %v, %v", all, err)
				}
				err := d.Write(t.Context(), "next", func(tx *db.Tx) (err error) {
					all,
						err = scanned(tx.Query(byID))
					return err
				})
				if err != nil || !slices.Equal(all, upTo(10)) {
					t.Errorf("the next writer got %v, %v", all, err)
				}
			}
			// A reader that held on to its snapshot would not see this.
			write(t, d, "DELETE FROM numbers WHERE n = 9")
			if n := count(t, d, "true"); n != 9 {
				t.Errorf("a read sees %d rows after one of 10 went", n)
			}
			write(t, d, "INSERT INTO numbers (name, n) VALUES ('n', 9)")
		})
	}
}

func TestRowsThatAreLeftOpenAreReported(t *testing.T) {
	d := openCounted(t, 10)
	var stop func()
	forget := func(rx *db.Rx) error {
		var next func() (*db.Row, error, bool)
		next, stop = iter.Pull2(rx.Query(byID))
		_, err, _ := next()
		return err
	}
	err := d.Write(t.Context(), "forgetful",
		func(tx *db.Tx) error { return errors.Join(insert("no", 1)(tx), forget(&tx.Rx)) })
	stop()
	if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "forgetful") ||
		!strings.Contains(err.Error(), byID) {
		t.Errorf("a Write: %v", err)
	}
	if n := count(t, d, "name = 'no'"); n != 0 {
		t.Errorf("%d rows of the Write that failed are there", n)
	}
	err = d.Read(t.Context(), "forgetful", forget)
	stop()
	if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "forgetful") {
		t.Errorf("a Read: %v", err)
	}
}

func TestRowsLeftOpen_InterruptedMemoryStaysWritable(t *testing.T) {
	d := dbtest.OpenAt(t, ":memory:", db.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	_ = d.Read(ctx, "forgetful", func(rx *db.Rx) error {
		_, err := rx.Store().QueryContext(context.Background(), endless+"SELECT x FROM c")
		cancel()
		return errors.Join(err, rx.Get(new(int), endless+"SELECT count(*) FROM c")) // until it is interrupted
	})
	write(t, d, numbers)
}

const endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "

// A change that is interrupted takes its whole transaction with it, and nothing is done on its own
// afterwards.
func TestAnInterruptedChangeEndsTheTransaction(t *testing.T) {
	d := openNumbers(t, db.Options{})
	for name, read := range map[string]func(*txn.Rows){
		"whose rows are read": func(rows *txn.Rows) { _, _ = scanned(rows.All()) },
		"whose rows are left": func(*txn.Rows) {},
		"in a loop that was left": func(rows *txn.Rows) {
			for range rows.All() {
				break
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := d.Write(t.Context(), "interrupted", func(tx *db.Tx) error {
				if err := insert("before", 1)(tx); err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				rows, err := tx.Store().QueryContext(ctx, "INSERT INTO numbers (name, n) "+endless+
					"SELECT 'x', x FROM c RETURNING id")
				if err == nil {
					read(rows)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the query: %v", err)
				}
				if err := insert("after", 1)(tx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a statement after it: %v", err)
				}
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Write: %v", err)
			}
			if n := count(t, d, "true"); n != 0 {
				t.Errorf("%d rows are there", n)
			}
		})
	}
}

func TestAnInterruptedQueryLeavesTheTransaction(t *testing.T) {
	d := openNumbers(t, db.Options{})
	for _, query := range []string{
		endless + "SELECT x FROM c WHERE x < 0",
		"SELECT 1; " + endless + "SELECT x FROM c WHERE x < 0",
		"SELECT 1; " + endless + "SELECT x FROM c WHERE x < 2 OR x > 10000000 LIMIT 2",
	} {
		err := d.Write(t.Context(), "interrupted", func(tx *db.Tx) error {
			if err := insert("before", 1)(tx); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			rows, err := tx.Store().QueryContext(ctx, query)
			if err == nil {
				_, err = scanned(rows.All())
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", query, err)
			}
			return insert("after", 2)(tx)
		})
		if err != nil {
			t.Error(err)
		}
	}
	if n := count(t, d, "true"); n != 6 {
		t.Errorf("%d rows are there", n)
	}
}

var refused = []string{
	"BEGIN", "begin immediate", "COMMIT", "END", "end transaction", "ROLLBACK", "ROLLBACK TO caller",
	"SAVEPOINT mine", "RELEASE caller",
	"ATTACH ':memory:' AS other", "DETACH other", "VACUUM", "VACUUM INTO '/nowhere/copy'",
	"PRAGMA query_only=1", "PRAGMA synchronous=OFF", "PRAGMA foreign_keys(0)", "PRAGMA main.user_version = 7",
	"PRAGMA \"query_only\" = 1", "PRAGMA [main] . [synchronous] = 0", "PRAGMA`main`.`synchronous`=0",
	"PRAGMA incremental_vacuum",
	"PRAGMA wal_checkpoint", "PRAGMA optimize", "PRAGMA writable_schema=1", "PRAGMA busy_timeout=9",
	"-- nothing\nCOMMIT", "/* nothing */ COMMIT", "/**/COMMIT/**/", "\ufeffCOMMIT", " \t\r\n\f;;; COMMIT;",
	"--\n--\nPRAGMA/**/query_only/**/=/**/1",
	"SELECT 1; COMMIT", "SELECT ';'; COMMIT", "SELECT 'it''s'; COMMIT",
	"SELECT \";\" FROM (SELECT 1 AS \";\"); COMMIT", "SELECT 1 -- ;\n; COMMIT",
	"SELECT [;] FROM (SELECT 1 AS [;]);COMMIT",
	"EXPLAIN COMMIT", "EXPLAIN PRAGMA query_only=1", "explain query plan PRAGMA query_only=1",
	"CREATE TRIGGER changed AFTER INSERT ON numbers BEGIN SELECT CASE WHEN 1 THEN 2 END; END; COMMIT",
	"CREATE TRIGGER changed AFTER INSERT ON numbers BEGIN SELECT 1 END; END; PRAGMA query_only=1",
	"CREATE TEMP TABLE numbers (n)", "create temporary view numbers AS SELECT 1",
	"CREATE TABLE temp.numbers (n)", "CREATE TABLE IF NOT EXISTS \"temp\".numbers (n)",
	"CREATE TEMP TRIGGER t AFTER INSERT ON main.numbers BEGIN SELECT 1; END",
	"CREATE TRIGGER [Temp].t AFTER INSERT ON main.numbers BEGIN SELECT 1; END",
	"CREATE VIRTUAL TABLE `temp`.numbers USING fts5 (n)", "SELECT 1; CREATE TEMP TABLE numbers (n)",
	"EXPLAIN CREATE TEMP TABLE numbers (n)",
}

func TestATransactionIsNotAFunctionsToControl(t *testing.T) {
	d := openNumbers(t, db.Options{Readers: 1})
	for _, text := range refused {
		err := d.Write(t.Context(), "control", func(tx *db.Tx) error {
			if err := insert("before", 1)(tx); err != nil {
				return err
			}
			var got string
			_, execErr := tx.Exec(text)
			_, contextErr := tx.Store().QueryContext(t.Context(), text)
			_, loopErr := scanned(tx.Query(text))
			for call, err := range map[string]error{
				"Exec": execErr, "Get": tx.Get(&got, text), "Select": tx.Select(&[]string{}, text), "Query": loopErr,
				"QueryContext": contextErr,
			} {
				if !errors.Is(err, db.ErrInvalid) {
					t.Errorf("%s of %q: %v", call, text, err)
				}
			}
			return errors.New("undo")
		})
		if err == nil || !strings.Contains(err.Error(), "undo") {
			t.Errorf("after %q the transaction ended with %v", text, err)
		}
		err = d.Read(t.Context(), "control", func(rx *db.Rx) error { return rx.Select(&[]string{}, text) })
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("in a Read, %q: %v", text, err)
		}
	}
	if n := count(t, d, "true"); n != 0 {
		t.Errorf("%d rows of transactions that were undone are there", n)
	}
	write(t, d, "INSERT INTO numbers (name, n) VALUES ('the next caller writes', 1)")
	if level := d.WriterPragma(t, "synchronous"); level != "2" {
		t.Errorf("synchronous is %s", level)
	}
}

func TestWhatOnlyLooksLikeControlIsLetThrough(t *testing.T) {
	d := openNumbers(t, db.Options{})
	for _, text := range []string{
		"SELECT 'COMMIT'", "SELECT 1 AS \"commit\"", "SELECT 1 -- COMMIT", "SELECT 1; -- COMMIT",
		"SELECT /* ; COMMIT */ 1", "SELECT CASE WHEN 1 THEN 2 END",
		"PRAGMA page_size", "PRAGMA main.user_version", "PRAGMA table_info(numbers)",
		"PRAGMA index_list('numbers')", "PRAGMA journal_mode", "PRAGMA\nfreelist_count ; ",
		"EXPLAIN QUERY PLAN SELECT 1", "EXPLAIN SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a",
		"VALUES (1), (2)",
		"CREATE TRIGGER changed AFTER INSERT ON numbers BEGIN SELECT CASE WHEN 1 THEN 2 END; SELECT 1; END",
		"DROP TRIGGER changed; CREATE TABLE more (n); DROP TABLE more",
		"CREATE TABLE temporary_t (n); CREATE UNIQUE INDEX temps ON temporary_t (n); DROP TABLE temporary_t",
		"CREATE TABLE temp (n); DROP TABLE temp",
	} {
		if err := d.Write(t.Context(), "look",
			func(tx *db.Tx) error { _, err := tx.Exec(text); return err }); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

type stamp struct{ at time.Time }

func TestATimeIsNotAnArgument(t *testing.T) {
	d := openNumbers(t, db.Options{})
	now := time.Now()
	pointer := &now
	for _, arg := range []any{
		now, &now, &pointer,
		sql.NullTime{Time: now, Valid: true},
		&sql.NullTime{Time: now, Valid: true},
		sql.Null[time.Time]{V: now, Valid: true},
		sql.Named("at", now),
	} {
		transactions(t, d, "time", func(t *testing.T, rx *db.Rx) error {
			var got string
			err := rx.Get(&got, "SELECT ?1", arg)
			if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "db.Nanos") {
				t.Errorf("%T: %v, it gave %q", arg, err, got)
			}
			return nil
		})
	}
	transactions(t, d, "other arguments", func(t *testing.T, rx *db.Rx) error {
		for _, arg := range []any{
			nil, 1, int64(1), "x", []byte("x"), true, 1.5, pointerTo("x"), (*string)(nil),
			sql.NullString{},
			sql.NullTime{},
			(*sql.NullTime)(nil), uint8(1),
		} {
			var got any
			if err := rx.Get(&got, "SELECT ?", arg); err != nil {
				t.Errorf("%T: %v", arg, err)
			}
		}
		var got any
		if err := rx.Get(&got, "SELECT ?", stamp{now}); err == nil {
			t.Errorf("a struct was taken as %v", got)
		}
		return nil
	})
}

func pointerTo[T any](v T) *T { return &v }

func TestTheNumberOfArgumentsIsChecked(t *testing.T) {
	d := openNumbers(t, db.Options{})
	transactions(t, d, "arguments", func(t *testing.T, rx *db.Rx) error {
		for _, c := range []struct {
			text string
			args []any
			fits bool
		}{
			{"SELECT ?", []any{1}, true},
			{"SELECT ?", nil, false},
			{"SELECT ?", []any{1, 2}, false},
			{"SELECT ?2, ?1, ?2", []any{1, 2}, true},
			{"SELECT ?2, ?1, ?2", []any{1, 2, 3}, false},
			{"SELECT '?', \"?\" FROM (SELECT 1 AS \"?\") -- ?", nil, true},
			{"SELECT ?3, ?", []any{1, 2, 3, 4}, true},
			{"SELECT :a", []any{sql.Named("a", 1)}, true},
		} {
			for range 2 { // the second time it is prepared already
				rows, err := rx.Store().QueryContext(t.Context(), c.text, c.args...)
				if err == nil {
					_, err = rows.Columns()
				}
				var n int
				loop := 0
				for _, err := range rx.Query(c.text, c.args...) {
					if err == nil {
						loop++
					}
				}
				if (err == nil) != c.fits || (loop == 1) != c.fits {
					t.Errorf("%s with %v: %v, %d rows", c.text, c.args, err, loop)
				}
				if err != nil && !errors.Is(err, db.ErrInvalid) {
					t.Errorf("%s with %v: %v", c.text, c.args, err)
				}
				if rows != nil {
					for range rows.All() {
						n++
					}
				}
			}
		}
		return nil
	})
}

func TestReadEndsWithItsContext(t *testing.T) {
	for _, path := range []string{"file", ":memory:"} {
		t.Run(path, func(t *testing.T) {
			d := dbtest.OpenAt(t, map[string]string{"file": dbtest.Path(t), ":memory:": path}[path], db.Options{})
			write(t, d, numbers)
			ctx, cancel := context.WithCancelCause(t.Context())
			told := errors.New("enough")
			err := d.Read(ctx, "endless", func(rx *db.Rx) error {
				var n int
				if err := rx.Get(&n, "SELECT 1"); err != nil {
					return err
				}
				time.AfterFunc(20*time.Millisecond, func() { cancel(told) })
				if err := rx.Get(&n, endless+"SELECT count(*) FROM c"); !errors.Is(err, told) {
					t.Errorf("the statement: %v", err)
				}
				err := rx.Get(&n, "SELECT 1")
				if !errors.Is(err, told) {
					t.Errorf("the next one: %v", err)
				}
				return err
			})
			if !errors.Is(err, told) || errors.Is(err, db.ErrBusy) {
				t.Errorf("Read: %v", err)
			}
			// The connection is as good as before, for a read and for what it left.
			if n := count(t, d, "true"); n != 0 {
				t.Error(n)
			}
			write(t, d, "INSERT INTO numbers (name, n) VALUES ('x', 1)")
			if n := count(t, d, "true"); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

func TestCheckStatsAndBackupEndWithTheirContext(t *testing.T) {
	d := openNumbers(t, db.Options{})
	write(t, d, "INSERT INTO numbers (name, n) "+endless+"SELECT hex(randomblob(300)), x FROM c LIMIT 100000")
	for name, call := range map[string]func(context.Context) error{
		"Check":  func(ctx context.Context) error { _, err := d.Check(ctx); return err },
		"Stats":  func(ctx context.Context) error { _, err := d.Stats(ctx); return err },
		"Backup": func(ctx context.Context) error { return d.Backup(ctx, dbtest.Path(t)) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// A user who knows sql.Tx has goroutines share a transaction: each statement must get its own
// arguments and answer.
func TestGoroutinesMayShareATransaction(t *testing.T) {
	d := openCounted(t, 3)
	const goroutines, each = 4, 40
	share := func(rx *db.Rx, change func(n int) error) error {
		errs := make(chan error)
		for g := range goroutines {
			go func() {
				for i := range each {
					n := 1000*g + i
					if err := change(n); err != nil {
						errs <- err
						return
					}
					var got int
					err := rx.Get(&got, "SELECT ?", n)
					first, err2 := scanned(rx.Query("SELECT ? UNION ALL SELECT ?", n, n))
					if err := errors.Join(err, err2); err != nil || got != n || !slices.Equal(first, []int{n, n}) {
						errs <- fmt.Errorf("asked for %d and got %d and %v: %w", n, got, first, err)
						return
					}
				}
				errs <- nil
			}()
		}
		var err error
		for range goroutines {
			err = errors.Join(err, <-errs)
		}
		return err
	}
	if err := d.Read(t.Context(), "share",
		func(rx *db.Rx) error { return share(rx, func(int) error { return nil }) }); err != nil {
		t.Error(err)
	}
	err := d.Write(t.Context(), "share",
		func(tx *db.Tx) error { return share(&tx.Rx, func(n int) error { return insert("n", n)(tx) }) })
	if rows := count(t, d, "1"); err != nil || rows != 3+goroutines*each {
		t.Errorf("%v; %d rows", err, rows)
	}
}

// What a goroutine does with the transaction of a function that has returned is done in no
// transaction of anybody's.
func TestAGoroutineThatIsLeftBehindHarmsNobody(t *testing.T) {
	d := openCounted(t, 0)
	var behind sync.WaitGroup
	var done atomic.Int64
	for i := range 20 {
		err := d.Write(t.Context(), "leave behind", func(tx *db.Tx) error {
			begun := make(chan struct{})
			behind.Go(func() {
				for begun := sync.OnceFunc(func() { close(begun) }); ; {
					err := insert("n", 1000+i)(tx)
					begun()
					if err != nil {
						if _, owner := tx.Store().Owner(); !errors.Is(err, db.ErrInvalid) || !errors.Is(owner, db.ErrInvalid) {
							t.Errorf("an insert behind the function: %v; Owner: %v", err, owner)
						}
						return
					}
					done.Add(1)
				}
			})
			<-begun
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	behind.Wait()
	if rows := count(t, d, "1"); int64(rows) != done.Load() {
		t.Errorf("%d rows, and %d were said to be written", rows, done.Load())
	}
}

func TestScan_UnfitValueIsInvalid(t *testing.T) {
	_, d := openTable(t, numbers)
	transactions(t, d, "scan", func(t *testing.T, rx *db.Rx) error {
		for _, query := range []string{"SELECT NULL", "SELECT 'a'", "SELECT NULL UNION ALL SELECT 1"} {
			if err := rx.Get(new(int), query); !errors.Is(err, db.ErrInvalid) {
				t.Errorf("Get of %s: %v", query, err)
			}
			if err := rx.Select(new([]int), query); !errors.Is(err, db.ErrInvalid) {
				t.Errorf("Select of %s: %v", query, err)
			}
		}
		return nil
	})
}

func TestAMissingRowLeavesAStructZero(t *testing.T) {
	_, d := openTable(t, numbers)
	type row struct {
		Name *string `db:"name"`
		N    *int64  `db:"n"`
	}
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		for _, before := range []row{{}, {Name: new("x"), N: new(int64(7))}} {
			got := before
			found, err := rx.Find(&got, "SELECT name, n FROM numbers WHERE name = 'none'")
			if found || err != nil || got != (row{}) {
				t.Errorf("found %v, %v: %+v", found, err, got)
			}
		}
		n := 7
		if found, err := rx.Find(&n, "SELECT n FROM numbers WHERE name = 'none'"); found || err != nil || n != 7 {
			t.Errorf("found %v, %v: %d", found, err, n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCheck_UnreadableViewHidesNoRelation(t *testing.T) {
	d := openNumbers(t, db.Options{})
	for _, s := range []string{
		`CREATE TABLE gone (a TEXT) STRICT`, `CREATE VIEW of_gone AS SELECT a FROM gone`,
		`DROP TABLE gone`,
	} {
		write(t, d, s)
	}
	columns := map[string]int{}
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		relations, err := rx.Store().Relations()
		for _, r := range relations {
			columns[r.Name] = len(r.Columns)
		}
		return err
	})
	n, there := columns["of_gone"]
	if err != nil || !there || n != 0 || columns["numbers"] == 0 || columns["v_runs"] == 0 {
		t.Errorf("there are %v: %v", columns, err)
	}
}
