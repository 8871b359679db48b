package db_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// half fills a table with rows of 1 KB and deletes every other one.
func half(t *testing.T, d *db.DB) {
	t.Helper()
	err := d.Write(t.Context(), "fill", func(tx *db.Tx) error {
		for i := range 2000 {
			if _, err := tx.Exec("INSERT INTO numbers (name, n) VALUES (?, ?)", strings.Repeat("x", 1000),
				i); err != nil {
				return err
			}
		}
		_, err := tx.Exec("DELETE FROM numbers WHERE n < 1000 OR n % 2 = 0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sizes(t *testing.T, path string) (size int64) {
	t.Helper()
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err == nil {
			size += info.Size()
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return size
}

func TestGiveBackReturnsWhatDeletionsFreedAtOnce(t *testing.T) {
	_, d := openTable(t, numbers)
	half(t, d)
	before := sizes(t, d.Path())
	if err := maintenance.GiveBack(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	h, err := d.Health(t.Context())
	if err != nil || h.FreePages > 0 {
		t.Errorf("%d pages are free still, %v", h.FreePages, err)
	}
	// The handle's own look for free pages may be writing to the WAL.
	dbtest.Await(t, "the file has the size of its pages", func() bool {
		after := sizes(t, d.Path())
		return after <= h.Pages*h.PageSize && after < before
	})
	if n := count(t, d, "true"); n != 500 {
		t.Errorf("%d rows are left", n)
	}
	memory := dbtest.OpenAt(t, ":memory:", db.Options{})
	if err := maintenance.GiveBack(t.Context(), memory); err != nil {
		t.Errorf("in memory: %v", err)
	}
}

func TestCompact_LeavesNoSpaceKeepsRows(t *testing.T) {
	path, d := openTable(t, numbers)
	half(t, d)
	if err := maintenance.GiveBack(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	cursor := cursorOf(t, d)
	if _, err := maintenance.Compact(t.Context(), path,
		db.Options{MustExist: true, LockTimeout: 10 * time.Millisecond}); !errors.Is(err, db.ErrBusy) ||
		db.Hint(err) == "" {
		t.Errorf("while it is open: %v, hint %q", err, db.Hint(err))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before := sizes(t, path)
	done, err := maintenance.Compact(t.Context(), path, db.Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	if done.Path != path || done.Before != before || done.After != sizes(t, path) || done.After >= done.Before {
		t.Errorf("it says %+v of %d and %d bytes", done, before, sizes(t, path))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if parts, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".selvedge-*")); err != nil ||
		len(parts) > 0 {
		t.Errorf("%v is left, %v", parts, err)
	}
	d = dbtest.OpenAt(t, path, db.Options{MustExist: true})
	if n := count(t, d, "n % 2 = 1 AND n > 1000"); n != 500 {
		t.Errorf("%d rows are left", n)
	}
	if mode := d.WriterPragma(t, "auto_vacuum"); mode != "2" {
		t.Errorf("its auto_vacuum is %s", mode)
	}
	err = d.Read(t.Context(), "read cursor",
		func(rx *db.Rx) error { return rx.Store().ReadCursor("list", cursor, make([]int64, 1)) })
	if err != nil {
		t.Errorf("a cursor from before: %v", err)
	}
}

func cursorOf(t *testing.T, d *db.DB) (cursor string) {
	t.Helper()
	err := d.Read(t.Context(), "make cursor", func(rx *db.Rx) error {
		cursor = rx.Store().Cursor("list", []int64{1})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return cursor
}

func TestCompactLeavesADamagedFileAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "damaged.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, claims)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	outside(t, path, "PRAGMA foreign_keys=OFF; INSERT INTO claims (owner_id) VALUES (99)")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = maintenance.Compact(t.Context(), path, db.Options{MustExist: true})
	if !errors.Is(err, db.ErrCorrupt) {
		t.Errorf("it gave %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("it was changed, %v", err)
	}
	if _, err := maintenance.Compact(t.Context(), filepath.Join(t.TempDir(), "none.db"),
		db.Options{MustExist: true}); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}

func TestReclaim_CutAfterReadKeepsNobodyWaiting(t *testing.T) {
	path, d := openTable(t, numbers)
	other := dbtest.OpenAt(t, path, db.Options{})
	reading, enough := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = other.Read(t.Context(), "read", func(rx *db.Rx) error {
			err := rx.Get(new(int), "SELECT count(*) FROM numbers")
			close(reading)
			<-enough
			return err
		})
	})
	<-reading
	if err := maintenance.GiveBack(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if sizeOf(t, path+"-wal") == 0 {
		t.Fatal("the WAL was cut off under a read")
	}
	close(enough)
	wg.Wait()
	began := time.Now()
	count(t, d, "true")
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("a read waited %v for a gap that nobody uses", took)
	}
	await(t, "the cut", func() bool { return sizeOf(t, path+"-wal") == 0 })
}

// A meddler writes the file as another program when a copy of it is being checked.
type meddler struct {
	fs.FS
	dir    string
	meddle func()
}

func (m *meddler) Open(name string) (fs.File, error) {
	parts, err := filepath.Glob(filepath.Join(m.dir, ".selvedge-*.part"))
	if err == nil && len(parts) > 0 && m.meddle != nil {
		meddle := m.meddle
		m.meddle = nil
		meddle()
	}
	return m.FS.Open(name)
}

func TestCompactLosesNothingThatAnotherProgramWritesMeanwhile(t *testing.T) {
	path, d := openTable(t, numbers)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	m := &meddler{FS: migrations.SQLite(), dir: filepath.Dir(path), meddle: func() {
		outside(t, path, "INSERT INTO numbers (name, n) VALUES ('meanwhile', 1)")
	}}
	_, err := maintenance.Compact(t.Context(), path,
		db.Options{MustExist: true}.WithLadder(m, migrations.Steps, migrations.Views()))
	if !errors.Is(err, db.ErrBusy) || db.Hint(err) == "" {
		t.Errorf("it gave %v, hint %q", err, db.Hint(err))
	}
	if m.meddle != nil {
		t.Fatal("nothing was written meanwhile")
	}
	d = dbtest.OpenAt(t, path, db.Options{})
	if n := count(t, d, "name = 'meanwhile'"); n != 1 {
		t.Errorf("%d rows are left of what the other program wrote", n)
	}
}
