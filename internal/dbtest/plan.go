package dbtest

import (
	"strings"
	"testing"

	"selvedge/db"
)

// Plan is what SQLite says it will do for a statement, one step a line. Its parameters are bound to 1.
func Plan(t testing.TB, d *db.DB, statement string) string {
	t.Helper()
	args := make([]any, strings.Count(statement, "?"))
	for i := range args {
		args[i] = 1
	}
	var steps []struct {
		ID      int64  `db:"id"`
		Parent  int64  `db:"parent"`
		NotUsed int64  `db:"notused"`
		Detail  string `db:"detail"`
	}
	err := d.Read(t.Context(), "explain", func(rx *db.Rx) error {
		return rx.Select(&steps, "EXPLAIN QUERY PLAN "+statement, args...)
	})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	lines := make([]string, len(steps))
	for i, step := range steps {
		lines[i] = step.Detail
	}
	return strings.Join(lines, "\n")
}
