//go:build postgres

package db_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/test/storetest"
)

// mayScanOnAServer are those that do so there alone, for its indexes or its planner.
var mayScanOnAServer = map[string]string{
	"DELETE FROM sessions WHERE seen <": "a row for each connection that writes, looked " +
		"through when one is made",
	"AND state = 'claimed' AND epoch IS NOT DISTINCT": "has the row's id; of an empty table any " +
		"index will do",
}

// A server plans by what it knows of the rows. This is about what its indexes let it do: no
// statement sorts or goes through a whole table where there is another way, whatever it costs in an
// empty one.
func TestPostgresNoStatementGoesThroughAWholeTable(t *testing.T) {
	var seen dbtest.PostgresStatements
	dbtest.OnPostgres(t, func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) *db.DB {
			return dbtest.OpenAt(t, seen.Through(t, dbtest.Path(t)), db.Options{})
		})
	})
	var texts []string
	for _, text := range seen.Texts() {
		switch word, _, _ := strings.Cut(strings.TrimSpace(text), " "); word {
		case "SELECT", "INSERT", "UPDATE", "DELETE", "WITH":
			texts = append(texts, text)
		}
	}
	if len(texts) < 150 {
		t.Fatalf("only %d statements were seen", len(texts))
	}
	address := dbtest.Postgres(t)
	dbtest.OpenAt(t, address, db.Options{})
	reasons := newReasons(mayScan, mayScanOnAServer)
	for text, plan := range dbtest.PostgresPlans(t, address, texts) {
		var explained []struct{ Plan node }
		if err := json.Unmarshal(plan, &explained); err != nil {
			t.Fatal(err)
		}
		if found := explained[0].Plan.scans(); len(found) > 0 && !reasons.allow(text) {
			t.Errorf("%s\n%s", text, strings.Join(found, "\n"))
		}
	}
	reasons.check(t, mayScanOnAServer)
}

// A node of a plan. See https://www.postgresql.org/docs/15/using-explain.html.
type node struct {
	Type      string   `json:"Node Type"`
	Relation  string   `json:"Relation Name"`
	Index     string   `json:"Index Name"`
	Cond      string   `json:"Index Cond"`
	Filter    string   `json:"Filter"`
	Sort      []string `json:"Sort Key"`
	Presorted []string `json:"Presorted Key"`
	Plans     []node
}

// isNumber reports whether rows are sorted by their number, which an index of a file ends with, and
// one of a server doesn't.
func isNumber(key string) bool {
	column := strings.TrimSuffix(key[strings.LastIndex(key, ".")+1:], " DESC")
	return column == "id" || column == "key"
}

// scans are the steps that go through a whole table or index, or sort.
func (n node) scans() (found []string) {
	switch n.Type {
	case "Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan":
		if n.Cond == "" {
			found = append(found, fmt.Sprintf("%s of %s %s, filter %s", n.Type, n.Relation, n.Index, n.Filter))
		}
	case "Sort":
		found = append(found, fmt.Sprintf("Sort by %v", n.Sort))
	// It sorts only what shares the beginning of a long text (see paging.Start) or all but the row's number.
	case "Incremental Sort":
		last := n.Presorted[len(n.Presorted)-1]
		if !strings.Contains(strings.ToLower(last), "substr(") && !isNumber(n.Sort[len(n.Presorted)]) {
			found = append(found, fmt.Sprintf("Sort by %v behind %v", n.Sort, n.Presorted))
		}
	}
	for _, below := range n.Plans {
		found = append(found, below.scans()...)
	}
	return found
}
