//go:build postgres

package docs_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"selvedge/migrations"
	"selvedge/test/dbtest"
)

func TestPostgres_StepReadsUsageThatIsThere(t *testing.T) {
	n, server := countedNight(t), dbtest.PostgresSchema(t)
	copied(t, n.db, server)
	step, err := fs.ReadFile(migrations.Postgres(), "00023_usage.sql")
	n.must(err)
	_, fill, _ := strings.Cut(string(step), "-- The functions of the views")
	fill, _, found := strings.Cut(fill, "-- +goose Down")
	if !found {
		t.Fatal("the step has no such parts")
	}
	dbtest.PostgresScript(t, server, "SET search_path = selvedge; DELETE FROM usage_runs;\n-- "+fill)
	want := fileRows(t, n.db, usageRows, 16)
	if got := rowsOf(t, server, usageRows); fmt.Sprint(got) != fmt.Sprint(want) || len(want) == 0 {
		t.Errorf("the step read\n%v\nwant\n%v", got, want)
	}
}

// A query for one run, agent or day reads its rows by an index.
func TestPostgres_UsageOfOneRunIsByIndex(t *testing.T) {
	server := dbtest.PostgresSchema(t)
	dbtest.PostgresScript(t, server, `SET search_path = selvedge;
INSERT INTO scopes (id, name) VALUES (1, '') ON CONFLICT DO NOTHING;
INSERT INTO usage_runs (id, scope, run_id, agent_id, recorded_at)
SELECT 2 * n, 1, 'r' || n, 'a' || n % 1000, n FROM generate_series(1, 20000) AS n;
INSERT INTO usage_records (usage_run, account, sequence, recorded_at, output_tokens)
SELECT w.id, 'turn', n, w.recorded_at, 1 FROM usage_runs AS w, generate_series(1, 3) AS n;
ANALYZE usage_runs; ANALYZE usage_records`)
	for _, where := range []string{"run_id = 'r7'", "agent_id = 'a7'", "recorded_at_ns BETWEEN 7 AND 9"} {
		plan := fmt.Sprint(rowsOf(t, server,
			"EXPLAIN SELECT sum(output_tokens) FROM selvedge.v_usage WHERE "+where))
		for _, table := range []string{"usage_runs", "usage_records"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s goes through %s:\n%s", where, table, plan)
			}
		}
	}
}
