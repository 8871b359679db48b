package dbtest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"selvedge/db"
)

// marks are parameters of a statement, as SQLite counts them.
var marks = regexp.MustCompile(`\?(\d*)`)

// Plan returns SQLite's query plan for a statement, one step a line. Its parameters are bound to
// 1.
func Plan(t testing.TB, d *db.DB, statement string) string {
	t.Helper()
	args := make([]any, 0, 10)
	for _, mark := range marks.FindAllStringSubmatch(statement, -1) {
		at := len(args) + 1
		if mark[1] != "" {
			at, _ = strconv.Atoi(mark[1])
		}
		args = append(args, make([]any, max(0, at-len(args)))...)
	}
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
