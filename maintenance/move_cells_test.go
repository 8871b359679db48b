package maintenance_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

func TestAMoveNoticesEveryCell(t *testing.T) {
	noticesEveryCell(t, dbtest.Path(t), func(hex string) string { return "x'" + hex + "'" },
		func(to, statements string) {
			execFile(t, to, `PRAGMA ignore_check_constraints = ON; `+statements)
		})
}

// execFile has SQLite itself run statements in a file that nobody has open.
func execFile(t *testing.T, path, statements string) {
	t.Helper()
	c, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.ExecContext(t.Context(), statements)
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

// rare has a row in each table that filled leaves empty, and a scope that nothing is in.
const rare = `
INSERT INTO scopes (name) VALUES ('of nobody');
INSERT INTO checkpoint_history (scope, run_id, ending, paused_stage_id, prompt, created_at, saved_at, size,
	claimed_at, completed_at, epoch) VALUES (1, 'r', 'completed', 'gate', 'p', 1, 1, 1, 1, 1, 1);
INSERT INTO import_conflicts (scope, kind, entity_id, source, path, import, reason, found_at)
	SELECT 1, 'agents', 'a', s.id, s.root, i.id, 'r', 1 FROM import_sources AS s
	JOIN imports AS i ON i.source = s.id LIMIT 1;
INSERT INTO import_settings (source, raw) SELECT min(id), root FROM import_sources;
INSERT INTO live_copies (run, source, path, position) SELECT min(r.key), s.id, s.root, 0
	FROM live_runs AS r, import_sources AS s;
INSERT INTO live_leavings (run) VALUES (99999);
INSERT INTO quarantine (scope, source, path, byte_offset, what, reason, bytes, found_at)
	SELECT scope, min(id), root, 0, 'line', 'r', 1, 1 FROM import_sources;
INSERT INTO quarantine_parts (quarantine, part, raw) SELECT min(id), 0, x'64' FROM quarantine;
INSERT INTO retention (scope, store, set_at) VALUES (1, 'runs', 1);
INSERT INTO retention_pins (scope, store, id, owner, pinned_at) VALUES (1, 'runs', 'r', 'a', 1);
INSERT INTO run_leavings (run) VALUES (99999);
INSERT INTO run_spent_keys (scope, run_id, agent_id, append_key, digest, removed_at)
	SELECT 1, 'r', 'a', 'k', digest, 1 FROM run_append_keys LIMIT 1;
INSERT INTO run_steps (run, step_key, kind, state, result, attempt, epoch, turn, created_at, changed_at)
	SELECT min(key), 'k', 'reply', 'done', x'7b7d', 1, 1, 1, 1, 1 FROM runs;
INSERT INTO usage_runs (id, scope, run_id, agent_id, recorded_at) VALUES (2000, 1, 'rare', 'a', 1);
INSERT INTO usage_records (usage_run, account, sequence, recorded_at, output_tokens)
	VALUES (2000, 'turn', 1, 1, 1);
INSERT INTO usage_days (scope, day, agent_id, session_id, output_tokens) VALUES (1, 0, 'a', '', 1);
INSERT INTO worker_documents (worker, document) SELECT min(key), x'64' FROM workers;
INSERT INTO worker_runtime_documents (runtime, document) SELECT min(key), x'64' FROM worker_runtimes`

// A cell is a column of a table.
type cell struct {
	table, column, kind string
	key                 int // its place in the table's key; 0: none
	nullable            bool
}

// cellsOf are the columns of all tables whose rows move. The counts that triggers keep are left
// out: a move that goes on takes them anew.
func cellsOf(t *testing.T, c *sql.DB) (cells []cell) {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), `SELECT s.name, i.name, i.type, i.pk, NOT i."notnull"
	FROM sqlite_schema AS s, pragma_table_info(s.name) AS i
WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY s.name, i.cid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // opened for reading only
	for rows.Next() {
		var one cell
		if err := rows.Scan(&one.table, &one.column, &one.kind, &one.key, &one.nullable); err != nil {
			t.Fatal(err)
		}
		if own := append([]string{"selvedge_file", "goose_db_version", "moves"},
			migrations.KeptByTriggers...); !slices.Contains(own, one.table) {
			cells = append(cells, one)
		}
	}
	if err := rows.Err(); err != nil || len(cells) < 300 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	return cells
}

// noticesEveryCell changes a value of each column of each table of a target before it is compared:
// a little, from NULL to what is as good as nothing, and to NULL.
func noticesEveryCell(t *testing.T, to string, bytes func(hex string) string,
	exec func(to, statements string),
) {
	ctx := t.Context()
	from := dbtest.Path(t)
	filled(t, from, 1)
	execFile(t, from, rare)
	source, err := sql.Open("sqlite", "file:"+from+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	cells := cellsOf(t, source)
	keys := map[string][]string{}
	for _, c := range cells {
		if c.key > 0 {
			keys[c.table] = append(keys[c.table], `"`+c.column+`"`)
		}
	}
	nothing := map[string]string{"INTEGER": "0", "TEXT": "''", "REAL": "0.0", "BLOB": bytes("")}
	another := func(c cell) string {
		name := `"` + c.column + `"`
		switch {
		case c.kind == "BLOB":
			return "CASE WHEN " + name + " = " + bytes("00") + " THEN " + bytes("01") + " ELSE " + bytes("00") + " END"
		case c.kind == "TEXT":
			return name + " || 'x'"
		case c.key > 0:
			return name + " + 1000003" // a number that no other row has
		}
		return name + " + 1"
	}
	seen := map[cell]bool{}
	for _, way := range []struct {
		name  string
		meant func(cell) bool
		where string
		value func(cell) string
	}{
		{"another value", func(c cell) bool { return c.key == 0 }, " IS NOT NULL", another},
		{
			"no value in place of NULL", func(c cell) bool { return c.nullable }, " IS NULL",
			func(c cell) string { return nothing[c.kind] },
		},
		{"NULL", func(c cell) bool { return c.nullable }, " IS NOT NULL", func(cell) string { return "NULL" }},
		{"another first key", func(c cell) bool { return c.key == 1 }, " IS NOT NULL", another},
		{"another second key", func(c cell) bool { return c.key == 2 }, " IS NOT NULL", another},
		{"another third key", func(c cell) bool { return c.key == 3 }, " IS NOT NULL", another},
		{"another fourth key", func(c cell) bool { return c.key == 4 }, " IS NOT NULL", another},
	} {
		stoppedAt(t, from, to, "compare")
		var falsify strings.Builder
		var changed []cell
		for _, c := range cells {
			if !way.meant(c) {
				continue
			}
			key := strings.Join(keys[c.table], ", ")
			row := fmt.Sprintf(`SELECT %s FROM %q WHERE %q%s ORDER BY %s DESC LIMIT 1`, key, c.table, c.column,
				way.where, strings.ReplaceAll(key, ",", " DESC,"))
			var there bool
			if err := source.QueryRowContext(ctx, `SELECT EXISTS (`+row+`)`).Scan(&there); err != nil {
				t.Fatal(err)
			}
			if there {
				fmt.Fprintf(&falsify, "UPDATE %q SET %q = %s WHERE (%s) IN (%s);\n", c.table, c.column, way.value(c),
					key, row)
				changed = append(changed, c)
				seen[c] = true
			}
		}
		exec(to, falsify.String())
		report, err := maintenance.Move(ctx, from, to, db.Options{})
		if !errors.Is(err, db.ErrConflict) || report.SHA256 == report.ToSHA256 {
			t.Fatalf("%s: %v", way.name, err)
		}
		for _, c := range changed {
			if !slices.ContainsFunc(report.Differs, func(d maintenance.MoveDifference) bool {
				return d.Table == c.table && (c.key > 0 ||
					slices.Contains(strings.Split(strings.TrimPrefix(d.Reason, "other values in "), ", "), c.column))
			}) {
				t.Errorf("%s in %s.%s was not noticed", way.name, c.table, c.column)
			}
		}
		if _, err := maintenance.AbandonMove(ctx, from, to, db.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range cells {
		if !seen[c] {
			t.Errorf("%s.%s has never been changed", c.table, c.column)
		}
	}
	if _, err := maintenance.Move(ctx, from, to, db.Options{}); err != nil {
		t.Error(err)
	}
}
