package live

import (
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/internal/live"
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
		{Filter{Statuses: []RunStatus{Executing, Planning}}, "live_runs_by_status (scope=? AND status=? AND created_at>?)"},
		{Filter{Session: &session, Statuses: []RunStatus{Completed}}, "live_runs_by_session (scope=? AND session_id=? AND created_at>?)"},
	} {
		statements, err := c.filter.statements()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range statements {
			if plan := planOf(t, d, live.SelectWhole+`WHERE r.scope = ?`+w.text+inOrder); !strings.Contains(plan, c.index) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%+v: %s\n%s", c.filter, w.text, plan)
			}
		}
	}
}

func TestTheViewOfEventsSeeksThoseOfARun(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	plan := planOf(t, d, `SELECT * FROM v_live_events WHERE run = ?`)
	if !strings.Contains(plan, "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)") {
		t.Errorf("it does:\n%s", plan)
	}
}

func planOf(t *testing.T, d *db.DB, query string) string {
	t.Helper()
	var plan []string
	err := d.Read(t.Context(), "explain", func(rx *db.Rx) error {
		var steps []struct {
			ID      int64  `db:"id"`
			Parent  int64  `db:"parent"`
			NotUsed int64  `db:"notused"`
			Detail  string `db:"detail"`
		}
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = 1
		}
		err := rx.Select(&steps, "EXPLAIN QUERY PLAN "+query, args...)
		for _, s := range steps {
			plan = append(plan, s.Detail)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}
