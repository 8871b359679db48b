//go:build postgres

package docs_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"selvedge"
	"selvedge/db"
	"selvedge/legacy"
	"selvedge/runs"
	"selvedge/state"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// TestPostgresAnswersTheViewsAsAFile copies every row of files on which these pages' tests and the
// old trees have left something into a server's tables, and compares all that the views answer.
func TestPostgresAnswersTheViewsAsAFile(t *testing.T) {
	server, answered := dbtest.PostgresSchema(t), map[string]int{}
	atNightsEnd = func(n *night) {
		n.t.Helper()
		sameAnswers(n.t, n.db, server, answered)
	}
	t.Cleanup(func() { atNightsEnd = nil })

	t.Run("use", TestNoUseIsCountedTwice)
	t.Run("what an agent cost", TestUsage_StaysWhenAgentPutAside)
	t.Run("times", TestViews_TimesSortAndHaveOneWidth)
	t.Run("starts and ends", TestRun_EndBelongsToLastStart)
	t.Run("columns of records", TestUsage_TokensToolsAndErrorsAreColumns)
	t.Run("a night of work", TestOperator_QuestionsAreShortQueriesWithAnswers)
	t.Run("reservations", func(t *testing.T) {
		n := newNight(t)
		for kind, o := range map[string]db.ReserveOptions{
			"port": {Note: "a\x00b\U0010FFFF\U0010FFFF0"},
			"lock": {LeaseTerms: db.LeaseTerms{TTL: time.Minute}},
		} {
			_, err := n.db.Reserve(t.Context(), kind, "one", o)
			n.must(err)
		}
	})
	t.Run("steps and values", func(t *testing.T) {
		n := newNight(t)
		run, err := selvedge.On(n.db, selvedge.Options{}).Take(t.Context(), "r", selvedge.Start{Intent: "deploy"})
		n.must(err)
		effect := selvedge.Effect{Tool: "http", Args: []byte(`{"to":"there"}`), Unknown: selvedge.GiveUp}
		_, err = run.Do("send", effect,
			func(context.Context, string) (json.RawMessage, error) { return nil, errors.New("timed out") })
		if !errors.Is(err, selvedge.ErrGivenUp) {
			t.Fatal(err)
		}
		if _, err = run.Ask("gate", selvedge.Question{Prompt: "Go on?"}); !errors.Is(err, selvedge.ErrWaiting) {
			t.Fatal(err)
		}
		values := state.NewStore(n.db, state.Options{})
		_, err = values.Set(t.Context(), state.Ref{Owner: "o", Key: "k"}, []byte(`{"n":1}`))
		n.must(err)
	})
	t.Run("texts with NUL", func(t *testing.T) {
		n := newNight(t)
		nul := "a\x00\\u0000\\b\n\"c\x00"
		n.append(runs.Batch{AgentID: "a", RunID: "r"}, runs.Started{Intent: nul},
			runs.Turn{Prompt: &nul, Tool: &nul})
	})
	t.Run("old trees", func(t *testing.T) {
		n := newNight(t)
		for _, kind := range legacy.Kinds() {
			trees, err := replay.Trees(string(kind))
			n.must(err)
			for _, tree := range trees {
				if name := filepath.Base(tree.Name); name == "small" || name == "awkward" {
					n.take(kind, tree)
				}
			}
		}
		n.must(n.db.Write(t.Context(), "leave a conflict", func(tx *db.Tx) error {
			_, err := tx.Exec(`
INSERT INTO import_conflicts (scope, kind, entity_id, source, path, import, reason, found_at)
SELECT s.scope, s.kind, 'one', s.id, s.root, (SELECT max(id) FROM imports WHERE source = s.id), 'it went on',
	1 FROM import_sources AS s WHERE s.kind = 'agents'`)
			return err
		}))
	})
	for _, view := range views(t, server) {
		if answered[view] == 0 {
			t.Errorf("%s was compared without a row", view)
		}
	}
}

// take imports what of a tree can be, into a scope of its own.
func (n *night) take(kind legacy.Kind, tree replay.Tree) {
	n.t.Helper()
	dir := n.t.TempDir()
	n.must(tree.Unpack(dir))
	n.must(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if _, err := legacy.Import(n.t.Context(), n.db, kind, path, legacy.Options{Scope: tree.Name}); err == nil {
			return filepath.SkipDir
		}
		return nil
	}))
}

// over is the context of a test that is over.
func over(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

func views(t *testing.T, server *sql.DB) (list []string) {
	t.Helper()
	for _, row := range rowsOf(t, server,
		`SELECT viewname FROM pg_views WHERE schemaname = 'selvedge' ORDER BY 1`) {
		list = append(list, row[0].(string))
	}
	return list
}

// passing are the columns that change as time passes.
var passing = []string{
	"silent_seconds", "held_seconds", "paused_seconds", "claimed_seconds",
	"waiting_seconds",
}

func sameAnswers(t *testing.T, file *db.DB, server *sql.DB, answered map[string]int) {
	t.Helper()
	copied(t, file, server)
	for _, view := range views(t, server) {
		var columns []string
		for _, row := range fileRows(t, file, "SELECT name FROM pragma_table_info('"+view+"')", 1) {
			if !slices.Contains(passing, row[0].(string)) {
				columns = append(columns, `"`+row[0].(string)+`"`)
			}
		}
		query := "SELECT " + strings.Join(columns, ", ") + " FROM " + view
		want, got := lines(columns, fileRows(t, file, query, len(columns))),
			lines(columns, rowsOf(t, server, query))
		answered[view] += len(want)
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s: only of a file:\n%s", view, line)
			}
		}
		for _, line := range got {
			if !slices.Contains(want, line) {
				t.Errorf("%s: only of a server:\n%s", view, line)
			}
		}
		if len(want) != len(got) {
			t.Errorf("%s has %d rows of a file, %d of a server", view, len(want), len(got))
		}
	}
}

// counts are the columns that hold numbers: where a record has something else, a file shows it and
// a server nothing.
var counts = []string{
	"input_tokens", "cache_read_input_tokens", "cache_write_input_tokens", "output_tokens",
	"reasoning_output_tokens", "cost_usd", "duration_ms", "exit_code",
}

// lines writes rows as both engines would: a number is as it is read, whatever its spelling, and no
// text has a byte that is no UTF-8.
func lines(columns []string, rows [][]any) (list []string) {
	for _, row := range rows {
		var line strings.Builder
		cost := false
		for i, v := range row {
			name := strings.Trim(columns[i], `"`)
			text := fmt.Sprint(v)
			if bytes, ok := v.([]byte); ok {
				text = string(bytes)
			}
			number, err := strconv.ParseFloat(text, 64)
			if v == nil || slices.Contains(counts, name) && err != nil && !errors.Is(err, strconv.ErrRange) ||
				name == "cost_source" && !cost {
				continue
			}
			if cost = cost || name == "cost_usd"; err == nil || errors.Is(err, strconv.ErrRange) {
				text = strconv.FormatFloat(number+0, 'g', 12, 64) // without the sign of 0
			}
			fmt.Fprintf(&line, "%s=%s ", columns[i], eachByte(text))
		}
		list = append(list, line.String())
	}
	slices.Sort(list)
	return list
}

// eachByte has U+FFFD in place of NUL and of each byte that is no UTF-8.
func eachByte(s string) string {
	return strings.Map(func(r rune) rune {
		if r == 0 {
			return utf8.RuneError
		}
		return r
	}, s)
}

// copied makes the rows of the server's tables those of the file. Neither triggers nor foreign keys
// look at them.
func copied(t *testing.T, file *db.DB, server *sql.DB) {
	t.Helper()
	conn, err := server.Conn(over(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	run := func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.ExecContext(over(t), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("BEGIN")
	run("SET LOCAL session_replication_role = replica")
	for _, table := range fileRows(t, file,
		`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
			AND name <> 'goose_db_version'`, 1) {
		name := table[0].(string)
		run("DELETE FROM " + name)
		var columns, marks []string
		for i, row := range fileRows(t, file, "SELECT name FROM pragma_table_info('"+name+"')", 1) {
			columns, marks = append(columns, `"`+row[0].(string)+`"`), append(marks, "$"+strconv.Itoa(i+1))
		}
		list := strings.Join(columns, ", ")
		for _, row := range fileRows(t, file, "SELECT "+list+" FROM "+name, len(columns)) {
			for i, v := range row {
				switch v := v.(type) {
				case string:
					row[i] = escaped(v)
				case []byte:
					if v == nil { // none, of a column that is not NULL
						row[i] = []byte{}
					}
				}
			}
			run("INSERT INTO "+name+" ("+list+") VALUES ("+strings.Join(marks, ", ")+")", row...)
		}
	}
	run("COMMIT")
}

// escaped writes a text as the program writes it there.
func escaped(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, "\U0010FFFFx%02x", s[0])
		case r == 0:
			b.WriteString("\U0010FFFF0")
		case r == utf8.MaxRune:
			b.WriteString("\U0010FFFF\U0010FFFF")
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

func fileRows(t *testing.T, d *db.DB, query string, columns int) (list [][]any) {
	t.Helper()
	if err := d.Read(over(t), "compare", func(rx *db.Rx) error {
		for row, err := range rx.Query(query) {
			if err != nil {
				return err
			}
			values := make([]any, columns)
			into := make([]any, columns)
			for i := range values {
				into[i] = &values[i]
			}
			if err := row.Scan(into...); err != nil {
				return err
			}
			list = append(list, values)
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return list
}

func rowsOf(t *testing.T, d *sql.DB, query string) (list [][]any) {
	t.Helper()
	rows, err := d.QueryContext(over(t), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, value := range values {
			if text, ok := value.(string); ok { // as the program would read it
				values[i] = strings.ReplaceAll(text, "\U0010FFFF\U0010FFFF", "\U0010FFFF")
			}
		}
		list = append(list, values)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
