package runs

import (
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/test/dbtest"
)

// What a question costs must depend on its answer, and not on how many runs and records there are.
func TestPlans(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	const seek = "SEARCH run_records USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
	const wait = "CORRELATED SCALAR SUBQUERY 1\nSEARCH w USING COVERING INDEX run_steps_by_run (run=?)\n"
	const shown = wait + "CORRELATED SCALAR SUBQUERY 2\n" + seek
	const pin = "SEARCH p USING PRIMARY KEY (scope=? AND store=? AND id=? AND owner=?)"
	const lease = "SEARCH l USING COVERING INDEX sqlite_autoindex_leases_1 (scope=? AND kind=? AND name=?)\n" +
		"CORRELATED SCALAR SUBQUERY 3\nSEARCH w USING COVERING INDEX run_steps_by_run (run=?)"
	page := func(f Filter, tied bool) string {
		c, err := f.where()
		if err != nil {
			t.Fatal(err)
		}
		query := sqlSummary + c.text + ` AND started_at IS NOT NULL AND scope = ?`
		if tied {
			query += ` AND started_at = ? AND (run_id, agent_id) > (?, ?)`
		} else {
			query += ` AND started_at < ?`
		}
		return query + summaryOrder + ` LIMIT ` + paging.BoundLimit
	}
	for _, c := range []struct{ name, query, want string }{
		{
			"the list of an agent", page(Filter{Agent: new("a")}, false),
			"SEARCH runs USING INDEX runs_by_agent (scope=? AND agent_id=? AND started_at>? AND started_at<?)\n" +
				shown,
		},
		{
			"the list of a scope", page(Filter{}, false),
			"SEARCH runs USING INDEX runs_by_start (scope=? AND started_at>? AND started_at<?)\n" + shown,
		},
		{
			"runs that started together", page(Filter{}, true),
			"SEARCH runs USING INDEX runs_by_start (scope=? AND started_at=? AND (run_id,agent_id)>(?,?))\n" + shown,
		},
		{
			"open runs", page(Filter{Statuses: []RunStatus{StatusInProgress}}, false),
			"SEARCH runs USING INDEX runs_open (scope=? AND started_at>? AND started_at<?)\n" +
				strings.Replace(wait, "1", "3", 1) + shown,
		},
		{
			"open runs, those that wait too", page(Filter{Statuses: []RunStatus{
				StatusInProgress,
				StatusWaiting,
			}}, false),
			"SEARCH runs USING INDEX runs_open (scope=? AND started_at>? AND started_at<?)\n" + shown,
		},
		{
			"runs that wait", page(Filter{Statuses: []RunStatus{StatusWaiting}}, false),
			"SEARCH runs USING INDEX runs_open (scope=? AND started_at>? AND started_at<?)\n" +
				strings.Replace(wait, "1", "3", 1) + shown,
		},
		{"one run", sqlFindRun, "SEARCH runs USING INDEX sqlite_autoindex_runs_1 (scope=? AND run_id=? " +
			"AND agent_id=?)"},
		{"a run of any agent", sqlRunOfAny, "SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (scope=? " +
			"AND run_id=?)"},
		{"runs by prefix", sqlFindRuns, "SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (scope=? AND " +
			"run_id>? AND run_id<?)"},
		{
			"agents with too many runs", sqlFullAgents,
			"SEARCH run_agents USING PRIMARY KEY (scope=? AND agent_id>?)",
		},
		{
			"runs that ended too long ago", sqlEndedBefore,
			"SEARCH runs USING INDEX runs_by_end (scope=? AND ended_at>? AND ended_at<?)\nCORRELATED SCALAR " +
				"SUBQUERY 1\n" + pin + "\nCORRELATED SCALAR SUBQUERY 2\n" + lease,
		},
		{
			"the oldest runs of an agent", sqlOldestOfAgent,
			"CO-ROUTINE runs\nSEARCH runs USING INDEX runs_by_agent (scope=? AND agent_id=? AND " +
				"started_at>?)\nSCAN runs\nCORRELATED SCALAR SUBQUERY 1\n" + pin + "\nCORRELATED SCALAR SUBQUERY 2\n" +
				lease,
		},
		{
			"the newest ends", sqlNewestEnded,
			"SEARCH runs USING INDEX runs_by_end (scope=? AND ended_at<?)\nCORRELATED SCALAR SUBQUERY 1\n" + pin +
				"\nCORRELATED SCALAR SUBQUERY 2\n" + lease,
		},
		{
			"how many runs have a start", sqlCountOthers,
			"SCAN CONSTANT ROW\nSCALAR SUBQUERY 1\nSEARCH runs USING COVERING INDEX runs_by_start (scope=? AND " +
				"started_at>?)\nSCALAR SUBQUERY 2\nSEARCH runs USING COVERING INDEX runs_open (scope=? AND started_at>?)",
		},
		{"the end of a trace", sqlTraceEnd, "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)\n" +
			"CORRELATED SCALAR SUBQUERY 1\n" + seek},
		{"what a run waits for", sqlWaits, "COMPOUND QUERY\nLEFT-MOST SUBQUERY\nSEARCH r USING COVERING INDEX " +
			"sqlite_autoindex_runs_1 (scope=? AND run_id=?)\n" +
			"SEARCH s USING COVERING INDEX run_steps_by_run (run=?)\nUNION ALL\n" +
			"SEARCH checkpoints USING COVERING INDEX checkpoints_by_run (scope=? AND run_id=?)\n" +
			"UNION ALL\nSEARCH r USING INDEX sqlite_autoindex_live_runs_1 (scope=? AND run_id=?)\nCORRELATED " +
			"SCALAR SUBQUERY 3\nSEARCH live_events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	} {
		if got := dbtest.Plan(t, d, c.query); got != c.want {
			t.Errorf("%s:\n%s\nnot\n%s", c.name, got, c.want)
		}
	}
}
