//go:build postgres

package postgres_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

var update = flag.Bool("update", false, "write migrations/postgres/objects.txt")

func TestPostgres_ObjectsAreWrittenDown(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	var objects []string
	if out := e.Read(t.Context(), "test", func(x engine.Rx) error {
		return x.Select(&objects, postgres.SQLObjects, nil)
	}); out.Err != nil {
		t.Fatal(out.Err)
	}
	if *update {
		text := strings.Join(objects, "\n") + "\n"
		if err := os.WriteFile("../../migrations/postgres/objects.txt", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !slices.Equal(objects, migrations.PostgresObjects()) {
		t.Error("migrations/postgres/objects.txt is not what the tables have: run this test with -update")
	}
}

// As after a pg_restore that failed in the middle, or a person who drops an index that seems unused.
func TestPostgresCheck_MissingObjectsAreNamed(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	for _, c := range []struct{ statement, want string }{
		{"DROP INDEX selvedge.runs_failed", "index runs_failed of runs"},
		{"ALTER TABLE selvedge.runs DISABLE TRIGGER runs_count", "trigger runs_count of runs"},
		{"ALTER TABLE selvedge.runs DROP CONSTRAINT runs_parent_fkey", "foreign key runs_parent_fkey of runs"},
		{"ALTER TABLE selvedge.workers DROP CONSTRAINT workers_pkey CASCADE", "index workers_pkey of workers"},
	} {
		dbtest.PostgresExec(t, address, c.statement)
		checked, err := e.Check(t.Context())
		if err != nil || !slices.ContainsFunc(checked.Problems, func(p engine.Problem) bool {
			return p.Detail == c.want+" is missing"
		}) {
			t.Errorf("after %s: %v, %v", c.statement, checked.Problems, err)
		}
	}
}
