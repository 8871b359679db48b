package maintenance_test

import (
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/maintenance"
	"selvedge/runs"
)

func TestADeepCheckComparesARunWithItsTrace(t *testing.T) {
	for column, word := range map[string]string{"intent": "another intent or start", "summary": "another summary"} {
		d := dbtest.Open(t, db.Options{})
		s := runs.NewStore(d, runs.Options{})
		outcome := &runs.AgentOutcome{Status: runs.OutcomeFailure, Summary: "the disk is full"}
		if err := s.Append(t.Context(), runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{
			runs.Started{RunID: "r", AgentID: "a", Intent: "fix"}, runs.Ended{RunID: "r", AgentID: "a", Termination: runs.Termination{Outcome: outcome}},
		}}); err != nil {
			t.Fatal(err)
		}
		if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) != 0 {
			t.Fatalf("a whole file: %v, %v", x.Problems, err)
		}
		err := d.Write(t.Context(), "edit", func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE runs SET ` + column + ` = 'all went well', checksum = NULL`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) != 1 || !strings.Contains(x.Problems[0].Detail, word) {
			t.Errorf("%s: %v, %v", column, x.Problems, err)
		}
	}
}
