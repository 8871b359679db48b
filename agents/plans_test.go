package agents

import (
	"fmt"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/test/dbtest"
)

// Every statement finds its rows by an index, and the one that was made for it; see
// migrations/sqlite/00012_agents.sql.
func TestEveryStatementTakesItsIndex(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	is := func(column string) string { return ` AND ` + paging.Same(column, "?") } // as Filter.where adds it
	for name, c := range map[string]struct{ query, index string }{
		"sqlByHeddleSession": {sqlByHeddleSession, "agents_by_heddle_session"},
		"sqlByClient":        {sqlByClient, "agents_by_client"},
		"sqlByActor":         {sqlByActor, "agents_by_actor"},
		"sqlParentOf":        {sqlParentOf, "agents_by_actor"},
		"sqlPaths":           {sqlPaths, "agents_by_path"},
		"sqlHeads": {
			fmt.Sprintf(sqlHeads, sqlPageSince+sqlPageUntil+is("a.thread")+sqlPageStatus),
			"PRIMARY KEY",
		},
		"sqlIsFresh":    {sqlIsFresh, "agents_by_session"},
		"sqlBySession":  {sqlBySession, "agents_by_session"},
		"sqlList":       {sqlList, "agents_by_start"},
		"sqlPage":       {sqlPage + sqlPageOrder, "agents_by_start"},
		"sqlPageStatus": {sqlPage + sqlPageStatus + sqlPageOrder, "agents_by_start"},
		"of a thread":   {sqlPage + is("a.thread") + sqlPageOrder, "agents_by_thread_start"},
		"of a session": {
			sqlPage + sqlPageActive + is("a.heddle_session_id") + sqlPageOrder, "agents_by_heddle_session",
		},
		"of a client":    {sqlPage + sqlPageActive + is("a.client_instance_id") + sqlPageOrder, "agents_by_client"},
		"of an actor":    {sqlPage + sqlPageActive + is("a.native_actor_key") + sqlPageOrder, "agents_by_actor"},
		"sqlStaleThere":  {sqlStaleThere, "agents_by_end"},
		"sqlPutAside":    {sqlPutAside, "agents_by_end"},
		"sqlPutAsideOne": {sqlPutAsideOne, "agents_by_session"},
		"sqlDelete":      {sqlDelete, "agents_by_session"},
		"sqlOnThread":    {sqlOnThread, "agents_by_thread"},
		"sqlThreadTaken": {sqlThreadTaken, "agents_by_thread"},
		"sqlJudgeAll":    {sqlJudgeAll, "agents_by_start"},
		"sqlJudgeThread": {sqlJudgeThread, "agents_by_thread"},
		"sqlForQuery":    {sqlForQuery, "agents_by_session"},
		"sqlHeld":        {sqlHeld, "sqlite_autoindex_agent_reservations_2"},
		"sqlHolder":      {sqlHolder, "sqlite_autoindex_agent_reservations_2"},
		"sqlKeyOf":       {sqlKeyOf, "agents_by_session"},
		"sqlEnded":       {sqlEndedThere, "agents_by_end"},
		"sqlEndedAside":  {sqlEndedAside, "agents_aside_by_end"},
	} {
		plan := dbtest.Plan(t, d, c.query)
		if name == "sqlPaths" && !strings.Contains(plan, "COVERING") {
			t.Errorf("%s reads rows:\n%s", name, plan)
		}
		if !strings.Contains(plan, " "+c.index+" ") || scans(plan) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s takes another way than %s:\n%s", name, c.index, plan)
		}
	}
	// What looks at all active agents has to sort them: the first match by id is the one.
	if plan := dbtest.Plan(t, d, sqlActive); scans(plan) {
		t.Errorf("sqlActive:\n%s", plan)
	}
}

// scans reports whether a plan goes through a whole table or index.
func scans(plan string) bool {
	return strings.Contains(strings.ReplaceAll(plan, "SCAN CONSTANT ROW", ""), "SCAN")
}
