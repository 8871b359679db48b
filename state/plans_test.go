package state

import (
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// Every statement finds its rows by an index, and the one that was made for it.
func TestEveryStatementTakesItsIndex(t *testing.T) {
	const byName = "sqlite_autoindex_state_values_1"
	const order = ` ORDER BY owner, state_key LIMIT ?`
	d := dbtest.Open(t, db.Options{})
	for name, c := range map[string]struct{ query, index string }{
		"get":             {sqlGet, byName},
		"set a version":   {strings.TrimSuffix(sqlSetVersion, written), "PRIMARY KEY"},
		"delete":          {sqlDelete, byName},
		"page":            {sqlPage + order, byName},
		"next page":       {sqlPage + ` AND (owner, state_key) > (?, ?)` + order, byName},
		"an owner's page": {sqlPage + ` AND owner = ? AND state_key > ?` + order, byName},
		"find":            {sqlFind, "state_values_by_key"},
		"oldest":          {sqlNewest, "state_values_by_age"},
	} {
		steps := dbtest.Plan(t, d, c.query)
		if !strings.Contains(steps, c.index+" ") || strings.Contains(steps, "SCAN") ||
			strings.Contains(steps, "TEMP B-TREE") {
			t.Errorf("%s takes another way than %s:\n%s", name, c.index, steps)
		}
	}
}
