package db_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/maintenance"
	"selvedge/storetest"
)

// mayScan are the statements that may go through a whole table or sort what they found, by what they have in them, and why.
var mayScan = map[string]string{
	"INSERT INTO scopes (":                     "the foreign keys to a new scope are looked for in agents: once a scope",
	"FROM selvedge_file":                       "a table of one row",
	"FROM run_leavings ORDER":                  "what removed runs left is in a queue of its own, and the first is asked for",
	"WHERE owner_id IS NOT NULL AND scope = ?": "sorts the runs that are held, which are few",
	"FROM leases AS l LEFT JOIN owners":        "sorts the reservations of a scope, which are listed as a whole",
	"ORDER BY started_at, run_id DESC LIMIT":   "what it goes through is the bounded query inside it, by its index",
	"coalesce(w.ended_at, 0) DESC":             "a pruning reads all ended workers of a scope, in the order of their ends",
	") AS last, count(*) AS keys FROM":         "what it goes through is the bounded query inside it",
	"SELECT name FROM scopes ORDER BY id":      "the whole list is asked for",
}

// Plans do not depend on how many rows there are, since nothing here ever runs ANALYZE: without its tables SQLite plans by
// the schema alone. See https://www.sqlite.org/optoverview.html, "The SQLite query planner".
func TestNoStatementGoesThroughAWholeTable(t *testing.T) {
	seen := map[string]bool{}
	t.Run("the suite of the stores", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) *db.DB {
			d := dbtest.OpenAt(t, ":memory:", db.Options{})
			t.Cleanup(func() {
				if _, err := maintenance.Recover(context.Background(), d); err != nil && !errors.Is(err, db.ErrClosed) {
					t.Error(err)
				}
				for _, text := range d.Statements(t) {
					seen[text] = true
				}
			})
			return d
		})
	})
	if len(seen) < 150 {
		t.Fatalf("only %d statements were seen", len(seen))
	}
	d := dbtest.Open(t, db.Options{})
	unused := maps.Clone(mayScan)
	for _, text := range slices.Sorted(maps.Keys(seen)) {
		switch word, _, _ := strings.Cut(strings.TrimSpace(text), " "); word {
		case "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA":
			continue
		}
		var found []string
		for step := range strings.SplitSeq(dbtest.Plan(t, d, text), "\n") {
			if strings.HasPrefix(step, "SCAN ") && step != "SCAN CONSTANT ROW" || strings.Contains(step, "TEMP B-TREE") {
				found = append(found, step)
			}
		}
		if len(found) == 0 {
			continue
		}
		allowed := false
		for part := range mayScan {
			if strings.Contains(text, part) {
				allowed = true
				delete(unused, part)
			}
		}
		if !allowed {
			t.Errorf("%s\n%s", text, strings.Join(found, "\n"))
		}
	}
	for part := range unused {
		t.Errorf("no statement with %q scans: it needs no reason", part)
	}
	if got := one[int](t, d, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'"); got != 0 {
		t.Error("something ran ANALYZE")
	}
}
