//go:build postgres

package docs_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

func TestPostgres_AllTablesHaveReplicaIdentity(t *testing.T) {
	address := dbtest.Postgres(t)
	d := dbtest.OpenAt(t, address, db.Options{})
	dbtest.PostgresExec(t, address, "CREATE PUBLICATION all_of_it FOR ALL TABLES")
	for _, row := range dbtest.PostgresExec(t, address,
		"SELECT tablename FROM pg_tables WHERE schemaname = 'selvedge'") {
		if err := d.Write(t.Context(), "delete", func(tx *db.Tx) error {
			_, err := tx.Exec("DELETE FROM " + string(row[0]) + " WHERE 1 = 0")
			return err
		}); err != nil {
			t.Errorf("a deletion from %s is refused: %v", row[0], err)
		}
	}
}

func TestPostgres_TenantRolesAreEnough(t *testing.T) {
	address := dbtest.PostgresAlone(t, "..") // roles are of a whole server
	owner := dbtest.OpenAt(t, address, db.Options{})
	for _, script := range fenced(t, "tenants.md", "sql") {
		dbtest.PostgresExec(t, address, script)
	}
	as := func(name, role string) string {
		dbtest.PostgresExec(t, address, fmt.Sprintf("CREATE ROLE %s LOGIN IN ROLE %s", name, role))
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(name)
		return u.String()
	}
	writer := dbtest.OpenAt(t, as("program", "selvedge_writer"), db.Options{})
	for id, d := range map[string]*db.DB{"owner": owner, "writer": writer} {
		if err := runs.NewStore(d, runs.Options{Scope: "tenant"}).WriteStarted(t.Context(),
			runs.Started{RunID: id, AgentID: "a", Intent: "work"}); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	reader := dbtest.OpenAt(t, as("report", "selvedge_reader"), db.Options{ReadOnly: true})
	if list, err := runs.NewStore(reader, runs.Options{Scope: "tenant"}).ListRuns(t.Context(),
		"a"); err != nil || len(list) != 2 {
		t.Errorf("the reader sees %v, %v", list, err)
	}
	for name, d := range map[string]*db.DB{"writer": writer, "reader": reader} {
		if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
			t.Errorf("the check of the %s says %v, %v", name, x.Problems, err)
		}
	}
	if err := maintenance.Scrub(t.Context(), writer); err == nil || !strings.Contains(db.Hint(err), "owner") {
		t.Errorf("who does not own the tables is told %v (%s)", err, db.Hint(err))
	}
	if _, err := db.Open(t.Context(), as("stranger", "pg_monitor"), db.Options{ReadOnly: true}); errors.Is(err,
		db.ErrNotFound) || !strings.Contains(db.Hint(err), "GRANT") {
		t.Errorf("who has no right on the schema is told %v (%s)", err, db.Hint(err))
	}
	d, err := db.Open(t.Context(), as("nobody", "selvedge_reader"), db.Options{})
	if err != nil {
		return // it can't write
	}
	defer d.Close()
	if err := runs.NewStore(d, runs.Options{}).WriteStarted(t.Context(),
		runs.Started{RunID: "r", AgentID: "a"}); err == nil {
		t.Error("a reader writes")
	}
}
