package live

import (
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// What a list costs depends on the page, and not on how many runs there are.
func TestEveryListFindsItsRunsByAnIndex(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	session := "s"
	for _, c := range []struct {
		filter Filter
		index  string
	}{
		{Filter{}, "live_runs_by_start (scope=? AND created_at>?)"},
		{Filter{Session: &session}, "live_runs_by_session (scope=? AND session_id=? AND created_at>?)"},
		{Filter{Statuses: []RunStatus{Executing}}, "live_runs_by_status (scope=? AND status=? AND created_at>?)"},
		{Filter{Statuses: []RunStatus{Waiting}}, "live_runs_by_status (scope=? AND status=? AND created_at>?)"},
		{
			Filter{Statuses: []RunStatus{Executing, Planning}},
			"live_runs_by_status (scope=? AND status=? AND created_at>?)",
		},
		{
			Filter{Session: &session, Statuses: []RunStatus{Completed}},
			"live_runs_by_session (scope=? AND session_id=? AND created_at>?)",
		},
	} {
		statements, err := c.filter.statements()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range statements {
			if plan := dbtest.Plan(t, d, selectShown+`WHERE r.scope = ?`+w.text+inOrder); !strings.Contains(plan,
				c.index) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%+v: %s\n%s", c.filter, w.text, plan)
			}
			newest := strings.Replace(c.index, "created_at>?", "created_at<?", 1)
			if plan := dbtest.Plan(t, d, selectShown+`WHERE r.scope = ?`+w.text+newestFirst); !strings.Contains(plan,
				newest) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("the newest of %+v: %s\n%s", c.filter, w.text, plan)
			}
		}
	}
}

func TestTheViewOfEventsSeeksThoseOfARun(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	plan := dbtest.Plan(t, d, `SELECT * FROM v_live_events WHERE run = ?`)
	if !strings.Contains(plan, "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)") {
		t.Errorf("it does:\n%s", plan)
	}
}
