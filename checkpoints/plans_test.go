package checkpoints

import (
	"fmt"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// Every statement finds its rows by an index, and the one that was made for it.
func TestEveryStatementTakesItsIndex(t *testing.T) {
	const byRun = "checkpoints_by_run"
	d := dbtest.Open(t, db.Options{})
	for name, c := range map[string]struct{ query, index string }{
		"sqlFindPaused": {fmt.Sprintf(sqlFindPaused, "0"), byRun},
		"sqlClaimOf":    {sqlClaimOf, byRun},
		"sqlFindClaim":  {sqlFindClaim, byRun},
		"sqlRemove":     {sqlRemove, byRun},
		"sqlList":       {sqlList, byRun},
		"sqlKeyOf":      {sqlKeyOf + sqlWaitingFirst, byRun},
		"sqlStored":     {sqlStored, byRun},
		"first claims":  {sqlClaimsFirst, "checkpoints_claimed"},
		"next claims":   {sqlClaimsBehind, "checkpoints_claimed"},
		"history":       {sqlHistory + sqlHistoryOrder, "checkpoint_history_by_time"},
		"later history": {sqlHistory + sqlHistoryAfter + sqlHistoryOrder, "checkpoint_history_by_time"},
		"a run's past":  {sqlHistory + sqlHistoryOfRun + sqlRunAfter + sqlRunOrder, "checkpoint_history_by_run"},
		"page":          {sqlSummaries + sqlPageOrder, byRun},
		"next page":     {sqlSummaries + sqlBehind + sqlPageOrder, byRun},
		"paused page":   {sqlSummaries + " AND c.state = 'paused'" + sqlPageOrder, byRun},
		"claimed page":  {sqlSummaries + " AND c.state = 'claimed'" + sqlPageOrder, "checkpoints_claimed"},
	} {
		steps := dbtest.Plan(t, d, c.query)
		if !strings.Contains(steps, "INDEX "+c.index+" ") || strings.Contains(steps, "SCAN") ||
			strings.Contains(steps, "TEMP B-TREE") {
			t.Errorf("%s takes another way than %s:\n%s", name, c.index, steps)
		}
	}
}
