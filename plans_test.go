package selvedge

import (
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// What a list costs depends on what it shows, not on how many runs and steps there are.
func TestPlans(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	for _, c := range []struct{ query, index string }{
		{sqlNeeds + sqlNeedsOrder, "run_steps_waiting"},
		{sqlWaitingStep, "run_steps_by_run"},
		{sqlFailed, "runs_failed"},
		{sqlReady, "runs_ready"},
	} {
		plan := dbtest.Plan(t, d, c.query)
		if !strings.Contains(plan, "INDEX "+c.index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("not by %s:\n%s\n%s", c.index, c.query, plan)
		}
	}
}
