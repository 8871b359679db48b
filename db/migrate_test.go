package db_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/maintenance"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// ladderUpTo is a made-up history: parents and children, a parent table that is rebuilt, a column
// that shuts older programs out.
func ladderUpTo(t *testing.T, version int64, extra ...migration) db.Options {
	t.Helper()
	files := fstest.MapFS{}
	steps := []migrations.Step{}
	first := fileItself(t)
	all := append([]migration{
		{"00001_file.sql", first, migrations.Step{Version: 1, MinReader: 1, MinWriter: 1}},
		{"00002_family.sql", `-- +goose Up
CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT) STRICT;
CREATE TABLE children (id INTEGER PRIMARY KEY,
	parent INTEGER NOT NULL REFERENCES parents (id) ON DELETE CASCADE) STRICT;
CREATE INDEX children_parent ON children (parent);
`, migrations.Step{Version: 2, MinReader: 1, MinWriter: 1}},
		{"00003_rebuild.sql", `-- +goose Up
CREATE TABLE parents_new (id INTEGER PRIMARY KEY, name TEXT, note TEXT) STRICT;
INSERT INTO parents_new (id, name) SELECT id, name FROM parents;
DROP TABLE parents;
ALTER TABLE parents_new RENAME TO parents;
`, migrations.Step{Version: 3, MinReader: 1, MinWriter: 3}},
	}, extra...)
	for _, m := range all {
		if m.step.Version <= version {
			files[m.name] = &fstest.MapFile{Data: []byte(m.text)}
			steps = append(steps, m.step)
		}
	}
	views := "CREATE VIEW v_family AS SELECT p.name, c.id FROM parents p JOIN children c ON c.parent = p.id;"
	if version == 1 {
		views = ""
	}
	return db.Options{LockTimeout: 300 * time.Millisecond}.WithLadder(files, steps, views)
}

// fileItself is the migrations that every ladder begins with, as one.
func fileItself(t *testing.T) string {
	t.Helper()
	text := "-- +goose Up\n"
	for _, name := range []string{"00001_file.sql", "00008_file.sql"} {
		raw, err := fs.ReadFile(migrations.SQLite(), name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(raw), "-- +goose Up\n")
		body, _, _ = strings.Cut(body, "-- +goose Down")
		text += body
	}
	return text
}

// one is what a query of one value gives.
func one[T any](t *testing.T, d *db.DB, query string, args ...any) (got T) {
	t.Helper()
	if err := d.Read(t.Context(), "look",
		func(rx *db.Rx) error { return rx.Get(&got, query, args...) }); err != nil {
		t.Fatal(err)
	}
	return got
}

type migration struct {
	name, text string
	step       migrations.Step
}

func openFamily(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/family.db"
	d, err := db.Open(t.Context(), path, ladderUpTo(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO parents (id, name) VALUES (1, 'ada'), (2, 'bob')")
	write(t, d, "INSERT INTO children (id, parent) VALUES (10, 1), (11, 1), (12, 2)")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAMigrationThatRebuildsAParentKeepsTheChildren(t *testing.T) {
	path := openFamily(t)
	d := dbtest.OpenAt(t, path, ladderUpTo(t, 3))
	var names []string
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Select(&names, "SELECT name || id FROM v_family ORDER BY id")
	})
	if err != nil || strings.Join(names, " ") != "ada10 ada11 bob12" {
		t.Errorf("%v, %v", names, err)
	}
	if s, err := d.Schema(t.Context()); err != nil || s.Version != 3 || s.MinWriter != 3 || s.MinReader != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	err = d.Write(t.Context(), "orphan", func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO children (parent) VALUES (99)")
		return err
	})
	if !txn.IsConstraint(err) {
		t.Errorf("foreign keys are off after the migration: %v", err)
	}
}

func TestAnOlderProgramLeavesANewerFileAlone(t *testing.T) {
	path := openFamily(t)
	d, err := db.Open(t.Context(), path, ladderUpTo(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Open(t.Context(), path, ladderUpTo(t, 2)); !errors.Is(err, db.ErrSchemaTooNew) {
		t.Errorf("to write: %v", err)
	}
	older := ladderUpTo(t, 2)
	older.ReadOnly = true
	dbtest.OpenAt(t, path, older) // it may still be read
}

func TestOpen_OlderProgramMayWriteIfAllowed(t *testing.T) {
	path := t.TempDir() + "/family.db"
	for _, version := range []int64{1, 2, 1} {
		d, err := db.Open(t.Context(), path, ladderUpTo(t, version))
		if err != nil {
			t.Fatal(err)
		}
		if s, err := d.Schema(t.Context()); err != nil || s.Version != min(2, max(version, s.Version)) {
			t.Errorf("%+v, %v", s, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d := dbtest.OpenAt(t, path, ladderUpTo(t, 2))
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Get(new(int),
			"SELECT count(*) FROM v_family")
	})
	if err != nil {
		t.Errorf("the older program took the views away: %v", err)
	}
}

func TestAMigrationThatShutsOthersOutWaitsForThem(t *testing.T) {
	path := openFamily(t)
	older, err := db.Open(t.Context(), path, ladderUpTo(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Open(t.Context(), path, ladderUpTo(t, 3))
	if !errors.Is(err, db.ErrBusy) || db.Hint(err) == "" {
		t.Errorf("with an older handle open: %v", err)
	}
	write(t, older, "INSERT INTO parents (id, name) VALUES (3, 'cyd')") // it was not harmed
	if err := older.Close(); err != nil {
		t.Fatal(err)
	}
	dbtest.OpenAt(t, path, ladderUpTo(t, 3))
}

func TestABusyErrorNamesTheProcess(t *testing.T) {
	path := dbtest.Path(t)
	p := dbtest.Start(t, "holder", path)
	p.Expect("open")
	_, err := db.Open(t.Context(), path,
		ladderUpTo(t, 3, migration{
			"00004_all.sql", "-- +goose Up\nSELECT 1;",
			migrations.Step{Version: 4, MinReader: 4, MinWriter: 4},
		}))
	if !errors.Is(err, db.ErrBusy) || !strings.Contains(err.Error(), fmt.Sprint("process ", p.Pid())) {
		t.Errorf("the error is %v", err)
	}
	p.Send("end")
	p.Wait()
}

func TestAMigrationThatLosesRowsIsUndone(t *testing.T) {
	path := openFamily(t)
	for range 2 {
		_, err := db.Open(t.Context(), path,
			ladderWithThird(t, "-- +goose Up\nDELETE FROM children WHERE id = 12;"))
		if err == nil || !strings.Contains(err.Error(), "2 of 3 rows in children") || db.Hint(err) == "" {
			t.Errorf("the error is %v", err)
		}
	}
	d := dbtest.OpenAt(t, path, ladderUpTo(t, 2))
	if got := one[int](t, d, "SELECT count(*) FROM v_family"); got != 3 {
		t.Errorf("%d of 3 children are left", got)
	}
}

// ladderWithThird is the ladder of the family with another third migration.
func ladderWithThird(t *testing.T, text string) db.Options {
	t.Helper()
	return ladderUpTo(t, 2).WithStep(migrations.Step{Version: 3, MinReader: 1, MinWriter: 1}, text)
}

func TestAMigrationThatFailsLeavesTheVersionBefore(t *testing.T) {
	path := openFamily(t)
	broken := ladderWithThird(t, "-- +goose Up\nCREATE TABLE x (a);\nCREATE TABLE x (a);")
	if _, err := db.Open(t.Context(), path, broken); err == nil || !strings.Contains(err.Error(), "schema 3") {
		t.Errorf("the error is %v", err)
	}
	d := dbtest.OpenAt(t, path, ladderUpTo(t, 2))
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Get(new(int),
			"SELECT count(*) FROM v_family")
	})
	if err != nil {
		t.Errorf("the views did not come back: %v", err)
	}
}

func TestSchemaVersionStopsAMigration(t *testing.T) {
	path := t.TempDir() + "/some.db"
	o := ladderUpTo(t, 3)
	o.SchemaVersion = 2
	d, err := db.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := d.Schema(t.Context()); err != nil || s.Version != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	o.SchemaVersion, o.ReadOnly = 0, true
	if _, err := db.Open(t.Context(), path, o); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
		t.Errorf("an old schema to read: %v", err)
	}
	o.AnySchema = true
	dbtest.OpenAt(t, path, o)
}

func TestEveryStepHasItsMigration(t *testing.T) {
	list, err := maintenance.Migrations("", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(migrations.Steps) {
		t.Fatalf("%d migrations and %d steps", len(list), len(migrations.Steps))
	}
	for i, step := range migrations.Steps {
		if list[i].Version != step.Version || step.MinReader > step.Version || step.MinWriter > step.Version ||
			step.MinWriter < step.MinReader {
			t.Errorf("step %+v stands beside %s", step, list[i].Name)
		}
	}
	if maintenance.SchemaVersion() != migrations.Steps[len(list)-1].Version {
		t.Errorf("the program's version is %d", maintenance.SchemaVersion())
	}
}
