package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// What a function of AfterCommit does wrong is its caller's alone, and the commit stays.
func TestAfterCommitHarmsItsOwnCallerAlone(t *testing.T) {
	for name, c := range map[string]struct {
		hook func()
		says string
	}{
		"a panic":  {func() { panic("oh") }, "panic: oh"},
		"a Goexit": {runtime.Goexit, "goexit"},
	} {
		ran := make(chan bool, 2)
		call := then(insert("hooked", 1), func(tx *db.Tx) error {
			tx.AfterCommit(c.hook)
			tx.AfterCommit(func() { ran <- true })
			return nil
		})
		t.Run(name+" in a group", func(t *testing.T) {
			d := openNumbers(t, db.Options{})
			ends := together(t, d, insert("before", 0), call, insert("after", 2))
			if ends[0] != "nil" || ends[1] != c.says || ends[2] != "nil" {
				t.Errorf("they ended with %q", ends)
			}
			<-ran
			if n := count(t, d, "true"); n != 3 {
				t.Errorf("%d rows are there", n)
			}
			write(t, d, "INSERT INTO numbers (name, n) VALUES ('next', 3)")
		})
		t.Run(name+" alone", func(t *testing.T) {
			d := openNumbers(t, db.Options{})
			if end := ending(func() error { return d.Write(context.Background(), "alone", call) }); end != c.says {
				t.Errorf("it ended with %q", end)
			}
			<-ran
			if n := count(t, d, "true"); n != 1 {
				t.Errorf("%d rows are there", n)
			}
			write(t, d, "INSERT INTO numbers (name, n) VALUES ('next', 3)")
		})
	}
}

func TestAPanicAfterTheCommitSaysSo(t *testing.T) {
	d := openNumbers(t, db.Options{})
	for _, after := range []bool{true, false} {
		func() {
			defer func() {
				if p, ok := recover().(*db.Panic); !ok || p.Committed != after {
					t.Errorf("it panicked with %+v", p)
				}
			}()
			_ = d.Write(t.Context(), "panic", func(tx *db.Tx) error {
				tx.AfterCommit(func() { panic("oh") })
				if !after {
					panic("oh")
				}
				return nil
			})
		}()
	}
}

func TestAClockThatPanicsHarmsItsOwnCallerAlone(t *testing.T) {
	var broken sync.Map
	d := openNumbers(t, db.Options{Now: func() time.Time {
		if _, b := broken.LoadAndDelete("now"); b {
			panic("no time")
		}
		return time.Now()
	}})
	for _, call := range []func() error{
		func() error { return d.Write(context.Background(), "w", insert("no", 1)) },
		func() error { return d.Read(context.Background(), "r", func(*db.Rx) error { return nil }) },
	} {
		broken.Store("now", true)
		if end := ending(call); end != "panic: no time" {
			t.Errorf("it ended with %q", end)
		}
	}
	var first sync.Once // whoever it is, the next one's clock panics
	call := then(insert("one of four", 1),
		func(*db.Tx) error { first.Do(func() { broken.Store("now", true) }); return nil })
	ends := together(t, d, call, call, call, call)
	slices.Sort(ends)
	if fmt.Sprint(ends) != "[nil nil nil panic: no time]" {
		t.Errorf("they ended with %q", ends)
	}
	if n := count(t, d, "true"); n != 3 {
		t.Errorf("%d rows are there", n)
	}
}

func TestObserveHearsHowEveryCallEnded(t *testing.T) {
	heard := make(chan string, 100)
	d := openNumbers(t, db.Options{Readers: 1, Observe: func(o db.Observation) {
		text := fmt.Sprint(o.Why, ": ", o.Err)
		if p, ok := errors.AsType[*db.Panic](o.Err); ok {
			text = fmt.Sprint(o.Why, ": panic ", p.Value)
		}
		if o.Wait < 0 || o.Run < 0 {
			text += fmt.Sprint(" after ", o.Wait, o.Run)
		}
		heard <- text
	}})
	for range len(heard) {
		<-heard
	}
	ctx := context.Background()
	held, release := make(chan struct{}), make(chan struct{})
	hold := func() { close(held); <-release }
	expect := func(want string) {
		t.Helper()
		if got := <-heard; !strings.Contains(got, want) {
			t.Errorf("it heard %q, not %q", got, want)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.Write(ctx, "holds", func(*db.Tx) error { hold(); return nil }) })
	<-held
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_ = d.Write(short, "timed out", insert("no", 1))
	expect("timed out: timed out: busy: waiting for the writer: context deadline exceeded")
	close(release)
	wg.Wait()
	expect("holds: <nil>")
	for _, kind := range []string{"Write", "Read"} {
		do := func(why string, fn func()) {
			ending(func() error {
				if kind == "Write" {
					return d.Write(ctx, why, func(*db.Tx) error { fn(); return nil })
				}
				return d.Read(ctx, why, func(*db.Rx) error { fn(); return nil })
			})
		}
		do("panics", func() { panic("oh") })
		expect("panics: panic oh")
		do("leaves", runtime.Goexit)
		expect("leaves: the function left by runtime.Goexit")
	}
	together(t, d, insert("one", 1), func(*db.Tx) error { runtime.Goexit(); return nil })
	all := []string{<-heard, <-heard, <-heard}
	slices.Sort(all)
	if got := strings.Join(all, "; "); got != "call 0: <nil>; call 1: the function left by runtime.Goexit; "+
		"hold: <nil>" {
		t.Errorf("of a group it heard %q", got)
	}
}

// A callback's own trouble with another file is no reason to run it again.
func TestReadRunsItsFunctionOnce(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.db")
	locks, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close() //nolint:errcheck // a lock file
	locks.SetMaxOpenConns(1)
	if _, err := locks.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	waits, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close() //nolint:errcheck // nothing is written
	d := openNumbers(t, db.Options{})
	runs := 0
	err = d.Read(t.Context(), "copy", func(*db.Rx) error {
		if runs++; runs > 5 {
			return errors.New("again and again")
		}
		_, err := waits.Exec("CREATE TABLE x (y)")
		return err
	})
	if runs != 1 || err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("it ran %d times and ended with %v", runs, err)
	}
}

func TestACallbackMayUseAnyOtherFile(t *testing.T) {
	var files []*db.DB
	for range 18 {
		d, err := db.Open(t.Context(), ":memory:", db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close() //nolint:errcheck // a writer to memory
		files = append(files, d)
	}
	ctx := context.Background()
	last := files[17]
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = files[16].Read(ctx, "hold", func(*db.Rx) error { close(held); <-release; return nil }) })
	<-held
	for i, d := range files[:16] {
		err := d.Read(ctx, "outer", func(*db.Rx) error {
			return last.Read(ctx, "inner", func(*db.Rx) error {
				if err := d.Read(ctx, "own", func(*db.Rx) error { return nil }); !errors.Is(err, db.ErrInvalid) {
					t.Errorf("a call of file %d from inside its own callback: %v", i, err)
				}
				return nil
			})
		})
		if err != nil {
			t.Errorf("from a callback of file %d: %v", i, err)
		}
	}
	close(release)
	wg.Wait()
}

func TestReadersAreAsManyAsWereAskedFor(t *testing.T) {
	d := openNumbers(t, db.Options{Readers: 8})
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	inside, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_ = d.Read(context.Background(), "read",
				func(*db.Rx) error { inside <- struct{}{}; <-release; return nil })
		})
	}
	for range 8 {
		<-inside
	}
	close(release)
	wg.Wait()
}

func TestShutdownWaitsNoLongerThanItsContext(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, numbers)
	ctx, cancel := context.WithCancel(t.Context())
	release, began, ends := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		ends <- d.Read(context.Background(), "count for ever", func(rx *db.Rx) error {
			began <- struct{}{}
			var n int
			return rx.Get(&n, endless+"SELECT count(*) FROM c")
		})
	}()
	go func() {
		ends <- d.Write(context.Background(), "write slowly", func(tx *db.Tx) error {
			began <- struct{}{}
			<-release
			return insert("kept", 1)(tx)
		})
	}()
	<-began
	<-began
	stop := errors.New("the machine goes down")
	ctx, end := context.WithTimeoutCause(ctx, 20*time.Millisecond, stop)
	defer end()
	err = d.Shutdown(ctx)
	if !errors.Is(err, stop) || !errors.Is(err, db.ErrBusy) ||
		!strings.Contains(err.Error(), "count for ever") || !strings.Contains(err.Error(), "write slowly") {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-ends; !errors.Is(err, db.ErrClosed) { // the read was interrupted; the write goes on
		t.Errorf("the read: %v", err)
	}
	close(release)
	if err := <-ends; err != nil {
		t.Errorf("the write: %v", err)
	}
	if err := d.Shutdown(t.Context()); err != nil {
		t.Errorf("the second Shutdown: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("Close after it: %v", err)
	}
	if err := d.Read(t.Context(), "late", func(*db.Rx) error { return nil }); !errors.Is(err, db.ErrClosed) {
		t.Errorf("a Read after it: %v", err)
	}
	cancel()
}

// Another program holds the file alone: PRAGMA locking_mode=EXCLUSIVE keeps every lock after the first write.
func TestOpenEndsWithItsContextBehindAnotherProgram(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	write(t, d, numbers)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	p := exec.Command("sqlite3", path)
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Wait() }()
	defer in.Close() //nolint:errcheck // closing it ends the process
	if _, err := fmt.Fprintln(in, "PRAGMA locking_mode=EXCLUSIVE; INSERT INTO numbers (name, n) VALUES ('x', "+
		"1); SELECT 'held';"); err != nil {
		t.Fatal(err)
	}
	said := ""
	for buffer := make([]byte, 100); !strings.Contains(said, "held"); {
		n, err := out.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		said += string(buffer[:n])
	}
	for name, c := range map[string]struct {
		timeout time.Duration
		options db.Options
		cause   error
	}{
		"its context":      {200 * time.Millisecond, db.Options{}, context.DeadlineExceeded},
		"its lock timeout": {time.Minute, db.Options{LockTimeout: 200 * time.Millisecond}, nil},
		"read-only":        {200 * time.Millisecond, db.Options{ReadOnly: true}, context.DeadlineExceeded},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
		began := time.Now()
		_, err := db.Open(ctx, path, c.options)
		if !errors.Is(err, db.ErrBusy) || db.Hint(err) == "" || c.cause != nil && !errors.Is(err, c.cause) {
			t.Errorf("%s: %v (%s)", name, err, db.Hint(err))
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
		cancel()
	}
}
