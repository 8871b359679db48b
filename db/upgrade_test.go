package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// upgrader opens the file with a schema that shuts others out, says so, and keeps it open until it
// is told to end.
func upgrader(args []string) error {
	o, err := upgraded()
	if err != nil {
		return err
	}
	return eachLine(func(string) error {
		d, err := db.Open(context.Background(), args[0], o)
		if err != nil {
			return err
		}
		fmt.Println("open")
		return eachLine(func(string) error { return d.Close() })
	})
}

// upgraded are the program's own versions and one more.
func upgraded() (db.Options, error) {
	files := fstest.MapFS{"00099_next.sql": &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE next " +
		"(id INTEGER PRIMARY KEY) STRICT;")}}
	err := fs.WalkDir(migrations.SQLite(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Dir(path) != "." {
			return err
		}
		data, err := fs.ReadFile(migrations.SQLite(), path)
		files[path] = &fstest.MapFile{Data: data}
		return err
	})
	steps := append(slices.Clone(migrations.Steps), migrations.Step{Version: 99, MinReader: 99, MinWriter: 99})
	return db.Options{LockTimeout: 30 * time.Second}.WithLadder(files, steps, migrations.Views()), err
}

func TestUpgrade_TwentyInstancesAllSucceed(t *testing.T) {
	const instances = 20
	path := filepath.Join(t.TempDir(), "a.db")
	for round := range 3 {
		path := fmt.Sprint(path, round)
		d, err := db.Open(t.Context(), path, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		var all []*dbtest.Process
		for range instances {
			all = append(all, dbtest.Start(t, "upgrader", path))
		}
		for _, p := range all {
			p.Send("go")
		}
		for _, p := range all {
			p.Expect("open") // while those before keep it open
		}
		for _, p := range all {
			p.Send("end")
			p.Wait()
		}
	}
}

func TestUpgrade_FailureLeavesOldSchema(t *testing.T) {
	path := openFamily(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a second step that fails":        "CREATE TABLE parents (a);",
		"a second step that removes rows": "DELETE FROM children WHERE id = 12;",
		"rows that refer to nothing":      "UPDATE children SET parent = 99;",
		"rows from nowhere":               "INSERT INTO parents (id) VALUES (77);",
		"a table that goes":               "DROP TABLE children;",
	} {
		t.Run(name, func(t *testing.T) {
			o := ladderUpTo(t, 3).WithStep(migrations.Step{Version: 4, MinReader: 4, MinWriter: 4},
				"-- +goose Up\n"+text)
			if _, err := db.Open(t.Context(), path, o); err == nil {
				t.Fatal("it was opened")
			}
			d := dbtest.OpenAt(t, path, ladderUpTo(t, 2))
			s, err := d.Schema(t.Context())
			if err != nil || s != (db.Schema{Version: 2, MinReader: 1, MinWriter: 1}) {
				t.Errorf("the file says %+v, %v", s, err)
			}
			if got := one[int](t, d, "SELECT count(*) FROM v_family"); got != 3 {
				t.Errorf("%d of 3 children are seen", got)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(path)
			if err != nil || string(after) != string(before) {
				t.Errorf("the bytes of the file changed (%v)", err)
			}
		})
	}
}

func TestAnEmptyOrDeclaredTableMayGo(t *testing.T) {
	path := openFamily(t)
	o := ladderUpTo(t, 3).WithViews("").WithStep(
		migrations.Step{
			Version: 4, MinReader: 3, MinWriter: 3, Removes: []string{"children"},
			Adds: []string{"parents"},
		},
		"-- +goose Up\nCREATE TABLE none (a INTEGER) STRICT;\nDROP TABLE children;\nINSERT INTO parents (id) "+
			"VALUES (3);")
	m, err := maintenance.Migrate(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	want := []maintenance.TableMigrated{
		{Name: "children", Before: 3, After: -1}, {Name: "parents", Before: 2, After: 3},
	}
	if m.From != 2 || m.To != 4 || !slices.Equal(m.Tables, want) {
		t.Errorf("it says %+v", m)
	}
	o = o.WithStep(migrations.Step{Version: 5, MinReader: 3, MinWriter: 3}, "-- +goose Up\nDROP TABLE none;")
	if m, err = maintenance.Migrate(t.Context(), path, o); err != nil || m.Backup != "" {
		t.Errorf("dropping an empty table: %+v, %v", m, err)
	}
}

func TestMigrate_CopiesBeforeRemovingRows(t *testing.T) {
	path := openFamily(t)
	rewrites := ladderWithThird(t, "-- +goose Up\nUPDATE parents SET name = upper(name);")
	rewrites = ladderUpTo(t, 2).WithStep(migrations.Step{
		Version: 3, MinReader: 1, MinWriter: 1,
		Rewrites: []string{"parents"},
	}, thirdOf(t, rewrites))
	m, err := maintenance.Migrate(t.Context(), path, rewrites)
	if err != nil || m.Backup != path+".schema-2.bak" {
		t.Fatalf("%+v, %v", m, err)
	}
	if info, err := os.Stat(m.Backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	older := dbtest.OpenAt(t, m.Backup, ladderUpTo(t, 2))
	if got := one[string](t, older, "SELECT group_concat(name) FROM parents"); got != "ada,bob" {
		t.Errorf("the copy has %s", got)
	}

	fails := rewrites.WithStep(migrations.Step{
		Version: 4, MinReader: 1, MinWriter: 1,
		Removes: []string{"children"},
	}, "-- +goose Up\nDELETE FROM children;\nDELETE FROM parents;")
	if _, err = maintenance.Migrate(t.Context(), path, fails); err == nil ||
		!strings.Contains(err.Error(), path+".schema-3.bak") {
		t.Errorf("the error names no copy: %v", err)
	}
	works := rewrites.WithStep(migrations.Step{
		Version: 4, MinReader: 1, MinWriter: 1,
		Removes: []string{"children"},
	}, "-- +goose Up\nDELETE FROM children;")
	if m, err = maintenance.Migrate(t.Context(), path, works); err != nil || m.Backup != path+".schema-3.bak" {
		t.Fatalf("%+v, %v", m, err)
	}
	copies, err := filepath.Glob(path + ".schema-*.bak")
	if err != nil || len(copies) != 1 {
		t.Errorf("there are %q, %v", copies, err)
	}
}

func thirdOf(t *testing.T, o db.Options) string {
	t.Helper()
	text, err := fs.ReadFile(o.Files(), "00003_step.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatUsersMadeSurvivesAnUpgrade(t *testing.T) {
	for _, own := range []string{
		"CREATE VIEW mine AS SELECT name FROM parents",
		"CREATE VIEW v_mine AS SELECT name FROM v_family",
		"CREATE VIEW mine AS SELECT name FROM v_family; CREATE TRIGGER put INSTEAD OF INSERT ON mine BEGIN " +
			"INSERT INTO parents (name) VALUES (new.name); END",
		`CREATE TABLE "my""table" (x); INSERT INTO "my""table" VALUES (1)`,
		"CREATE TABLE log (x); CREATE TRIGGER logged AFTER INSERT ON parents BEGIN INSERT INTO log VALUES " +
			"(new.name); END",
		"CREATE INDEX parents_by_name ON parents (name)",
		"CREATE TABLE notes (parent INTEGER REFERENCES parents (id), x); INSERT INTO notes VALUES (1, 'a'); " +
			"CREATE VIEW broken AS SELECT a FROM nowhere",
		"CREATE VIRTUAL TABLE words USING fts5 (x); INSERT INTO words VALUES ('a')",
	} {
		t.Run(own, func(t *testing.T) {
			path := openFamily(t)
			before := fromOutside(t, path, own)
			d := dbtest.OpenAt(t, path, ladderUpTo(t, 3))
			if _, err := d.Stats(t.Context()); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			after := fromOutside(t, path, "")
			for _, o := range before {
				if !slices.Contains(after, o) && !strings.Contains(o, "TABLE parents") &&
					!strings.Contains(o, `TABLE "parents`) {
					t.Errorf("gone: %s", o)
				}
			}
		})
	}
}

// fromOutside runs a script as another program would, and gives the SQL of all that is there.
func fromOutside(t *testing.T, path, script string) (all []string) {
	t.Helper()
	pool, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close() //nolint:errcheck // what matters has failed before
	if _, err := pool.Exec(script); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query("SELECT coalesce(sql, name) FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // the same
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestMigrate_NamesWhatNewSchemaRefuses(t *testing.T) {
	drops := "-- +goose Up\nALTER TABLE parents DROP COLUMN name;\nCREATE TABLE taken (a INTEGER) STRICT;"
	for own, name := range map[string]string{
		"CREATE TABLE Taken (x)":                       `table "Taken"`,
		"CREATE VIEW mine AS SELECT name FROM parents": `view "mine"`,
		"CREATE TABLE log (x); CREATE TRIGGER logged AFTER INSERT ON parents BEGIN INSERT INTO log VALUES " +
			"(new.name); END": `trigger "logged"`,
	} {
		path := openFamily(t)
		before := fromOutside(t, path, own)
		o := ladderUpTo(t, 2).WithViews("").WithStep(migrations.Step{Version: 3, MinReader: 1, MinWriter: 1}, drops)
		_, err := db.Open(t.Context(), path, o)
		if !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), name) || db.Hint(err) == "" {
			t.Errorf("%s: the error is %v", own, err)
		}
		if after := fromOutside(t, path, ""); !slices.Equal(before, after) {
			t.Errorf("%s: %q became %q", own, before, after)
		}
	}
}

func TestAViewThatChangedIsMadeAgain(t *testing.T) {
	path := openFamily(t)
	fromOutside(t, path, "CREATE VIEW mine AS SELECT * FROM v_family")
	changed := ladderUpTo(t, 2).WithViews("CREATE VIEW v_family AS SELECT p.name, c.id, 'new' AS word FROM " +
		"parents p JOIN children c ON c.parent = p.id;")
	for range 2 {
		d := dbtest.OpenAt(t, path, changed)
		if got := one[string](t, d, "SELECT max(word) FROM mine"); got != "new" {
			t.Errorf("the view says %s", got)
		}
	}
	fromOutside(t, path, "DROP VIEW mine; CREATE VIEW mine AS SELECT * FROM parents")
	renamed := ladderUpTo(t, 2).WithViews("CREATE VIEW v_other AS SELECT 1 AS one;")
	d := dbtest.OpenAt(t, path, renamed)
	if got := one[string](t, d, "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema WHERE "+
		"type = 'view' ORDER BY name)"); got != "mine v_other" {
		t.Errorf("there are %s", got)
	}
}

func TestDownGoesBackAndKeepsACopy(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO scopes (name) VALUES ('two')")
	holding := db.Options{SchemaVersion: 7, LockTimeout: 50 * time.Millisecond}
	if _, err := maintenance.Migrate(t.Context(), path, holding); !errors.Is(err, db.ErrBusy) {
		t.Errorf("while it is open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	was := maintenance.SchemaVersion()
	for _, to := range []int64{7, 1, maintenance.SchemaVersion()} {
		rehearsed, err := maintenance.Rehearse(t.Context(), path, db.Options{SchemaVersion: to})
		if err != nil {
			t.Fatal(err)
		}
		m, err := maintenance.Migrate(t.Context(), path, db.Options{SchemaVersion: to})
		if err != nil || m.From != was || m.To != to {
			t.Fatalf("to %d: %+v, %v", to, m, err)
		}
		if rehearsed.From != m.From || rehearsed.To != m.To || rehearsed.Backup != m.Backup ||
			!slices.Equal(rehearsed.Tables, m.Tables) {
			t.Errorf("rehearsed %+v, done %+v", rehearsed, m)
		}
		if there, err := dbtest.Exists(m.Backup); to < was && !there || err != nil {
			t.Errorf("the copy %q is not there (%v)", m.Backup, err)
		}
		was = to
	}
	d = dbtest.OpenAt(t, path, db.Options{})
	if got := one[string](t, d, "SELECT max(name) FROM scopes"); got != "two" {
		t.Errorf("the scope is %q", got)
	}
}

func TestPlainGooseGoesOnWithTheFile(t *testing.T) {
	path := dbtest.Path(t)
	if _, err := maintenance.Migrate(t.Context(), path, db.Options{SchemaVersion: 7}); err != nil {
		t.Fatal(err)
	}
	pool, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close() //nolint:errcheck // what matters has failed before
	plain, err := goose.NewProvider(goose.DialectSQLite3, pool, migrations.SQLite())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := dbtest.OpenAt(t, path, db.Options{})
	if got := one[int](t, d, "SELECT count(*) FROM v_runs"); got != 0 {
		t.Errorf("%d runs", got)
	}
	if pending, err := plain.HasPending(t.Context()); err != nil || pending {
		t.Errorf("plain goose would go on: %v, %v", pending, err)
	}
}

func TestSchemaVersionIsOneThatThisProgramKnows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	for _, version := range []int64{-1, maintenance.SchemaVersion() + 1, 99} {
		_, err := db.Open(t.Context(), path, db.Options{SchemaVersion: version})
		if !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
			t.Errorf("%d: %v", version, err)
		}
	}
	if there, err := dbtest.Exists(path); there || err != nil {
		t.Errorf("something was made (%v)", err)
	}
}

func TestKeepSchemaLeavesAnOldFileAlone(t *testing.T) {
	path := dbtest.Path(t)
	if _, err := maintenance.Migrate(t.Context(), path, db.Options{SchemaVersion: 7}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Open(t.Context(), path, db.Options{KeepSchema: true}); !errors.Is(err, db.ErrInvalid) ||
		db.Hint(err) == "" {
		t.Errorf("the error is %v", err)
	}
	d := dbtest.OpenAt(t, path, db.Options{ReadOnly: true, AnySchema: true})
	if s, err := d.Schema(t.Context()); err != nil || s.Version != 7 {
		t.Errorf("%+v, %v", s, err)
	}
}

var triggers = regexp.MustCompile(`(?s)CREATE TRIGGER.*?\nEND;`)

// What a migration does to tables that were there before it must stand in its step: a copy is made,
// and rows are missed, by it.
func TestEveryStepSaysWhatItRemovesAndRewrites(t *testing.T) {
	list, err := maintenance.Migrations("", 0)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for i, m := range list {
		step := migrations.Steps[i]
		text := triggers.ReplaceAllString(m.SQL, "")
		for line := range strings.SplitSeq(text, "\n") {
			words := strings.Fields(strings.Trim(line, " ;"))
			for j, verb := range []string{"DROP TABLE", "DELETE FROM", "UPDATE"} {
				n := len(strings.Fields(verb))
				if len(words) <= n || strings.Join(words[:n], " ") != verb {
					continue
				}
				table := words[n]
				if fills := j == 2 && len(words) > 3 &&
					strings.Contains(text, "ALTER TABLE "+table+" ADD COLUMN "+words[3]); fills {
					continue // a column that was not there before
				}
				if !made[table] || table == "selvedge_file" || slices.Contains(step.Removes, table) || j != 1 &&
					slices.Contains(step.Rewrites, table) {
					continue
				}
				t.Errorf("%s: %q does not stand in its step", m.Name, strings.Join(words[:n+1], " "))
			}
		}
		for line := range strings.SplitSeq(text, "\n") {
			if words := strings.Fields(line); len(words) > 2 && words[0] == "CREATE" && words[1] == "TABLE" {
				made[words[2]] = true
			}
		}
	}
}

// crowded upgrades a file with room for less than the upgrade takes, and says how that ended.
func crowded(args []string) error {
	limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 40}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	o, err := upgraded()
	if err != nil {
		return err
	}
	o = o.WithStep(migrations.Step{Version: 100, MinReader: 100, MinWriter: 100}, `-- +goose Up
CREATE TABLE large AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000)
	SELECT x, hex(randomblob(50)) AS h FROM c;`)
	_, err = maintenance.Migrate(context.Background(), args[0], o)
	fmt.Println("full:", errors.Is(err, db.ErrFull) || errors.Is(err, db.ErrIO))
	return nil
}

func TestUpgrade_NoSpaceLeavesFileUnchanged(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO scopes (name) VALUES ('kept')")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	p := dbtest.Start(t, "crowded", path)
	p.Expect("full: true")
	p.Wait()
	d = dbtest.OpenAt(t, path, db.Options{})
	s, err := d.Schema(t.Context())
	if err != nil || s.Version != maintenance.SchemaVersion() {
		t.Errorf("%+v, %v", s, err)
	}
	if got := one[string](t, d, "SELECT max(name) FROM scopes"); got != "kept" {
		t.Errorf("the scope is %q", got)
	}
}
