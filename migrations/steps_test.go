package migrations_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selvedge/migrations"
)

var update = flag.Bool("update", false, "write the twins of steps that only add columns and indexes")

func TestEveryStepHasATwin(t *testing.T) {
	file, server := steps(t, migrations.SQLite()), steps(t, migrations.Postgres())
	if len(server) == 0 || !strings.HasSuffix(server[0], "_base.sql") {
		t.Fatalf("the first step of %q is not the base", server)
	}
	base, _, _ := strings.Cut(server[0], "_")
	later := slices.DeleteFunc(file, func(name string) bool { return name[:len(base)] <= base })
	if *update {
		for _, name := range later {
			writeTwin(t, name)
		}
		return
	}
	for _, name := range later {
		there := read(t, "postgres/"+name)
		if made, _ := twin(read(t, "sqlite/"+name)); strings.HasPrefix(there, madeTwin) && there != made {
			t.Errorf("postgres/%s is not what the step is now: make generate", name)
		}
	}
	if !slices.Equal(later, server[1:]) {
		t.Errorf("behind the base a file has the steps %q, a server %q: every step of migrations/sqlite has a "+
			"twin in migrations/postgres (make generate, where it only adds columns and indexes)", later, server[1:])
	}
	for _, kind := range []string{"views", "checks"} {
		if f, s := scripts(t, "sqlite/"+kind), scripts(t, "postgres/"+kind); !slices.Equal(f, s) {
			t.Errorf("the %s of a file are in %q, of a server in %q", kind, f, s)
		}
	}
}

func steps(t *testing.T, dir fs.FS) []string {
	t.Helper()
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func scripts(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(dir + "/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		names = append(names, filepath.Base(name))
	}
	return names
}

// A store that comes later must not find that a table has to be made anew for its name.
func TestNoTableListsTheStores(t *testing.T) {
	lists := regexp.MustCompile(`(?i)\w+ +IN \([^)]*'(runs|agents|checkpoints|workers|live)'[^)]*\)`)
	if found := lists.FindAllString(migrations.Whole(), -1); len(found) > 0 {
		t.Errorf("the schema has %q", found)
	}
}

// PostgreSQL reads the whole answer of such a query again for each row, once it is too large for a hash
// table in work_mem: 262,144 numbers by default. NOT EXISTS is a join.
func TestPostgres_NoScriptHasNotInQuery(t *testing.T) {
	err := fs.WalkDir(os.DirFS("postgres"), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.Contains(read(t, "postgres/"+path), "NOT IN (SELECT") {
			t.Errorf("%s has NOT IN with a query", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
