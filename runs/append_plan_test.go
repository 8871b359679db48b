package runs

import (
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// What a question costs must depend on its answer, and not on how many runs and records there are.
func TestPlans_Rows(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	for query, want := range map[string]string{
		sqlRecords:    "SEARCH run_records USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		sqlLastRecord: "SEARCH run_records USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		sqlFindBatch:  "SEARCH run_records USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		sqlFindKey:    "SEARCH run_append_keys USING PRIMARY KEY (run=? AND append_key=?)",
		sqlFindSpent: "SEARCH run_spent_keys USING PRIMARY KEY (scope=? AND run_id=? AND agent_id=? AND " +
			"append_key=?)",
		sqlFindTaken: "SEARCH run_spent_keys USING PRIMARY KEY (scope=? AND run_id=? AND agent_id=? AND " +
			"append_key=?)",
		sqlEntities: "SEARCH runs USING INTEGER PRIMARY KEY (rowid>?)",
		sqlStored: "SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (scope=? AND run_id=? AND " +
			"agent_id=?)\nCORRELATED SCALAR SUBQUERY 1\nSEARCH run_records USING INTEGER PRIMARY KEY (rowid>? " +
			"AND rowid<?)",
	} {
		if got := dbtest.Plan(t, d, query); got != want {
			t.Errorf("%s:\n%s\nnot\n%s", query, got, want)
		}
	}
}

// The hot statement must neither fill a temporary table nor visit more than the run, its last
// record and the new one.
func TestAnAppendOpensNoTemporaryTable(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	for _, query := range []string{sqlAppendTurn, sqlAppendRow} {
		args := make([]any, strings.Count(query, "?"))
		err := d.Read(t.Context(), "explain", func(rx *db.Rx) error {
			for row, err := range rx.Query("EXPLAIN "+query, args...) {
				if err != nil {
					return err
				}
				step := make([]any, 8)
				if err := row.Scan(&step[0], &step[1], &step[2], &step[3], &step[4], &step[5], &step[6],
					&step[7]); err != nil {
					return err
				}
				if step[1] == "OpenEphemeral" || step[1] == "OpenAutoindex" || step[1] == "SorterOpen" {
					t.Errorf("%s: step %v", query, step)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
