package sqlite

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"selvedge/internal/engine"
)

var update = flag.Bool("update", false, "write the script that makes a new file")

// drawn are the columns that are another in each file, and what the steps put there.
var drawn = map[string]string{
	"goose_db_version.tstamp":  "datetime('now')",
	"selvedge_file.created_at": "CAST(strftime('%s', 'now') AS INTEGER) * 1000000000",
	"selvedge_file.generation": "(random() & 0x3fffffffffffffff) | 1",
}

// The schema, the rows, and goose's own table of the steps that were taken: all that is in a file,
// but for the views.
func TestNewFile_EqualsAllSteps(t *testing.T) {
	program := ProgramLadder()
	steps := NewLadder(program.Files, program.Steps, program.Views())
	whole := NewLadder(program.Files, program.Steps, program.Views())
	whole.Whole = program.Whole
	want := script(t, steps)
	const path = "../../migrations/sqlite/whole/schema.sql"
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		whole.Whole = want
	} else if strings.TrimSpace(program.Whole) != strings.TrimSpace(want) {
		t.Errorf("%s is not made of the steps as they are: make generate", path)
	}
	if got := script(t, whole); got != want {
		t.Errorf("the script makes\n%s\nand the steps make\n%s", got, want)
	}
}

func TestViewsDigest_IsThatOfTheScript(t *testing.T) {
	program := ProgramLadder()
	want := engine.DigestOf(program.Views())
	if *update {
		if err := os.WriteFile("../../migrations/sqlite/whole/views.sha256", []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if program.Digest != want {
		t.Errorf("the digest of the views is %s, and migrations has %s: make generate", want, program.Digest)
	}
}

// script makes what the ladder makes of an empty file.
func script(t *testing.T, l *Ladder) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("-- What the steps make of an empty file, written down by make generate. Edit the steps.\n")
	err := l.inMemory(t.Context(), l.Last().Version, func(pool *sqlx.DB) error {
		var all []object
		if err := pool.SelectContext(t.Context(), &all, sqlObjects); err != nil {
			return err
		}
		for _, o := range all {
			if o.Type != "view" {
				fmt.Fprintf(&b, "\n%s;\n", o.SQL)
			}
		}
		b.WriteByte('\n')
		for _, o := range all {
			if o.Type != "table" {
				continue
			}
			if err := inserts(t.Context(), &b, pool, o.Name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// inserts writes the statements that put a table's rows there.
func inserts(ctx context.Context, b *strings.Builder, pool *sqlx.DB, table string) error {
	var columns, values, rows []string
	if err := pool.SelectContext(ctx, &columns, "SELECT name FROM pragma_table_info(?)", table); err != nil {
		return err
	}
	for _, c := range columns {
		value := "quote(" + engine.Quoted(c) + ")"
		if expression := drawn[table+"."+c]; expression != "" {
			value = "'" + strings.ReplaceAll(expression, "'", "''") + "'"
		}
		values = append(values, value)
	}
	if err := pool.SelectContext(ctx, &rows,
		"SELECT concat_ws(', ', "+strings.Join(values, ", ")+") FROM "+engine.Quoted(table)); err != nil {
		return err
	}
	for _, row := range rows {
		fmt.Fprintf(b, "INSERT INTO %s (%s) VALUES (%s);\n", engine.Quoted(table), strings.Join(columns, ", "), row)
	}
	return nil
}
