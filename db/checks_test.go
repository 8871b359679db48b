package db_test

import (
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// A planStep is a line of EXPLAIN QUERY PLAN.
type planStep struct {
	ID      int64  `db:"id"`
	Parent  int64  `db:"parent"`
	NotUsed int64  `db:"notused"`
	Detail  string `db:"detail"`
}

// scansInLoops are the steps that read a whole table or subquery again for each row of another.
func scansInLoops(plan []planStep) (found []string) {
	correlated := map[int64]bool{}
	loops := map[int64]int{} // by parent
	for _, step := range plan {
		if strings.HasPrefix(step.Detail, "CORRELATED") {
			correlated[step.ID] = true
		}
		scan := strings.HasPrefix(step.Detail, "SCAN ")
		if !scan && !strings.HasPrefix(step.Detail, "SEARCH ") {
			continue
		}
		if scan && (correlated[step.Parent] || loops[step.Parent] > 0) {
			found = append(found, step.Detail)
		}
		loops[step.Parent]++
	}
	return found
}

// A check of a large file must not take time by the square of what is in it.
func TestInvariantsAreReadInOnePass(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	explain := func(query string) (plan []planStep) {
		if err := d.Read(t.Context(), "explain", func(rx *db.Rx) error {
			return rx.Select(&plan, "EXPLAIN QUERY PLAN "+query)
		}); err != nil {
			t.Fatal(err)
		}
		return plan
	}
	for _, check := range migrations.Checks() {
		if found := scansInLoops(explain(check.Query)); len(found) > 0 {
			t.Errorf("%s, for each row of another: %s", check.Name, strings.Join(found, "; "))
		}
	}
	for _, query := range []string{
		"SELECT 1 FROM runs LEFT JOIN (SELECT id >> 24 AS run, count(*) AS n FROM run_records GROUP BY 1) ON " +
			"run = key",
		"SELECT (SELECT count(*) FROM runs WHERE others = r.others) FROM runs AS r",
	} {
		if plan := explain(query); len(scansInLoops(plan)) == 0 {
			t.Errorf("nothing was noticed in %s: %+v", query, plan)
		}
	}
}

func TestEveryTableHasChecksumsOrAReasonForNone(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	var tables []string
	if err := d.Read(t.Context(), "list tables", func(rx *db.Rx) error {
		tables = nil
		return rx.Select(&tables, `SELECT name FROM sqlite_schema WHERE type = 'table'
			AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	}); err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, sum := range migrations.Checksums {
		covered[sum.Table] = true
	}
	for _, table := range tables {
		if none := slices.Contains(migrations.NoChecksum, table); covered[table] == none {
			t.Errorf("%s: in migrations.Checksums %v, in migrations.NoChecksum %v", table, covered[table], none)
		}
		delete(covered, table)
	}
	for _, table := range migrations.NoChecksum {
		if !slices.Contains(tables, table) {
			t.Errorf("migrations.NoChecksum: there is no table %s", table)
		}
	}
	for table := range covered {
		t.Errorf("migrations.Checksums: there is no table %s", table)
	}
}
