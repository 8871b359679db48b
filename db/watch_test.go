package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func watch(t *testing.T, d *db.DB) <-chan struct{} {
	t.Helper()
	changes, err := d.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// awaitRows reads after each change, and only then, until there are n rows.
func awaitRows(t *testing.T, d *db.DB, changes <-chan struct{}, n int) {
	t.Helper()
	patience := time.NewTimer(20 * time.Second)
	defer patience.Stop()
	for {
		select {
		case <-changes:
		case <-patience.C:
			t.Fatalf("nothing told of a change; there are %d rows of %d", count(t, d, "true"), n)
		}
		if count(t, d, "true") >= n {
			return
		}
	}
}

func TestACommitOfThisProcessIsTold(t *testing.T) {
	for _, path := range []string{":memory:", dbtest.Path(t)} {
		d := dbtest.OpenAt(t, path, db.Options{})
		write(t, d, numbers)
		first, second := watch(t, d), watch(t, d)
		for i := range 20 {
			write(t, d, "INSERT INTO numbers (name, n) VALUES ('x', ?)", i)
			awaitRows(t, d, first, i+1)
			awaitRows(t, d, second, i+1)
		}
	}
}

func TestWhatIsUndoneIsNotTold(t *testing.T) {
	d := dbtest.OpenAt(t, ":memory:", db.Options{})
	changes := watch(t, d)
	if err := d.Write(t.Context(), "fail", func(*db.Tx) error { return errors.New("no") }); err == nil {
		t.Fatal("it was committed")
	}
	select {
	case <-changes:
		t.Error("a change was told")
	default:
	}
}

func TestCommitsOfAnotherProcessAreTold(t *testing.T) {
	for name, before := range map[string]func(testing.TB){
		"where the system tells of writes": func(testing.TB) {},
		"where it does not":                db.WithoutWriteNotices,
	} {
		t.Run(name, func(t *testing.T) {
			before(t)
			path, d := openTable(t, numbers)
			p := dbtest.Start(t, "stepper", path, "other")
			changes := watch(t, d)
			for i := range 50 {
				p.Send("go on")
				p.Expect(fmt.Sprint(i))
				awaitRows(t, d, changes, i+1)
			}
			p.Wait()
		})
	}
}

func TestCommitsOfManyProcessesAreAllTold(t *testing.T) {
	const processes, each = 3, 150
	path, d := openTable(t, numbers)
	changes := watch(t, d)
	all := make([]*dbtest.Process, processes)
	for i := range all {
		all[i] = dbtest.Start(t, "appender", path, fmt.Sprint("p", i), fmt.Sprint(each))
	}
	awaitRows(t, d, changes, processes*each)
	for _, p := range all {
		p.Wait()
	}
}

func TestAProgramThatIsNotOursIsToldToo(t *testing.T) {
	path, d := openTable(t, numbers)
	changes := watch(t, d)
	if err := foreignWrites(path, 3); err != nil {
		t.Fatal(err)
	}
	awaitRows(t, d, changes, 3)
}

func TestWatch_EndsWithContextAndFile(t *testing.T) {
	for _, path := range []string{":memory:", dbtest.Path(t)} {
		d, err := db.Open(t.Context(), path, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		short, err := d.Changes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		long := watch(t, d)
		cancel()
		awaitClosed(t, short)
		if _, err := d.Changes(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		awaitClosed(t, long)
		if _, err := d.Changes(t.Context()); !errors.Is(err, db.ErrClosed) {
			t.Errorf("of a closed file: %v", err)
		}
	}
}

func TestWatch_EndsWhenFileIsReplaced(t *testing.T) {
	path, d := openTable(t)
	changes := watch(t, d)
	if err := os.Rename(path, path+"-away"); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, changes)
	if _, err := d.Changes(t.Context()); !errors.Is(err, db.ErrReplaced) {
		t.Errorf("a later watch: %v", err)
	}
	if err := os.Rename(path+"-away", path); err != nil {
		t.Fatal(err)
	}
}

func awaitClosed(t *testing.T, changes <-chan struct{}) {
	t.Helper()
	patience := time.After(10 * time.Second)
	for {
		select {
		case _, open := <-changes:
			if !open {
				return
			}
		case <-patience:
			t.Fatal("the channel stays open")
		}
	}
}

func TestACallFromInsideACallbackCannotWatch(t *testing.T) {
	_, d := openTable(t)
	err := d.Read(t.Context(), "read", func(*db.Rx) error {
		_, err := d.Changes(t.Context())
		return err
	})
	if !errors.Is(err, db.ErrInvalid) {
		t.Errorf("the error is %v", err)
	}
}

func TestCloseWaitsForAWatchThatIsJustEnding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	for range 40 {
		d, err := db.Open(t.Context(), path, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := d.Changes(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if there, err := dbtest.Exists(path + "-wal"); there || err != nil { // the last connection removes it
			t.Fatalf("a connection outlived its handle (%v)", err)
		}
	}
}
