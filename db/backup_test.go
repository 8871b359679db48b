package db_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

func TestABackupOfAClosedFileIsRefused(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "copy.db")
	if err := d.Backup(t.Context(), dest); !errors.Is(err, db.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
	if there, err := dbtest.Exists(dest); there || err != nil {
		t.Errorf("there is a copy (%v)", err)
	}
}

func TestCloseWaitsForABackup(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "copy.db")
	done := make(chan error, 1)
	begun := d.OnVisit()
	go func() { done <- d.Backup(t.Context(), dest) }()
	<-begun
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if there, err := dbtest.Exists(dest); !there || err != nil {
		t.Errorf("Close returned before the copy was there (%v)", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestABackupEndsWithItsContext(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	write(t, d, "CREATE TABLE junk AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x "+
		"< 100000) SELECT x, hex(randomblob(50)) AS h FROM c")
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	begun := d.OnVisit()
	go func() { <-begun; cancel(enough) }()
	if err := d.Backup(ctx, filepath.Join(dir, "copy.db")); !errors.Is(err, enough) {
		t.Errorf("the error is %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v was left (%v)", entries, err)
	}
	write(t, d, "DROP TABLE junk")
}

// copier backs a file up, again and again, until it is killed. Arguments: path, folder.
func copier(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	fmt.Println("begun")
	return d.Backup(context.Background(), filepath.Join(args[1], "killed.db"))
}

func TestBackup_RemovesLeftoversOfKilledOne(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	write(t, d, "CREATE TABLE junk AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x "+
		"< 100000) SELECT x, hex(randomblob(50)) AS h FROM c")
	dir := t.TempDir()
	p := dbtest.Start(t, "copier", d.Path(), dir)
	p.Expect("begun")
	for !left(t, dir, ".part") {
	}
	p.Kill()
	for _, name := range []string{
		".selvedge-1.part", ".selvedge-1.part-journal", ".selvedge-2.part-lock",
		"not.selvedge-1.part",
	} {
		putText("left")(t, filepath.Join(dir, name))
	}
	write(t, d, "DROP TABLE junk")
	if err := d.Backup(t.Context(), filepath.Join(dir, "copy.db")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if strings.Join(names, " ") != "copy.db not.selvedge-1.part" {
		t.Errorf("there are %q", names)
	}
}

// left reports whether a name with this end is in dir.
func left(t *testing.T, dir, end string) bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+end))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := filepath.Glob(filepath.Join(dir, ".*"+end))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)+len(hidden) > 0
}

func TestARestoredFileIsTheBackupWithAnotherGeneration(t *testing.T) {
	path, backup := dbtest.Path(t), filepath.Join(t.TempDir(), "copy.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO scopes (name) VALUES ('kept')")
	if err := d.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO scopes (name) VALUES ('later')")
	var cursor string
	if err := d.Read(t.Context(), "cursor",
		func(rx *db.Rx) error { cursor = rx.Store().Cursor("test", []int64{7}); return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Restore(t.Context(), backup, path,
		db.Options{LockTimeout: 50 * time.Millisecond}); !errors.Is(err, db.ErrBusy) {
		t.Errorf("while it is open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}

	r, err := maintenance.Restore(t.Context(), backup, path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Schema != maintenance.SchemaVersion() || r.Kept == "" {
		t.Errorf("it says %+v", r)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
	d = dbtest.OpenAt(t, path, db.Options{})
	if got := one[string](t, d, "SELECT group_concat(name, ' ') FROM scopes"); got != " kept" {
		t.Errorf("the scopes are %q", got)
	}
	err = d.Read(t.Context(), "cursor", func(rx *db.Rx) error {
		return rx.Store().ReadCursor("test", cursor,
			make([]int64, 1))
	})
	if !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("a cursor from before: %v", err)
	}
	before := dbtest.OpenAt(t, r.Kept, db.Options{})
	if got := one[int](t, before, "SELECT count(*) FROM scopes"); got != 3 {
		t.Errorf("the file from before has %d scopes", got)
	}
	err = before.Read(t.Context(), "cursor",
		func(rx *db.Rx) error { return rx.Store().ReadCursor("test", cursor, make([]int64, 1)) })
	if err != nil {
		t.Errorf("a cursor of the file from before: %v", err)
	}
}

func TestRestoreRefusesWhatIsNoBackup(t *testing.T) {
	path, damaged, text := dbtest.Path(t), filepath.Join(t.TempDir(), "damaged.db"),
		filepath.Join(t.TempDir(), "text")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO scopes (name) VALUES ('kept')")
	if err := d.Backup(t.Context(), damaged); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	fromOutside(t, damaged, "PRAGMA foreign_keys=0; INSERT INTO live_scopes (scope, runs, removed, oldest) "+
		"VALUES (77, 0, 0, 0)")
	putText("a diary")(t, text)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		damaged: db.ErrCorrupt, text: db.ErrNotADatabase,
		path: db.ErrInvalid, path + "-none": db.ErrNotFound,
	} {
		if _, err := maintenance.Restore(t.Context(), name, path, db.Options{}); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = maintenance.Restore(t.Context(), path, text, db.Options{})
	if !errors.Is(err, db.ErrNotADatabase) {
		t.Errorf("over a diary: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed (%v)", err)
	}
}

func TestRestoreLeavesAFileThatSQLite3HasOpen(t *testing.T) {
	path, backup := dbtest.Path(t), filepath.Join(t.TempDir(), "copy.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	p := dbtest.Start(t, "foreigner", path)
	p.Expect("open")
	if _, err := maintenance.Restore(t.Context(), backup, path, db.Options{}); !errors.Is(err, db.ErrBusy) {
		t.Errorf("the error is %v", err)
	}
	p.Kill()
	if _, err := maintenance.Restore(t.Context(), backup, path, db.Options{}); err != nil {
		t.Error(err)
	}
}

// foreigner has the file open as any program with SQLite would.
func foreigner(args []string) error {
	pool, err := sql.Open("sqlite", "file:"+args[0])
	if err != nil {
		return err
	}
	if _, err := pool.Exec("SELECT count(*) FROM scopes"); err != nil {
		return err
	}
	fmt.Println("open")
	return eachLine(func(string) error { return nil })
}
