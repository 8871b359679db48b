package db_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

func TestBackupOfALiveFileIsWhole(t *testing.T) {
	_, d := openTable(t, numbers)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // the pairs show whether the copy is one moment
		for i := 0; ctx.Err() == nil; i++ {
			err := d.Write(context.Background(), "pair", func(tx *db.Tx) error {
				if err := insert("left", i)(tx); err != nil {
					return err
				}
				return insert("right", i)(tx)
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for count(t, d, "true") < 100 {
		continue // until there is something to copy
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, "copy.db")
	err := d.Backup(t.Context(), copied)
	stop()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the copy lie %v, %v", entries, err)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has mode %v, %v", info.Mode(), err)
	}
	c := dbtest.OpenAt(t, copied, db.Options{})
	if problems, err := c.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	left, right := count(t, c, "name = 'left'"), count(t, c, "name = 'right'")
	if left != right || left < 50 {
		t.Errorf("the copy has %d left and %d right", left, right)
	}
	if mode := c.WriterPragma(t, "auto_vacuum"); mode != "2" {
		t.Errorf("the copy's auto_vacuum is %s", mode)
	}
}

func TestBackupNeverReplacesAFile(t *testing.T) {
	_, d := openTable(t)
	taken := filepath.Join(t.TempDir(), "taken")
	putText("mine")(t, taken)
	err := d.Backup(t.Context(), taken)
	if !errors.Is(err, db.ErrConflict) || db.Hint(err) == "" {
		t.Errorf("the error is %v", err)
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
		t.Errorf("it is now %q, %v", text, err)
	}
}

func TestBackupThatFailsLeavesNothing(t *testing.T) {
	_, d := openTable(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Backup(ctx, filepath.Join(dir, "copy.db")); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if err := d.Backup(t.Context(), filepath.Join(dir, "no", "copy.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("into a folder that is missing: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
	memory := dbtest.OpenAt(t, ":memory:", db.Options{})
	if err := memory.Backup(t.Context(), filepath.Join(dir, "copy.db")); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("of memory: %v", err)
	}
}

func TestCheckFindsDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, path string)
		check  string
		says   string
	}{
		{"a broken reference", func(t *testing.T, path string) {
			outside(t, path, "PRAGMA foreign_keys=OFF; INSERT INTO claims (owner_id) VALUES (99)")
		}, "foreign keys", "row 1 of claims refers to a row of owners"},
		{"an index that lacks a row", func(t *testing.T, path string) {
			outside(t, path, "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = 'CREATE INDEX by_n ON "+
				"numbers (name)' WHERE name = 'by_n'; PRAGMA writable_schema=RESET")
		}, "integrity", "by_n"},
		{"overwritten pages", func(t *testing.T, path string) {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			info, err := file.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteAt([]byte(strings.Repeat("\xff", 4096)), info.Size()-4096); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}, "integrity", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "damaged.db")
			d, err := db.Open(t.Context(), path, db.Options{})
			if err != nil {
				t.Fatal(err)
			}
			write(t, d, numbers)
			write(t, d, claims)
			write(t, d, "CREATE INDEX by_n ON numbers (n)")
			for i := range 500 {
				write(t, d, "INSERT INTO numbers (name, n) VALUES (?, ?)", strings.Repeat("x", 100), i)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			c.damage(t, path)
			d = dbtest.OpenAt(t, path, db.Options{})
			problems, err := d.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, p := range problems {
				found = found || p.Check == c.check && strings.Contains(p.Detail, c.says)
			}
			if !found {
				t.Errorf("found: %v", problems)
			}
		})
	}
}

// outside runs a script on the file as another program would.
func outside(t *testing.T, path, script string) {
	t.Helper()
	other, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(script); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStatsCountsWhatThereIs(t *testing.T) {
	_, d := openTable(t, numbers)
	for i := range 10 {
		write(t, d, "INSERT INTO numbers (name, n) VALUES ('x', ?)", i)
	}
	s, err := d.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Schema != maintenance.SchemaVersion() || s.PageSize != 4096 || s.FileBytes == 0 || s.WALBytes == 0 ||
		s.CreatedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	rows := map[string]int64{}
	for _, table := range s.Tables {
		rows[table.Name] = table.Rows
	}
	if rows["numbers"] != 10 || rows["scopes"] != 1 {
		t.Errorf("rows: %v", rows)
	}
}

func TestAnErrorSaysWhatWasDone(t *testing.T) {
	d := openNumbers(t, db.Options{})
	err := d.Write(t.Context(), "append the numbers", insert("bad", -1))
	var e *db.Error
	if !errors.As(err, &e) || e.Op != "append the numbers" || e.Code != 275 ||
		!strings.HasPrefix(err.Error(), "append the numbers: ") {
		t.Errorf("%+v", e)
	}
	own := &db.Error{Op: "own", Err: db.ErrNotFound, Hint: "look elsewhere"}
	if err := d.Write(t.Context(), "outer", func(*db.Tx) error { return own }); !errors.Is(err,
		db.ErrNotFound) || db.Hint(err) != own.Hint || err.Error() != "own: not found" {
		t.Errorf("a store's own error came back as %v", err)
	}
}

func TestIDsAreCheckedForWhatAFileCanHold(t *testing.T) {
	for id, ok := range map[string]bool{
		"": true, "a/b": true, "..": true, "ü\n\u2028": true, strings.Repeat("x", 1024): true,
		strings.Repeat("x", 1025): false, "a\x00b": false, "\xff": false,
	} {
		if err := txn.CheckID("run", id); (err == nil) != ok || err != nil && !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}
