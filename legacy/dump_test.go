package legacy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
)

// clockColumns hold times of ours, and the number of the file: they differ between two imports of
// the same tree.
var clockColumns = []string{"generation", "first_at", "last_at", "imported_at", "found_at", "created_at"}

// bookTables tell who imported, and when: two imports differ in them.
var bookTables = []string{"owners", "leases", "imports"}

// dump gives every row of every table as text, but for those tables and for our own times.
func dump(t testing.TB, d *db.DB, but ...string) []string {
	t.Helper()
	var rows []string
	err := d.Read(context.Background(), "dump", func(rx *db.Rx) error {
		rows = nil
		var tables []string
		if err := rx.Select(&tables, `SELECT name FROM sqlite_schema WHERE type = 'table'
			AND name NOT LIKE 'goose%' ORDER BY name`); err != nil {
			return err
		}
		for _, table := range tables {
			if slices.Contains(but, table) || slices.Contains(bookTables, table) || table == "sqlite_sequence" &&
				len(but) > 0 {
				continue
			}
			if err := dumpTable(rx, table, &rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func dumpTable(rx *db.Rx, table string, rows *[]string) error {
	var columns []string
	if err := rx.Select(&columns, `SELECT name FROM pragma_table_info(?)`, table); err != nil {
		return err
	}
	isClock := func(c string) bool { return slices.Contains(clockColumns, c) }
	if slices.ContainsFunc(columns, isClock) { // whose checksum differs with it
		columns = slices.DeleteFunc(columns, func(c string) bool { return isClock(c) || c == "checksum" })
	}
	var quoted []string
	for _, c := range columns {
		quoted = append(quoted, `quote("`+c+`")`)
	}
	var lines []string
	if err := rx.Select(&lines, fmt.Sprintf(`SELECT %s FROM "%s"`, strings.Join(quoted, "||' '||"),
		table)); err != nil {
		return err
	}
	slices.Sort(lines)
	for _, line := range lines {
		if table == "sqlite_sequence" && slices.ContainsFunc(bookTables,
			func(book string) bool { return strings.HasPrefix(line, "'"+book+"'") }) {
			continue
		}
		*rows = append(*rows, table+": "+line)
	}
	return nil
}

func firstDifference(want, got []string) string {
	for i := range max(len(want), len(got)) {
		w, g := "nothing", "nothing"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			return fmt.Sprintf("%.400s became %.400s", w, g)
		}
	}
	return ""
}
