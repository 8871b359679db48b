//go:build nopostgres

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// A program that was built for files only never takes an address for a file's name.
func TestABuildForFilesOnlySaysSoOfAServer(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"up"},
		{"status"},
		{"runs", "list"},
		{"import", "runs", "."},
		{"--db", "POSTGRES://ann@host/database", "up"},
		{"--db", "a.db", "move", "--to", "postgres://ann@host/database"},
	} {
		if args[0] != "--db" {
			args = append([]string{"--db", "postgres://ann@host/database"}, args...)
		} else if exit := run([]string{"--db", "a.db", "up"}, strings.NewReader(""), &bytes.Buffer{},
			&bytes.Buffer{}); exit != 0 {
			t.Fatal("no file can be made")
		}
		var notes bytes.Buffer
		if exit := run(args, strings.NewReader(""), &bytes.Buffer{}, &notes); exit != kindUnsupported.exit ||
			!strings.Contains(notes.String(), "without PostgreSQL") || !strings.Contains(notes.String(), "hint: ") {
			t.Errorf("%q: exit %d: %s", args, exit, notes.String())
		}
	}
	left, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		if !strings.HasPrefix(file.Name(), "a.db") {
			t.Errorf("it made %s", file.Name())
		}
	}
}
