package db_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/sqlite"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

func TestOpen_NewFileIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	path := filepath.Join(dir, "selvedge.db")
	d := dbtest.OpenAt(t, path, db.Options{})
	claim(t, d) // makes every file that can lie beside it

	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v", info.Mode().Perm())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimPrefix(e.Name(), "selvedge.db"))
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", e.Name(), info.Mode().Perm(), err)
		}
	}
	if want := " -lock -queue -shm -wal"; strings.Join(names, " ") != want {
		t.Errorf("beside the file lie%q, not%q", strings.Join(names, " "), want)
	}
}

func TestCloseLeavesNoWAL(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	claim(t, d)
	if err := d.Read(t.Context(), "look",
		func(rx *db.Rx) error { return rx.Get(new(int), "SELECT count(*) FROM scopes") }); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if there, err := dbtest.Exists(path + suffix); err != nil || there {
			t.Errorf("%s is there after Close (%v)", suffix, err)
		}
	}
}

func TestTheFileIsBornWithItsSettings(t *testing.T) {
	path := dbtest.Path(t)
	dbtest.OpenAt(t, path, db.Options{})
	// Through another connection, as sqlite3 would see it.
	outside, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close() //nolint:errcheck // opened for reading only
	for pragma, want := range map[string]string{
		"application_id": fmt.Sprint(sqlite.ApplicationID),
		"auto_vacuum":    "2",
		"journal_mode":   "wal",
		"page_size":      "4096",
		"encoding":       "UTF-8",
	} {
		var got string
		if err := outside.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, not %s (%v)", pragma, got, want, err)
		}
	}
}

func TestEveryConnectionHasItsPragmas(t *testing.T) {
	for name, o := range map[string]db.Options{"full": {}, "normal": {Synchronous: db.SyncNormal}} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.Open(t, o)
			level := map[string]string{"full": "2", "normal": "1"}[name]
			for pragma, want := range map[string]string{
				"journal_mode": "wal", "synchronous": level, "foreign_keys": "1",
				"trusted_schema": "0", "cell_size_check": "1",
			} {
				if got := d.WriterPragma(t, pragma); got != want {
					t.Errorf("the writer's %s is %s, not %s", pragma, got, want)
				}
			}
			for pragma, want := range map[string]string{
				"foreign_keys": "1", "trusted_schema": "0",
				"cell_size_check": "1",
			} {
				var got string
				err := d.Read(t.Context(), "read a setting", func(r *db.Rx) error {
					return r.Get(&got, "PRAGMA "+pragma)
				})
				if err != nil || got != want {
					t.Errorf("a reader's %s is %s, not %s (%v)", pragma, got, want, err)
				}
			}
		})
	}
}

// SQLite 3.7.0 to 3.51.2 can corrupt a WAL file when it starts again from its beginning
// (sqlite.org/wal.html#walresetbug).
func TestSQLiteIsNewEnough(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s, err := d.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var major, minor, patch int
	if _, err := fmt.Sscanf(s.Engine, "SQLite %d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatal(err)
	}
	if major*1_000_000+minor*1_000+patch < 3_051_003 {
		t.Errorf("it is %s, older than 3.51.3", s.Engine)
	}
}

func TestOpenTakesAnyPath(t *testing.T) {
	for _, name := range []string{
		"with space.db", "50%.db", "a?b=c#d.db", "ünï.db", "semi;colon&.db",
		"'quote\".db",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := dbtest.OpenAt(t, filepath.Join(dir, name), db.Options{})
			claim(t, d)
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestALinkAndItsTargetAreOneFile(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	linked := dbtest.OpenAt(t, link, db.Options{})
	if linked.Path() != d.Path() {
		t.Errorf("the link opened %s, not %s", linked.Path(), d.Path())
	}
}

// snapshot is every name and byte below a folder.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v\n", path, info.Mode())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%x\n", text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestOpenRefusesAndChangesNothing(t *testing.T) {
	ours := func(t *testing.T, path, statement string) {
		d, err := db.Open(t.Context(), path, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if statement != "" {
			write(t, d, statement)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		make    func(t *testing.T, path string)
		options db.Options
		want    error
		says    string
	}{
		{"text", putText("hello, I am a diary\n"), db.Options{}, db.ErrNotADatabase, "no SQLite header"},
		{
			"a long text", putText(strings.Repeat("diary ", 1000)),
			db.Options{},
			db.ErrNotADatabase,
			"no SQLite header",
		},
		{"half a header", putText("SQLite format 3\x00"), db.Options{}, db.ErrNotADatabase, "no SQLite header"},
		{"another program's database", putForeign, db.Options{}, db.ErrNotADatabase, "another program"},
		{
			"another program's database in WAL mode", putForeignWAL,
			db.Options{},
			db.ErrNotADatabase,
			"another program",
		},
		{"a folder", func(t *testing.T, path string) { mustMkdir(t, path) }, db.Options{}, db.ErrInvalid, "folder"},
		{"newer than we may write", func(t *testing.T, path string) {
			ours(t, path, "UPDATE selvedge_file SET min_writer = 1000")
		}, db.Options{}, db.ErrSchemaTooNew, "may write"},
		{"newer than we may read", func(t *testing.T, path string) {
			ours(t, path, "UPDATE selvedge_file SET min_reader = 1000")
		}, db.Options{ReadOnly: true}, db.ErrSchemaTooNew, "may read"},
		{
			"nothing there to read", func(*testing.T, string) {},
			db.Options{ReadOnly: true},
			db.ErrNotFound,
			"no such file",
		},
		{
			"nothing there that must exist", func(*testing.T, string) {},
			db.Options{MustExist: true},
			db.ErrNotFound,
			"no such file",
		},
		{"an empty file to read", putText(""), db.Options{ReadOnly: true}, db.ErrNotADatabase, "empty"},
		{"too many readers", func(*testing.T, string) {}, db.Options{Readers: 1 << 40}, db.ErrInvalid, "1000"},
		{"negative readers", func(*testing.T, string) {}, db.Options{Readers: -1}, db.ErrInvalid, "readers"},
		{"an unknown level", func(*testing.T, string) {}, db.Options{Synchronous: 7}, db.ErrInvalid, "synchronous"},
		{"a negative timeout", func(*testing.T, string) {}, db.Options{LockTimeout: -1}, db.ErrInvalid, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "it.db")
			c.make(t, path)
			before := snapshot(t, dir)
			d, err := db.Open(t.Context(), path, c.options)
			if err == nil {
				t.Fatal(d.Close(), "it was opened")
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %q", err)
			}
			if !errors.Is(c.want, db.ErrInvalid) && db.Hint(err) == "" {
				t.Errorf("%q has no hint", err)
			}
			if strings.HasPrefix(c.name, "newer") {
				return // a file of ours may have our lock files beside it; its bytes are compared below
			}
			if after := snapshot(t, dir); after != before {
				t.Errorf("it was changed:\n%.300s\n%.300s", before, after)
			}
		})
	}
}

func TestAFileThatIsTooNewKeepsItsBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "it.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "UPDATE selvedge_file SET min_writer = 1000")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Open(t.Context(), path, db.Options{}); !errors.Is(err, db.ErrSchemaTooNew) {
		t.Fatalf("the error is %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the bytes changed")
	}
	reader, err := db.Open(t.Context(), path, db.Options{ReadOnly: true}) // it may still be read
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpen_URIOfSQLiteIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := db.Open(t.Context(), "file:it.db?mode=ro", db.Options{}); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
	if found, err := os.ReadDir("."); err != nil || len(found) > 0 {
		t.Errorf("it made %v, %v", found, err)
	}
}

func TestOpenSaysThatAFolderCantBeWritten(t *testing.T) {
	for _, path := range []string{"/proc/selvedge.db", "/dev/null/selvedge.db"} {
		_, err := db.Open(t.Context(), path, db.Options{})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error is %v", path, err)
		}
	}
}

func TestOpenFinishesAFileThatWasLeftEmpty(t *testing.T) {
	path := dbtest.Path(t)
	putText("")(t, path)
	claim(t, dbtest.OpenAt(t, path, db.Options{}))
}

func TestOpenTurnsACopyBackToWAL(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := d.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	c := dbtest.OpenAt(t, copied, db.Options{})
	if mode := c.WriterPragma(t, "journal_mode"); mode != "wal" {
		t.Errorf("the copy is in mode %s", mode)
	}
}

// Migration and the first change to WAL have no lock in goose and SQLite: 68 of 180 rounds of 6
// processes failed without one.
func TestEightProcessesOpenOneFreshPath(t *testing.T) {
	const processes, rounds = 8, 300
	all := make([]*dbtest.Process, processes)
	for i := range all {
		all[i] = dbtest.Start(t, "opener")
	}
	dir := t.TempDir()
	for round := range rounds {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", round))
		for _, p := range all {
			p.Send(path)
		}
		for _, p := range all {
			p.Expect("done")
		}
		if round%100 == 0 {
			dbtest.Check(t, path)
		}
	}
	for _, p := range all {
		p.Wait()
	}
}

func TestTwoHandlesInOneProcessShareTheFile(t *testing.T) {
	path := dbtest.Path(t)
	a := dbtest.OpenAt(t, path, db.Options{})
	b := dbtest.OpenAt(t, path, db.Options{})
	for range 20 {
		claim(t, a)
		claim(t, b)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	claim(t, b) // a's Close must not have dropped b's locks
	if s, err := b.Stats(t.Context()); err != nil || s.Schema != maintenance.SchemaVersion() {
		t.Errorf("stats: %+v, %v", s, err)
	}
}

func TestMemoryIsTheSameCode(t *testing.T) {
	d := dbtest.OpenAt(t, ":memory:", db.Options{})
	claim(t, d)
	var n int
	err := d.Read(t.Context(), "count", func(rx *db.Rx) error {
		return rx.Get(&n,
			"SELECT count(*) FROM owners")
	})
	if err != nil || n != 1 {
		t.Errorf("%d owners, %v", n, err)
	}
	err = d.Read(t.Context(), "write", func(rx *db.Rx) error {
		return rx.Get(new(int), "INSERT INTO scopes (name) VALUES ('x') RETURNING id")
	})
	if err == nil {
		t.Error("a read wrote")
	}
	claim(t, d)
	if problems, err := d.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// claim registers this process in d, a small write that every file can take.
func claim(t *testing.T, d *db.DB) (id int64) {
	t.Helper()
	err := d.Write(context.Background(), "claim", func(tx *db.Tx) (err error) {
		id, err = tx.Store().Owner()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func write(t *testing.T, d *db.DB, statement string, args ...any) {
	t.Helper()
	err := d.Write(context.Background(), "test", func(tx *db.Tx) error {
		_, err := tx.Exec(statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func putText(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func putForeign(t *testing.T, path string) {
	t.Helper()
	makeForeign(t, path, "CREATE TABLE diary (day TEXT)")
}

func putForeignWAL(t *testing.T, path string) {
	t.Helper()
	makeForeign(t, path, "PRAGMA journal_mode=WAL; CREATE TABLE diary (day TEXT)")
}

func makeForeign(t *testing.T, path, script string) {
	t.Helper()
	foreign, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Exec(script); err != nil {
		t.Fatal(err)
	}
	if err := foreign.Close(); err != nil {
		t.Fatal(err)
	}
	header := make([]byte, 100)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	if _, err := file.Read(header); err != nil || binary.BigEndian.Uint32(header[68:]) != 0 {
		t.Fatalf("the foreign file's application_id is not 0 (%v)", err)
	}
}

func mustMkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestTooFewDescriptorsAreSaidToBe(t *testing.T) {
	p := dbtest.Start(t, "frugal", dbtest.Path(t))
	p.Expect("opened")
	p.Wait()
}
