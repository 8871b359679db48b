//go:build postgres

package main

import (
	"strings"
	"testing"

	"selvedge/test/dbtest"
)

// TestPostgres_MovingPageCommandsWork runs those that need a server, in the page's order, on a file
// with an old tree.
func TestPostgres_MovingPageCommandsWork(t *testing.T) {
	_, blocks := page(t, "docs/moving.md")
	dir := inTerms(t, "small")
	if out, err := sh(dir, "bin/migrate import runs ~/.car --quiet"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address, ran := dbtest.Postgres(t), 0
	for _, b := range only(blocks, "shell") {
		for line := range strings.Lines(b.text) {
			out, err := sh(dir, strings.ReplaceAll(line, "postgres://agents@db.example/agents", "'"+address+"'"))
			if err != nil {
				t.Errorf("docs/moving.md, %s: %v\n%s", strings.TrimSpace(line), err, out)
			}
			if ran++; strings.Contains(line, " move ") && !strings.Contains(out, "rows are the same in both") {
				t.Errorf("%s says\n%s", line, out)
			}
		}
	}
	if ran < 4 {
		t.Errorf("the page has %d commands for a server", ran)
	}
}
