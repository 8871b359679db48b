//go:build postgres

package migrations_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// bounded are the indexed columns that nobody can put a longer text into than an index takes beside
// the others: ids, of which txn.CheckID says how long they may be, and words of which a CHECK or the
// stores know all. Whatever is not named here may be of any length.
var bounded = map[string]string{
	"agents.status": "active", "checkpoints.state": "paused", "import_conflicts.kind": "checkpoints",
	"import_sources.kind": "checkpoints",
	"live_runs.status":    "completed", "quarantine.what": "conflict", "retention.store": "checkpoints",
	"retention_pins.store": "checkpoints",
	"runs.status":          "in_progress", "workers.status": "running",

	"agents.session_id": "", "checkpoint_history.run_id": "", "checkpoints.run_id": "",
	"checkpoints.agent_id":       "",
	"import_conflicts.entity_id": "", "import_files.entity_group": "",
	"import_files.entity_id": "", "leases.kind": "", "leases.name": "", "live_append_keys.append_key": "",
	"live_runs.run_id": "", "live_runs.session_id": "",
	"retention_pins.id": "", "retention_pins.owner": "", "run_agents.agent_id": "",
	"run_append_keys.append_key": "", "run_spent_keys.agent_id": "",
	"run_spent_keys.append_key": "", "run_spent_keys.run_id": "", "runs.agent_id": "", "runs.run_id": "",
	"run_steps.state": "waiting", "run_steps.step_key": "",
	"scopes.name": "", "state_values.owner": "", "state_values.state_key": "", "worker_runtimes.runtime_id": "",
	"workers.worker_id": "",
	"usage_runs.run_id": "", "usage_runs.agent_id": "", "usage_runs.session_id": "", "usage_days.agent_id": "",
	"usage_days.session_id": "", "usage_records.account": "agent_end",

	"moves.token": "drawn by the program", "owners.token": "drawn by the program",
}

// Each table is tried with the longest texts that its indexed columns may have, all in one row, of
// bytes that don't compress.
func TestPostgresIndexesTakeTheLongestTexts(t *testing.T) {
	s := dbtest.PostgresSchema(t)
	if _, err := s.ExecContext(t.Context(), "SET search_path = selvedge"); err != nil {
		t.Fatal(err)
	}
	s.SetMaxOpenConns(1)
	unused := map[string]bool{}
	for name := range bounded {
		unused[name] = true
	}
	columns := ofServer(t, s, `
SELECT DISTINCT t.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
FROM pg_index AS i JOIN pg_class AS t ON t.oid = i.indrelid JOIN pg_attribute AS a ON a.attrelid = t.oid
	AND a.attnum > 0
WHERE t.relnamespace = 'selvedge'::regnamespace AND a.atttypid IN ('text'::regtype, 'bytea'::regtype)
    AND pg_get_indexdef(i.indexrelid) ~ ('\(.*\m' || a.attname || '\M.*\)( WHERE|$)')
ORDER BY 1`)
	tables := map[string][]string{}
	for _, column := range columns {
		table, _, _ := strings.Cut(column, ".")
		tables[table] = append(tables[table], column)
	}
	if len(tables) < 15 {
		t.Fatalf("only %q have texts in an index", columns)
	}
	for table, columns := range tables {
		if len(ofServer(t, s, `SELECT 'one' WHERE $1 = ANY ($2)`, table, []string{"goose_db_version"})) > 0 {
			continue
		}
		var names, marks, conditions []string
		var args []any
		for i, column := range columns {
			name, kind, _ := strings.Cut(column, " ")
			text, known := bounded[name]
			delete(unused, name)
			switch {
			case !known:
				text = long(uint64(i), 100_000)
			case text == "":
				text = long(uint64(i), txn.MaxID)
			}
			mark := fmt.Sprintf("$%d::text", i+1)
			if kind == "bytea" {
				mark = fmt.Sprintf("convert_to($%d::text, 'UTF8')", i+1)
			}
			name = `"` + strings.TrimPrefix(name, table+".") + `"`
			names, marks, args = append(names, name), append(marks, mark), append(args, text)
			conditions = append(conditions, name+" = "+mark)
		}
		// What indexes are for some of the rows alone are for this one.
		for _, number := range ofServer(t, s, `
SELECT a.attname FROM pg_attribute AS a
WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND a.atttypid = 'bigint'::regtype
	AND (a.attnotnull OR a.attname = 'started_at')`, table) {
			names, marks = append(names, `"`+number+`"`), append(marks, "1")
		}
		script := `CREATE TEMPORARY TABLE tried (LIKE ` + table + ` INCLUDING INDEXES)`
		for _, needed := range ofServer(t, s, `
SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND a.attnotnull
    AND NOT EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisprimary
    AND a.attnum = ANY (i.indkey::int2[]))`, table) {
			script += fmt.Sprintf(`; ALTER TABLE tried ALTER "%s" DROP NOT NULL`, needed)
		}
		dbtest.PostgresScript(t, s, script)
		insert := "INSERT INTO tried (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")"
		if _, err := s.ExecContext(t.Context(), insert, args...); err != nil {
			t.Errorf("%s: %v\nPut the beginning of what may be of any length into the index, as "+
				"00021_long_keys.sql does, or say in bounded what bounds it.", table, err)
		} else if found := ofServer(t, s, "SELECT 'one' FROM tried WHERE "+strings.Join(conditions, " AND "),
			args...); !slices.Equal(found, []string{"one"}) {
			t.Errorf("%s: %d rows are found", table, len(found))
		}
		dbtest.PostgresScript(t, s, `DROP TABLE tried`)
	}
	for name := range unused {
		t.Errorf("no index has %s", name)
	}
}

// long is text that no compression makes shorter.
func long(seed uint64, bytes int) string {
	random := rand.New(rand.NewPCG(seed, 21))
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	text := make([]byte, bytes)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}
