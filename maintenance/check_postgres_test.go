//go:build postgres

package maintenance_test

import (
	"fmt"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// Another program changes a text, in one row of each table that has any, and leaves the checksum as it was.
func TestPostgresACheckFindsWhatAnotherProgramChanged(t *testing.T) {
	address := dbtest.Postgres(t)
	filled(t, address, 1)
	var changed []string
	for _, sum := range migrations.Checksums {
		for _, column := range sum.Covered {
			rows := dbtest.PostgresExec(t, address, fmt.Sprintf(`
CREATE OR REPLACE FUNCTION pg_temp.spoil() RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE n BIGINT;
BEGIN
    UPDATE selvedge.%[1]q SET %[2]q = %[2]q || 'x'
    WHERE ctid = (SELECT min(ctid) FROM selvedge.%[1]q WHERE %[3]q IS NOT NULL AND %[2]q <> ''
    AND pg_typeof(%[2]q) = 'text'::regtype);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
EXCEPTION WHEN OTHERS THEN RETURN 0; -- a column of another type, or a word of a list
END $$;
SELECT pg_temp.spoil()`, sum.Table, column, sum.Column))
			if string(rows[0][0]) == "1" {
				changed = append(changed, sum.Table)
				break
			}
		}
	}
	for _, of := range []string{
		"runs", "run_records", "live_runs", "live_events", "agents", "checkpoints",
		"worker_runtimes", "workers", "scopes",
	} {
		if !slices.Contains(changed, of) {
			t.Errorf("nothing was changed in %s", of)
		}
	}
	d := dbtest.OpenAt(t, address, db.Options{ReadOnly: true})
	found, err := maintenance.Examine(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, p := range found.Problems {
		if p.Check == "checksums" {
			named = append(named, p.Table)
		}
	}
	slices.Sort(changed)
	slices.Sort(named)
	if !slices.Equal(named, changed) {
		t.Errorf("check names %q, and changed were %q", named, changed)
	}
}

// The records on a server are compared with their rows of usage, as in a file.
func TestPostgres_CheckDerivesUsageAnew(t *testing.T) {
	address := dbtest.Postgres(t)
	d := dbtest.OpenAt(t, address, db.Options{})
	counting(t, d)
	x, err := maintenance.Check(t.Context(), d)
	if err != nil || len(x.Problems) != 0 {
		t.Errorf("before: %v, %v", x.Problems, err)
	}
	dbtest.PostgresExec(t, address, `DELETE FROM selvedge.usage_records WHERE sequence = 3`)
	dbtest.PostgresExec(t, address, `DELETE FROM selvedge.usage_runs WHERE session_id IS NOT NULL`)
	if x, err = maintenance.Check(t.Context(), d); err != nil || len(x.Problems) != 2 {
		t.Errorf("after: %v, %v", x.Problems, err)
	}
}
