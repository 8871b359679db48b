package db_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// twoFolders gives a closed file in one folder and the same name in another, where nothing is.
func twoFolders(t *testing.T) (path, other string) {
	t.Helper()
	dir := t.TempDir()
	path, other = filepath.Join(dir, "a", "x.db"), filepath.Join(dir, "b", "x.db")
	for _, p := range []string{path, other} {
		if err := os.Mkdir(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path, other
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantRefused(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) || db.Hint(err) == "" {
		t.Errorf("it ended with %v (hint: %q), not with %v", err, db.Hint(err), kind)
	}
}

func TestAFileWithTwoNamesIsNotWritten(t *testing.T) {
	path, other := twoFolders(t)
	must(t, os.Link(path, other))
	for _, p := range []string{path, other} {
		_, err := db.Open(t.Context(), p, db.Options{})
		wantRefused(t, err, db.ErrUnsupported)
	}
	dbtest.OpenAt(t, path, db.Options{ReadOnly: true})
	must(t, os.Remove(other))
	insertScope(t, dbtest.OpenAt(t, path, db.Options{}), "one name")
}

func TestWhoAllowsLinksWritesAFileWithTwoNames(t *testing.T) {
	path, other := twoFolders(t)
	must(t, os.Link(path, other))
	insertScope(t, dbtest.OpenAt(t, other, db.Options{AllowLinks: true}), "linked")
}

func insertScope(t *testing.T, d *db.DB, name string) {
	t.Helper()
	must(t, addScope(d, name))
}

func addScope(d *db.DB, name string) error {
	return d.Write(context.Background(), "add scope",
		func(tx *db.Tx) error { _, err := tx.Store().Scope(name); return err })
}

// byHandles runs a test with a handle that looks at each commit what lies where, and with one that
// the system tells.
func byHandles(t *testing.T, test func(t *testing.T, begin func(*db.DB))) {
	t.Run("that looks", func(t *testing.T) { test(t, func(*db.DB) {}) })
	if runtime.GOOS == "linux" {
		t.Run("that is told", func(t *testing.T) { test(t, db.WithBusyWriters(t)) })
	}
}

func TestWrite_NoticesNewHardLink(t *testing.T) {
	byHandles(t, func(t *testing.T, begin func(*db.DB)) {
		path, other := twoFolders(t)
		d := dbtest.OpenAt(t, path, db.Options{})
		insertScope(t, d, "before")
		begin(d)
		must(t, os.Link(path, other))
		wantRefused(t, addScope(d, "after"), db.ErrUnsupported)
		if _, err := db.Open(t.Context(), other, db.Options{}); !errors.Is(err, db.ErrUnsupported) {
			t.Errorf("the other name: %v", err)
		}
		must(t, os.Remove(other))
		insertScope(t, d, "one name again")
	})
}

func TestOpen_RenamedFileInUseIsRefused(t *testing.T) {
	path, other := twoFolders(t)
	holder, refused := startCrew(t, nil, path)
	if refused != "" {
		t.Fatal(refused)
	}
	must(t, os.Rename(path, other))
	_, err := db.Open(t.Context(), other, db.Options{})
	wantRefused(t, err, db.ErrUnsupported)
	_, err = db.Open(t.Context(), other, db.Options{ReadOnly: true}) // it would not see the WAL
	wantRefused(t, err, db.ErrUnsupported)
	if got := holder.do(order{Op: "write", Name: "x"}).Error; !strings.Contains(got, "removed or renamed") {
		t.Errorf("a write to the old name: %q", got)
	}
	holder.Wait()
	insertScope(t, dbtest.OpenAt(t, other, db.Options{}), "closed meanwhile")
}

func TestWrite_RemovedOrReplacedFileIsRefused(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"renamed": func(t *testing.T, path string) { must(t, os.Rename(path, path+".old")) },
		"replaced": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".new", nil, 0o600))
			must(t, os.Rename(path+".new", path))
		},
		"renamed and replaced": func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".old"))
			must(t, os.WriteFile(path, nil, 0o600))
		},
		"in a folder that was renamed": func(t *testing.T, path string) {
			must(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			byHandles(t, func(t *testing.T, begin func(*db.DB)) {
				path := filepath.Join(t.TempDir(), "folder", "x.db")
				d, err := db.Open(t.Context(), path, db.Options{})
				must(t, err)
				insertScope(t, d, "before")
				claim(t, d)
				begin(d)
				replace(t, path)
				ran := false
				err = d.Write(t.Context(), "after", func(*db.Tx) error { ran = true; return nil })
				wantRefused(t, err, db.ErrReplaced)
				if ran {
					t.Error("the function ran")
				}
				must(t, d.Close())
			})
		})
	}
}

func TestWrite_MissingWALIsRefused(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm"} {
		t.Run(suffix, func(t *testing.T) {
			byHandles(t, func(t *testing.T, begin func(*db.DB)) {
				path := dbtest.Path(t)
				d, err := db.Open(t.Context(), path, db.Options{})
				must(t, err)
				insertScope(t, d, "before")
				begin(d)
				must(t, os.Remove(path+suffix))
				wantRefused(t, addScope(d, "after"), db.ErrReplaced)
				must(t, os.WriteFile(path+suffix, nil, 0o600))
				wantRefused(t, addScope(d, "after"), db.ErrReplaced)
				must(t, d.Close())
				d = dbtest.OpenAt(t, path, db.Options{})
				for name, want := range map[string]bool{"before": true, "after": false} {
					err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
						_, there, err := rx.Store().Scope(name)
						if there != want {
							t.Errorf("the scope %q is there: %t", name, there)
						}
						return err
					})
					must(t, err)
				}
			})
		})
	}
}

func TestAFolderThatWasRemovedIsSaidToBe(t *testing.T) {
	byHandles(t, func(t *testing.T, begin func(*db.DB)) {
		folder := filepath.Join(t.TempDir(), "folder")
		d, err := db.Open(t.Context(), filepath.Join(folder, "x.db"), db.Options{})
		must(t, err)
		begin(d)
		must(t, os.RemoveAll(folder))
		wantRefused(t, addScope(d, "after"), db.ErrReplaced)
		must(t, d.Close())
	})
}

// After a read, the writer has no connection.
func TestScrub_DeletedLockFileIsMadeAgain(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	_, err := d.Stats(t.Context())
	must(t, err)
	must(t, os.Remove(d.Path()+"-lock"))
	must(t, maintenance.Scrub(t.Context(), d))
	_, err = os.Stat(d.Path() + "-lock")
	must(t, err)
}

func TestLockFilesThatWereDeletedAreMadeAgain(t *testing.T) {
	byHandles(t, func(t *testing.T, begin func(*db.DB)) {
		path, d := openTable(t, numbers)
		other := dbtest.Start(t, "stepper", path, "other")
		step := func(want string) { other.Send("step"); other.Expect(want) }
		step("0")
		begin(d)
		for _, suffix := range []string{"-lock", "-queue"} {
			must(t, os.Remove(path+suffix))
		}
		must(t, d.Write(t.Context(), "after", insert("own", 1)))
		step("1")
		// Both hold the new files: the turn keeps the other out, and an open file can't be had alone.
		for _, suffix := range []string{"-lock", "-queue"} {
			if _, err := os.Stat(path + suffix); err != nil {
				t.Error(err)
			}
		}
		must(t, d.Write(t.Context(), "hold the turn", func(*db.Tx) error {
			third, err := db.Open(context.Background(), path, db.Options{})
			if err != nil {
				return err
			}
			defer third.Close() //nolint:errcheck // nothing was written
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if err := third.Write(ctx, "no", insert("no", 1)); !errors.Is(err, db.ErrBusy) {
				t.Errorf("a write beside the turn: %v", err)
			}
			return nil
		}))
		other.Wait()
	})
}

func TestOwnersLiveOnWhenLockFilesAreDeleted(t *testing.T) {
	path, d := openTable(t, claims)
	p, id := startOwner(t, path)
	beside, err := filepath.Glob(path + "-[loq]*")
	must(t, err)
	for _, f := range beside {
		must(t, os.Remove(f))
	}
	if !alive(t, d, id) {
		t.Error("the owner is dead while it runs")
	}
	p.Kill()
	if alive(t, d, id) {
		t.Error("the owner is alive after its end")
	}
}

func TestARolledBackFirstClaimIsInNobodysWay(t *testing.T) {
	path, d := openTable(t, claims)
	var all []*crew
	for range 3 {
		c, _ := startCrew(t, nil, path)
		if r := c.must(order{Op: "undone"}); r.Owner == 0 {
			t.Fatal("it got no number")
		}
		all = append(all, c) // it lives on
	}
	seen := map[int64]bool{}
	for _, c := range all {
		r := c.must(order{Op: "claim"})
		if seen[r.Owner] || !alive(t, d, r.Owner) {
			t.Errorf("owner %d is another's or dead", r.Owner)
		}
		seen[r.Owner] = true
	}
}
