package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// openNumbers gives a file with a table to write into.
func openNumbers(t *testing.T, o db.Options) *db.DB {
	t.Helper()
	d := dbtest.Open(t, o)
	write(t, d, numbers)
	return d
}

const numbers = "CREATE TABLE numbers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, n INTEGER NOT NULL " +
	"CHECK (n >= 0)) STRICT"

func count(t *testing.T, d *db.DB, where string) int {
	t.Helper()
	var n int
	err := d.Read(context.Background(), "count", func(rx *db.Rx) error {
		return rx.Get(&n, "SELECT count(*) FROM numbers WHERE "+where)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// together makes the calls share one commit: the first is held in its function until all others
// wait behind it. It returns how each ended; a panic and a Goexit are told as texts.
func together(t *testing.T, d *db.DB, calls ...func(*db.Tx) error) []string {
	t.Helper()
	release, held := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Write(context.Background(), "hold",
			func(*db.Tx) error { close(held); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-held
	ends := make([]string, len(calls))
	for i, call := range calls {
		wg.Go(func() {
			ends[i] = ending(func() error { return d.Write(context.Background(), fmt.Sprint("call ", i), call) })
		})
		for d.Waiting() <= i {
			runtime.Gosched()
		}
	}
	close(release)
	wg.Wait()
	return ends
}

// ending runs fn on a goroutine of its own and says how it ended.
func ending(fn func() error) string {
	said := make(chan string, 1)
	go func() {
		text := "goexit"
		defer func() {
			if v := recover(); v != nil {
				text = fmt.Sprint("panic: ", strings.SplitN(fmt.Sprint(v), "\n", 2)[0])
			}
			said <- text
		}()
		err := fn()
		text = "nil"
		if err != nil {
			text = err.Error()
		}
	}()
	return <-said
}

func insert(name string, n int) func(*db.Tx) error {
	return func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO numbers (name, n) VALUES (?, ?)", name, n)
		return err
	}
}

// then runs fn, and after it end.
func then(fn func(*db.Tx) error, end func(*db.Tx) error) func(*db.Tx) error {
	return func(tx *db.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return end(tx)
	}
}

func TestOneCallersFailureLeavesTheOthersWhole(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*db.Tx) error
		says string
	}{
		{"an error", func(*db.Tx) error { return errors.New("no") }, "call 1: no"},
		{"a panic", func(*db.Tx) error { panic("oh") }, "panic: oh"},
		{"a Goexit", func(*db.Tx) error { runtime.Goexit(); return nil }, "goexit"},
		{"a violated constraint", insert("bad", -1), "CHECK constraint failed"},
		{"OR ROLLBACK", func(tx *db.Tx) error {
			_, err := tx.Exec("INSERT OR ROLLBACK INTO numbers (name, n) VALUES ('bad', -1)")
			return err
		}, "CHECK constraint failed"},
		{"OR ROLLBACK that is swallowed", func(tx *db.Tx) error {
			_, _ = tx.Exec("INSERT OR ROLLBACK INTO numbers (name, n) VALUES ('bad', -1)")
			_ = insert("leak", 1)(tx)
			return nil
		}, "SQLite ended the transaction"},
		{"a raw ROLLBACK", func(tx *db.Tx) error { _, err := tx.Exec("ROLLBACK"); return err }, ""},
		{"a nested Write", func(*db.Tx) error { return nil }, "nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openNumbers(t, db.Options{})
			ends := together(t, d, insert("first", 1), then(insert("middle", 2), c.end), insert("last", 3))
			if ends[0] != "nil" || ends[2] != "nil" {
				t.Errorf("the neighbours ended with %q and %q", ends[0], ends[2])
			}
			if !strings.Contains(ends[1], c.says) {
				t.Errorf("it ended with %q", ends[1])
			}
			if n := count(t, d, "name IN ('first', 'last')"); n != 2 {
				t.Errorf("%d rows of the neighbours are there", n)
			}
			want := 0
			if ends[1] == "nil" {
				want = 1
			}
			if n := count(t, d, "name NOT IN ('first', 'last')"); n != want {
				t.Errorf("%d of its rows are there, after %q", n, ends[1])
			}
			write(t, d, "INSERT INTO numbers (name, n) VALUES ('after', 1)")
		})
	}
}

func TestALoneCallersFailureIsUndone(t *testing.T) {
	d := openNumbers(t, db.Options{})
	for name, end := range map[string]func(*db.Tx) error{
		"error":  func(*db.Tx) error { return errors.New("no") },
		"panic":  func(*db.Tx) error { panic("oh") },
		"goexit": func(*db.Tx) error { runtime.Goexit(); return nil },
	} {
		if got := ending(func() error {
			return d.Write(context.Background(), "lone",
				then(insert(name, 1), end))
		}); got == "nil" {
			t.Errorf("%s: no error", name)
		}
	}
	if n := count(t, d, "true"); n != 0 {
		t.Errorf("%d rows are there", n)
	}
}

func TestAPanicKeepsItsValueAndStack(t *testing.T) {
	d := openNumbers(t, db.Options{})
	defer func() {
		p, ok := recover().(*db.Panic)
		if !ok || p.Value != "oh" || !strings.Contains(string(p.Stack), "TestAPanicKeepsItsValueAndStack") {
			t.Errorf("it panicked with %v", p)
		}
	}()
	_ = d.Write(context.Background(), "panic", func(*db.Tx) error { panic("oh") })
}

func TestAFullDiskFailsOnlyWhoCantBeServed(t *testing.T) {
	d := openNumbers(t, db.Options{})
	pages := d.WriterPragma(t, "page_count")
	d.WriterPragma(t, "max_page_count="+pages+"0") // ten times what there is
	large := insert(strings.Repeat("x", 8<<20), 1)
	ends := together(t, d, insert("first", 1), large, insert("last", 3))
	if ends[0] != "nil" || ends[2] != "nil" || !strings.Contains(ends[1], "disk full") {
		t.Errorf("they ended with %.100q", ends)
	}
	if n := count(t, d, "true"); n != 2 {
		t.Errorf("%d rows are there", n)
	}
	err := d.Write(t.Context(), "large", large)
	if !errors.Is(err, db.ErrFull) {
		t.Errorf("alone it ended with %v", err)
	}
	d.WriterPragma(t, "max_page_count=1000000")
	if err := d.Write(t.Context(), "large", large); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func describe(err error) string {
	switch {
	case errors.Is(err, db.ErrOutcomeUnknown):
		return "outcome unknown"
	case errors.Is(err, db.ErrFull):
		return "disk full"
	case errors.Is(err, db.ErrIO):
		return "input/output error"
	case err != nil:
		return err.Error()
	}
	return "nil"
}

func TestACommitThatTheDiskRefusesIsNotDone(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	write(t, d, numbers)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	p := dbtest.Start(t, "limited", path)
	p.Expect("disk full")
	p.Expect("nil")
	p.Wait()
	if n := count(t, dbtest.OpenAt(t, path, db.Options{}), "true"); n != 1 {
		t.Errorf("%d rows are there", n)
	}
}

func TestCallsFromInsideACallbackAreErrors(t *testing.T) {
	for _, path := range []string{"file", ":memory:"} {
		t.Run(path, func(t *testing.T) {
			d := dbtest.OpenAt(t, map[string]string{"file": dbtest.Path(t), ":memory:": path}[path], db.Options{})
			fresh := context.Background()
			inner := map[string]func() error{
				"Write": func() error { return d.Write(fresh, "inner", func(*db.Tx) error { return nil }) },
				"Read":  func() error { return d.Read(fresh, "inner", func(*db.Rx) error { return nil }) },
				"Close": d.Close,
			}
			for name, call := range inner {
				err := d.Write(fresh, "outer", func(*db.Tx) error { return call() })
				if !errors.Is(err, db.ErrInvalid) {
					t.Errorf("%s inside Write: %v", name, err)
				}
				err = d.Read(fresh, "outer", func(*db.Rx) error { return call() })
				if !errors.Is(err, db.ErrInvalid) {
					t.Errorf("%s inside Read: %v", name, err)
				}
			}
			err := d.Write(fresh, "outer", func(*db.Tx) error { return deep(200, inner["Write"]) })
			if !errors.Is(err, db.ErrInvalid) {
				t.Errorf("Write 200 calls deep inside Write: %v", err)
			}
		})
	}
}

// deep makes a call below n others.
func deep(n int, call func() error) error {
	if n == 0 {
		return call()
	}
	return deep(n-1, call)
}

func TestACallAfterACommitIsAnError(t *testing.T) {
	d := openNumbers(t, db.Options{})
	var inner error
	err := d.Write(t.Context(), "outer", func(tx *db.Tx) error {
		tx.AfterCommit(func() { inner = d.Write(context.Background(), "inner", insert("late", 1)) })
		return nil
	})
	if err != nil || !errors.Is(inner, db.ErrInvalid) {
		t.Errorf("the call ended with %v, the one after its commit with %v", err, inner)
	}
}

func TestACallbackMayUseAnotherFile(t *testing.T) {
	from, to := openNumbers(t, db.Options{}), openNumbers(t, db.Options{})
	write(t, from, "INSERT INTO numbers (name, n) VALUES ('one', 1)")
	copying := func(*db.Tx) error {
		return from.Read(t.Context(), "copy", func(rx *db.Rx) error {
			return rx.Get(new(int64), "SELECT n FROM numbers")
		})
	}
	var wg sync.WaitGroup
	for range 4 { // others' callbacks are running in both files meanwhile
		wg.Go(func() {
			for range 50 {
				if err := to.Write(t.Context(), "copy", copying); err != nil {
					t.Errorf("a Read of another file inside Write: %v", err)
				}
				if err := from.Read(t.Context(), "look", func(*db.Rx) error {
					return to.Read(t.Context(), "look", func(*db.Rx) error { return nil })
				}); err != nil {
					t.Errorf("a Read of another file inside Read: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestALoneCallerLeavesWhenItsContextEnds(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	write(t, d, numbers)
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("INSERT INTO numbers (name, n) VALUES ('other', 1)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err = d.Write(ctx, "wait", insert("late", 1))
	if !errors.Is(err, db.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another program writes: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO numbers (name, n) VALUES ('after', 1)")
	if n := count(t, d, "true"); n != 2 {
		t.Errorf("%d rows are there", n)
	}
}

func TestATransactionIsOverWhenItsFunctionReturns(t *testing.T) {
	d := openNumbers(t, db.Options{})
	var kept *db.Tx
	if err := d.Write(t.Context(), "keep", func(tx *db.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := insert("late", 1)(kept); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a late Exec: %v", err)
	}
	if n := count(t, d, "true"); n != 0 {
		t.Errorf("%d rows are there", n)
	}
}

func TestACallerMayLeaveTheQueue(t *testing.T) {
	d := openNumbers(t, db.Options{})
	held, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- d.Write(context.Background(), "hold", func(*db.Tx) error { close(held); <-release; return nil })
	}()
	<-held
	ctx, leave := context.WithCancelCause(context.Background())
	second := make(chan error, 1)
	go func() { second <- d.Write(ctx, "leave", insert("left", 1)) }()
	for d.Waiting() == 0 {
		runtime.Gosched()
	}
	cause := errors.New("had enough")
	leave(cause)
	err := <-second
	if !errors.Is(err, db.ErrBusy) || !errors.Is(err, cause) {
		t.Errorf("it left with %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if n := count(t, d, "true"); n != 0 {
		t.Errorf("%d rows of a caller who left are there", n)
	}
}

func TestAFunctionThatHasBegunIsNotInterrupted(t *testing.T) {
	d := openNumbers(t, db.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	err := d.Write(ctx, "begun", func(tx *db.Tx) error {
		cancel()
		return insert("kept", 1)(tx)
	})
	if err != nil {
		t.Error(err)
	}
	if n := count(t, d, "true"); n != 1 {
		t.Errorf("%d rows are there", n)
	}
	if err := d.Write(ctx, "ended", insert("no", 1)); errors.Is(err, db.ErrBusy) ||
		!errors.Is(err, context.Canceled) || db.Hint(err) != "" {
		t.Errorf("with a context that has ended, and nobody in the way: %v (%s)", err, db.Hint(err))
	}
}

func TestCloseFinishesWhatItTook(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, numbers)
	held, release := make(chan struct{}), make(chan struct{})
	ends := make(chan error, 21)
	go func() {
		ends <- d.Write(context.Background(), "hold", func(*db.Tx) error { close(held); <-release; return nil })
	}()
	<-held
	for i := range 20 {
		go func() { ends <- d.Write(context.Background(), "taken", insert("taken", i)) }()
	}
	for d.Waiting() < 20 {
		runtime.Gosched()
	}
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	for !d.Closing() {
		runtime.Gosched()
	}
	late := d.Write(t.Context(), "late", insert("late", 1))
	close(release)
	for range 21 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"a late Write": late,
		"Write":        d.Write(t.Context(), "w", insert("late", 1)),
		"Read":         d.Read(t.Context(), "r", func(*db.Rx) error { return nil }),
	} {
		if !errors.Is(err, db.ErrClosed) {
			t.Errorf("%s on a closed handle: %v", what, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if n := count(t, dbtest.OpenAt(t, path, db.Options{}), "name = 'taken'"); n != 20 {
		t.Errorf("%d of 20 rows are there", n)
	}
}

func TestSavepointUndoesItsOwnPart(t *testing.T) {
	d := openNumbers(t, db.Options{})
	no := errors.New("no")
	var hooks []string
	err := d.Write(t.Context(), "outer", func(tx *db.Tx) error {
		if err := insert("before", 1)(tx); err != nil {
			return err
		}
		tx.AfterCommit(func() { hooks = append(hooks, "before") })
		err := tx.Savepoint(func() error {
			tx.AfterCommit(func() { hooks = append(hooks, "undone") })
			if err := insert("undone", 1)(tx); err != nil {
				return err
			}
			if err := tx.Savepoint(func() error { return insert("inner", 1)(tx) }); err != nil {
				return err
			}
			return no
		})
		if !errors.Is(err, no) {
			t.Errorf("the savepoint ended with %v", err)
		}
		return insert("after", 1)(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, d, "name IN ('before', 'after')"); n != 2 || count(t, d, "true") != 2 {
		t.Errorf("%d of 2 rows, %d in all", n, count(t, d, "true"))
	}
	if fmt.Sprint(hooks) != "[before]" {
		t.Errorf("after the commit ran %v", hooks)
	}
}

// What a goroutine does with a savepoint after its transaction has ended is done to nobody's savepoint.
func TestASavepointThatIsLeftBehindHarmsNobody(t *testing.T) {
	for name, result := range map[string]error{"released": nil, "undone": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			d := openNumbers(t, db.Options{})
			opened, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			err := d.Write(t.Context(), "leave behind", func(tx *db.Tx) error {
				go func() {
					ended <- tx.Savepoint(func() error {
						err := insert("half", 1)(tx)
						close(opened)
						<-release
						return errors.Join(err, result)
					})
				}()
				<-opened
				return nil
			})
			if !errors.Is(err, db.ErrInvalid) {
				t.Errorf("a function that left a savepoint open ended with %v", err)
			}
			no := errors.New("no")
			must(t, d.Write(t.Context(), "next", func(tx *db.Tx) error {
				must(t, insert("kept", 1)(tx))
				err := tx.Savepoint(func() error {
					must(t, insert("undone", 1)(tx))
					close(release)
					if err := <-ended; !errors.Is(err, db.ErrInvalid) {
						t.Errorf("the savepoint of an ended transaction ended with %v", err)
					}
					return no
				})
				if !errors.Is(err, no) || strings.Contains(err.Error(), "savepoint") {
					t.Errorf("the savepoint ended with %v", err)
				}
				return nil
			}))
			if n := count(t, d, "name = 'kept'"); n != 1 || count(t, d, "true") != 1 {
				t.Errorf("%d of 1 rows, %d in all", n, count(t, d, "true"))
			}
		})
	}
}

// One that ends takes those with it that were opened since, whosever they are.
func TestSavepointsOfGoroutinesThatOverlapUndoTheTransaction(t *testing.T) {
	d := openNumbers(t, db.Options{})
	err := d.Write(t.Context(), "overlap", func(tx *db.Tx) error {
		first, second := make(chan struct{}), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- tx.Savepoint(func() error { close(first); <-second; return insert("first", 1)(tx) })
		}()
		<-first
		_ = tx.Savepoint(func() error {
			must(t, insert("second", 1)(tx))
			close(second)
			if err := <-ended; !errors.Is(err, db.ErrInvalid) {
				t.Errorf("the savepoint around another goroutine's ended with %v", err)
			}
			return errors.New("no")
		})
		return nil
	})
	if !errors.Is(err, db.ErrInvalid) || count(t, d, "true") != 0 {
		t.Errorf("it ended with %v; %d rows", err, count(t, d, "true"))
	}
}

// A goroutine of the first run has nothing to do with the second.
func TestAGoroutineOfAnEarlierRunHarmsNobody(t *testing.T) {
	d := openNumbers(t, db.Options{})
	runs, release, wrote := 0, make(chan struct{}), make(chan error, 1)
	ends := together(t, d, func(tx *db.Tx) error {
		if runs++; runs == 1 {
			go func() {
				<-release
				wrote <- insert("stray", 1)(tx)
			}()
			return insert("run", 1)(tx)
		}
		close(release)
		if err := <-wrote; !errors.Is(err, db.ErrInvalid) {
			t.Errorf("a goroutine of the first run wrote into the second: %v", err)
		}
		return insert("run", 1)(tx)
	}, func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT OR ROLLBACK INTO numbers (name, n) VALUES ('bad', -1)")
		return err
	})
	if runs != 2 || ends[0] != "nil" {
		t.Errorf("%d runs; it ended with %q", runs, ends[0])
	}
	if n := count(t, d, "name = 'run'"); n != 1 || count(t, d, "true") != 1 {
		t.Errorf("%d of 1 rows, %d in all", n, count(t, d, "true"))
	}
}

// Who catches what its function panicked with goes on without what the function did.
func TestASavepointThatPanicsIsUndone(t *testing.T) {
	d := openNumbers(t, db.Options{})
	must(t, d.Write(t.Context(), "catch", func(tx *db.Tx) error {
		func() {
			defer func() { _ = recover() }()
			_ = tx.Savepoint(func() error { must(t, insert("undone", 1)(tx)); panic("oh") })
		}()
		return tx.Savepoint(func() error { return insert("kept", 1)(tx) })
	}))
	if n := count(t, d, "name = 'kept'"); n != 1 || count(t, d, "true") != 1 {
		t.Errorf("%d of 1 rows, %d in all", n, count(t, d, "true"))
	}
}

func TestAfterCommitRunsOnlyThen(t *testing.T) {
	d := openNumbers(t, db.Options{})
	ran := false
	hook := func(tx *db.Tx) error { tx.AfterCommit(func() { ran = true }); return nil }
	_ = d.Write(t.Context(), "fails", then(hook, func(*db.Tx) error { return errors.New("no") }))
	if ran {
		t.Error("it ran though nothing was committed")
	}
	if err := d.Write(t.Context(), "works", hook); err != nil || !ran {
		t.Errorf("it ran: %v, %v", ran, err)
	}
}

func TestOneTransactionHasOneTime(t *testing.T) {
	clock := dbtest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)))
	d := dbtest.Open(t, db.Options{Now: clock.Now})
	err := d.Write(t.Context(), "time", func(tx *db.Tx) error {
		first := tx.Now()
		clock.Advance(time.Hour)
		if second := tx.Now(); !first.Equal(second) || first.Location() != time.UTC {
			t.Errorf("%v and then %v", first, second)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestObserveSeesEveryTransaction(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	d := openNumbers(t, db.Options{Observe: func(o db.Observation) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(o.Why, " ", o.Write, " ", o.Err != nil, " ", o.Run >= 0 && o.Wait >= 0))
	}})
	_ = d.Write(t.Context(), "fails", func(*db.Tx) error { return errors.New("no") })
	_ = count(t, d, "true")
	if got, want := fmt.Sprint(seen), "[test true false true fails true true true count false "+
		"false true]"; got != want {
		t.Errorf("seen: %s", got)
	}
}

func TestAWriteThatWaitsForNothingIsShared(t *testing.T) {
	d := openNumbers(t, db.Options{})
	calls := make([]func(*db.Tx) error, 2*db.MaxGroup)
	for i := range calls {
		calls[i] = insert("many", i)
	}
	for _, end := range together(t, d, calls...) {
		if end != "nil" {
			t.Fatal(end)
		}
	}
	if n := count(t, d, "name = 'many'"); n != len(calls) {
		t.Errorf("%d of %d rows", n, len(calls))
	}
}

func TestWrite_LastOfGroupFailsAlone(t *testing.T) {
	d := openNumbers(t, db.Options{})
	ends := together(t, d, insert("kept", 1), insert("kept", 2), func(tx *db.Tx) error {
		return errors.Join(insert("undone", 3)(tx), errors.New("no"))
	})
	if want := []string{"nil", "nil", "call 2: no"}; !slices.Equal(ends, want) {
		t.Errorf("they ended with %q, not %q", ends, want)
	}
	if kept, undone := count(t, d, "name = 'kept'"), count(t, d, "name = 'undone'"); kept != 2 || undone != 0 {
		t.Errorf("%d are kept, and %d of the one that failed", kept, undone)
	}
}

func TestAReadOnlyHandleCantWrite(t *testing.T) {
	path := dbtest.Path(t)
	dbtest.OpenAt(t, path, db.Options{})
	d := dbtest.OpenAt(t, path, db.Options{ReadOnly: true})
	if err := d.Write(t.Context(), "w", func(*db.Tx) error { return nil }); !errors.Is(err, db.ErrInvalid) ||
		db.Hint(err) == "" {
		t.Errorf("Write: %v", err)
	}
	err := d.Read(t.Context(), "r", func(rx *db.Rx) error {
		return rx.Get(new(int), "INSERT INTO scopes (name) VALUES ('x') RETURNING id")
	})
	if err == nil {
		t.Error("a read wrote")
	}
}
