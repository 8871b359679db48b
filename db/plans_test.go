package db_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
	"selvedge/test/storetest"
)

// mayScan are the statements that may go through a whole table or sort what they found, by what
// they have in them, and why.
var mayScan = map[string]string{
	"INSERT INTO scopes (": "the foreign keys to a new scope are looked for in agents: " +
		"once a scope",
	"FROM selvedge_file": "a table of one row",
	"FROM run_leavings ORDER": "what removed runs left is in a queue of its own, and the " +
		"first is asked for",
	"WHERE owner_id IS NOT NULL AND scope = ?": "sorts the runs that are held, which are few",
	"FROM leases AS l LEFT JOIN owners":        "sorts the reservations of a scope, which are listed as a whole",
	"ORDER BY started_at, run_id DESC LIMIT": "what it goes through is the bounded query inside it, by " +
		"its index",
	"coalesce(w.ended_at, 0) DESC": "a pruning reads all ended workers of a scope, in the order " +
		"of their ends",
	"FROM sqlite_sequence":        "it has a row a table, and the last rowid is one step",
	"UPDATE sqlite_sequence":      "the same",
	") AS last, count(*) AS keys": "what it goes through is the bounded query inside it",
	"LIMIT ?5) AS aside": "sorts two lists together, each of which is bounded and " +
		"found by its index",
	"SELECT name FROM scopes ORDER BY id": "the whole list is asked for",
}

// Plans do not depend on how many rows there are, since nothing here ever runs ANALYZE: without its
// tables SQLite plans by the schema alone. See https://www.sqlite.org/optoverview.html, "The SQLite
// query planner".
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
	reasons := newReasons(mayScan)
	for _, text := range slices.Sorted(maps.Keys(seen)) {
		switch word, _, _ := strings.Cut(strings.TrimSpace(text), " "); word {
		case "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA":
			continue
		}
		var found []string
		for step := range strings.SplitSeq(dbtest.Plan(t, d, text), "\n") {
			if strings.HasPrefix(step, "SCAN ") && step != "SCAN CONSTANT ROW" ||
				strings.Contains(step, "TEMP B-TREE") {
				found = append(found, step)
			}
		}
		if len(found) > 0 && !reasons.allow(text) {
			t.Errorf("%s\n%s", text, strings.Join(found, "\n"))
		}
	}
	reasons.check(t, mayScan)
	if got := one[int](t, d, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'"); got != 0 {
		t.Error("something ran ANALYZE")
	}
}

// reasons are why statements may scan, and which of them were given.
type reasons struct {
	why   map[string]string
	given map[string]bool
}

func newReasons(lists ...map[string]string) reasons {
	r := reasons{map[string]string{}, map[string]bool{}}
	for _, list := range lists {
		maps.Copy(r.why, list)
	}
	return r
}

func (r reasons) allow(text string) (allowed bool) {
	for part := range r.why {
		if strings.Contains(text, part) {
			r.given[part], allowed = true, true
		}
	}
	return allowed
}

// check wants all reasons of a list to have been given.
func (r reasons) check(t *testing.T, list map[string]string) {
	t.Helper()
	for part := range list {
		if !r.given[part] {
			t.Errorf("no statement with %q scans: it needs no reason", part)
		}
	}
}
