package db_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

func TestADBThatWasNeverOpenedIsClosed(t *testing.T) {
	ctx := t.Context()
	for name, call := range map[string]func(d *db.DB) error{
		"Close":    func(d *db.DB) error { return d.Close() },
		"Shutdown": func(d *db.DB) error { return d.Shutdown(ctx) },
		"Read":     func(d *db.DB) error { return d.Read(ctx, "read", func(*db.Rx) error { return nil }) },
		"Write":    func(d *db.DB) error { return d.Write(ctx, "write", func(*db.Tx) error { return nil }) },
		"Reclaim":  func(d *db.DB) error { return d.Reclaim(ctx, "reclaim", func(*db.Tx) error { return nil }) },
		"Changes":  func(d *db.DB) error { _, err := d.Changes(ctx); return err },
		"Check":    func(d *db.DB) error { _, err := d.Check(ctx); return err },
		"Repair":   func(d *db.DB) error { _, err := maintenance.Repair(ctx, d); return err },
		"Backup":   func(d *db.DB) error { return d.Backup(ctx, filepath.Join(t.TempDir(), "copy.db")) },
		"GiveBack": func(d *db.DB) error { return maintenance.GiveBack(ctx, d) },
		"Scrub":    func(d *db.DB) error { return maintenance.Scrub(ctx, d) },
		"Schema":   func(d *db.DB) error { _, err := d.Schema(ctx); return err },
		"Stats":    func(d *db.DB) error { _, err := d.Stats(ctx); return err },
		"Health":   func(d *db.DB) error { _, err := d.Health(ctx); return err },
		"Reserve":  func(d *db.DB) error { _, err := d.Reserve(ctx, "port", "1", db.ReserveOptions{}); return err },
		"Reattach": func(d *db.DB) error { _, err := d.Reattach(ctx, "", "port", "1", 1); return err },
		"Pins":     func(d *db.DB) error { _, err := maintenance.Pins(ctx, d, "", db.At{}); return err },
	} {
		err := call(new(db.DB))
		if !errors.Is(err, db.ErrClosed) || db.Hint(err) == "" {
			t.Errorf("%s: %v (hint: %q)", name, err, db.Hint(err))
		}
	}
	if work := new(db.DB).Work(); work != (db.Work{}) {
		t.Errorf("Work: %+v", work)
	}
}

// A reader of its own is all that a file in memory, or one with a single reader, has.
func TestStatsAndSchemaAreRefusedInsideAFunction(t *testing.T) {
	d := dbtest.OpenAt(t, ":memory:", db.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must(t, d.Write(t.Context(), "inside", func(*db.Tx) error {
		if _, err := d.Stats(ctx); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("Stats: %v", err)
		}
		if _, err := d.Schema(ctx); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("Schema: %v", err)
		}
		return nil
	}))
}

func TestOpen_RefusedWhileThisProcessHoldsOldFile(t *testing.T) {
	other, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	must(t, err)
	must(t, other.Close())
	for name, replace := range map[string]func(path string) error{
		"removed":  os.Remove,
		"renamed":  func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error { return os.Rename(other.Path(), path) },
	} {
		path := dbtest.Path(t)
		d, err := db.Open(t.Context(), path, db.Options{})
		must(t, err)
		must(t, replace(path))
		_, err = db.Open(t.Context(), path, db.Options{})
		if wantRefused(t, err, db.ErrReplaced); !strings.Contains(err.Error(), "this process") {
			t.Errorf("%s: %v", name, err)
		}
		must(t, d.Close())
		d, err = db.Open(t.Context(), path, db.Options{})
		must(t, err)
		must(t, d.Close())
	}
}

func TestOpen_RefusedWhileOtherProcessHoldsOldFile(t *testing.T) {
	other, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	must(t, err)
	must(t, other.Close())
	for name, replace := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(other.Path(), path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := dbtest.Path(t)
			holder, refused := startCrew(t, nil, path)
			if refused != "" {
				t.Fatal(refused)
			}
			must(t, replace(path))
			_, err := db.Open(t.Context(), path, db.Options{LockTimeout: 20 * time.Millisecond})
			wantRefused(t, err, db.ErrBusy)
			if name == "replaced" {
				_, err = db.Open(t.Context(), path, db.Options{LockTimeout: 20 * time.Millisecond, ReadOnly: true})
				wantRefused(t, err, db.ErrBusy)
			}
			holder.Kill()
			insertScope(t, dbtest.OpenAt(t, path, db.Options{}), "after")
		})
	}
}

// SQLite would apply the WAL to it, and make the index that both have anew.
func TestReplacedFile_IsNotReadThroughOldHandle(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "x.db"), filepath.Join(dir, "other.db")
	d, err := db.Open(t.Context(), other, db.Options{})
	must(t, err)
	must(t, d.Close())
	d, err = db.Open(t.Context(), path, db.Options{})
	must(t, err)
	insertScope(t, d, "before")
	must(t, os.Rename(other, path))
	wantRefused(t, d.Backup(t.Context(), filepath.Join(dir, "backup.db")), db.ErrReplaced)
	_, err = d.Check(t.Context())
	wantRefused(t, err, db.ErrReplaced)
	must(t, d.Close())
}

func TestWrite_TruncatedFileIsRefused(t *testing.T) {
	byHandles(t, func(t *testing.T, begin func(*db.DB)) {
		for name, left := range map[string]int64{"to nothing": 0, "to its first page": 4096} {
			path := filepath.Join(t.TempDir(), "x.db") // nobody checks what is left of it
			d, err := db.Open(t.Context(), path, db.Options{})
			must(t, err)
			insertScope(t, d, "before")
			begin(d)
			must(t, os.Truncate(path, left))
			err = addScope(d, "after")
			if wantRefused(t, err, db.ErrCorrupt); err == nil {
				t.Errorf("%s: it was acknowledged", name)
			}
			_ = d.Close() // what is in the WAL can't be moved
		}
	})
}

func TestWrite_FileShrunkByReclaimIsWritten(t *testing.T) {
	path, d := openTable(t, numbers)
	write(t, d, "INSERT INTO numbers (name, n) WITH RECURSIVE c (n) AS (VALUES (1) UNION ALL SELECT n+1 FROM "+
		"c WHERE n < 2000) SELECT printf('%0500d', n), n FROM c")
	must(t, d.Close()) // so that it is in the file
	d = dbtest.OpenAt(t, path, db.Options{})
	p := dbtest.Start(t, "stepper", path, "other")
	step := func(want string) { p.Send("step"); p.Expect(want) }
	step("0")
	must(t, d.Reclaim(t.Context(), "delete",
		func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM numbers"); return err }))
	before, err := os.Stat(path)
	must(t, err)
	must(t, maintenance.GiveBack(t.Context(), d))
	if after, err := os.Stat(path); err != nil || after.Size() >= before.Size() {
		t.Errorf("it has %d bytes of %d (%v)", after.Size(), before.Size(), err)
	}
	step("1")
	must(t, d.Write(t.Context(), "after", insert("own", 1)))
	p.Wait()
}

// A checkpoint of another process writes the first page, and long after it the last ones.
func TestWrite_WaitsForPagesThatAreBeingWritten(t *testing.T) {
	path, d := openTable(t, numbers)
	must(t, d.Write(t.Context(), "add", insert(strings.Repeat("x", 1<<20), 1)))
	must(t, maintenance.GiveBack(t.Context(), d)) // so that it is in the file
	must(t, d.Write(t.Context(), "look", insert("x", 2)))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	info, err := file.Stat()
	must(t, err)
	const pages, page = 40, 4096
	rest := make([]byte, pages*page)
	end := info.Size() - int64(len(rest))
	_, err = file.ReadAt(rest, end)
	must(t, err)
	must(t, file.Truncate(end))
	written := make(chan error, 1)
	go func() {
		var failed error
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for n := range int64(pages) {
			<-tick.C
			_, err := file.WriteAt(rest[n*page:][:page], end+n*page)
			failed = errors.Join(failed, err)
		}
		written <- failed
	}()
	must(t, d.Write(t.Context(), "wait", insert("x", 3)))
	must(t, dbtest.Receive(t, "the pages", written))
	must(t, d.Close())
	must(t, file.Close()) // before, it would drop SQLite's locks
}

// putBack closes d and copies a backup over its file, as cp does.
func putBack(t *testing.T, d *db.DB, backup string) *db.DB {
	t.Helper()
	must(t, d.Close())
	data, err := os.ReadFile(backup)
	must(t, err)
	must(t, os.WriteFile(d.Path(), data, 0o600))
	d, err = db.Open(t.Context(), d.Path(), db.Options{})
	must(t, err)
	return d
}

func TestCursor_ExpiresAfterBackupCopiedOver(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	must(t, err)
	cursor := func() (text string) {
		must(t, d.Read(t.Context(), "cursor",
			func(rx *db.Rx) error { text = rx.Store().Cursor("test", []int64{7}); return nil }))
		return text
	}
	wantCursor := func(text string, want error) {
		t.Helper()
		err := d.Read(t.Context(), "cursor",
			func(rx *db.Rx) error { return rx.Store().ReadCursor("test", text, make([]int64, 1)) })
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("the cursor: %v, want %v", err, want)
		}
	}
	first := cursor()
	backup := filepath.Join(t.TempDir(), "copy.db")
	must(t, d.Backup(t.Context(), backup))
	wantCursor(first, nil)
	d = putBack(t, d, backup)
	wantCursor(first, db.ErrCursorExpired)
	second := cursor()
	must(t, d.Close())
	d, err = db.Open(t.Context(), d.Path(), db.Options{})
	must(t, err)
	wantCursor(second, nil)
	other := dbtest.OpenAt(t, d.Path(), db.Options{ReadOnly: true})
	must(t, other.Read(t.Context(), "cursor",
		func(rx *db.Rx) error { return rx.Store().ReadCursor("test", second, make([]int64, 1)) }))
	must(t, other.Close())
	d = putBack(t, d, backup) // the same one again
	defer d.Close()           //nolint:errcheck // nothing was written
	wantCursor(first, db.ErrCursorExpired)
	wantCursor(second, db.ErrCursorExpired)
}
