package maintenance_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// counting writes a trace and a live run that count, and the day of one that was removed.
func counting(t *testing.T, d *db.DB) {
	t.Helper()
	traces := runs.NewStore(d, runs.Options{})
	for _, run := range []string{"gone", "r"} {
		_, err := traces.Append(t.Context(), runs.Batch{AgentID: "a", RunID: run, Records: []runs.Record{
			runs.Started{RunID: run, AgentID: "a"},
			runs.Unknown{Kind: "model_turn", Raw: json.RawMessage(
				`{"record":"model_turn","provider":"p","request_model":"q","model":"m","cost_usd":0.25,"usage":` +
					`{"input_tokens":9,"cache_read_input_tokens":2,"cache_write_input_tokens":3,"output_tokens":5,` +
					`"reasoning_tokens":4}}`)},
			runs.Unknown{Kind: "model_turn", Raw: json.RawMessage(`{"record":"model_turn","cost_usd":0.5}`)},
			runs.Ended{RunID: run, AgentID: "a"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if run == "gone" {
			if err := traces.Delete(t.Context(), runs.RunRef{AgentID: "a", RunID: run}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := live.NewStore(d, live.Options{})
	if _, err := s.CreateRunWithID(t.Context(), "l", "session", "p"); err != nil {
		t.Fatal(err)
	}
	batch := live.Batch{Events: []live.Event{live.TurnEnd(1, db.Usage{InputTokens: new(uint64(7))})}}
	if _, err := s.Append(t.Context(), "l", batch); err != nil {
		t.Fatal(err)
	}
}

// usageRows are all rows of usage, without numbers that nothing refers to.
func usageRows(t *testing.T, d *db.DB) string {
	t.Helper()
	var lines []string
	if err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		lines = nil
		return rx.Select(&lines, `SELECT 'run ' || concat_ws(' ', id, scope, run_id, agent_id, session_id,
	recorded_at) FROM usage_runs UNION ALL SELECT concat_ws(' ', usage_run, account, sequence,
	step_key, recorded_at, provider,
	request_model, response_model, input_tokens, output_tokens, cost_nanos, checksum) FROM usage_records
UNION ALL SELECT concat_ws(' ', day, agent_id, input_tokens, cost_nanos) FROM usage_days ORDER BY 1`)
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Every bit of every column of usage is covered, but that of numbers to which nothing refers.
func TestCheck_FindsEveryBitOfUsage(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	counting(t, d)
	var columns []struct {
		Table string `db:"t"`
		Name  string `db:"name"`
		Type  string `db:"type"`
	}
	if err := d.Read(t.Context(), "list columns", func(rx *db.Rx) error {
		columns = nil
		return rx.Select(&columns, `SELECT m.name AS t, c.name, c.type FROM sqlite_schema AS m,
	pragma_table_info(m.name) AS c WHERE m.type = 'table' AND m.name GLOB 'usage_*' 
AND NOT (c.name = 'id' AND m.name <> 'usage_runs')`)
	}); err != nil {
		t.Fatal(err)
	}
	if len(columns) < 35 {
		t.Fatalf("%d columns", len(columns))
	}
	raw, err := sql.Open("sqlite", "file:"+d.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()      //nolint:errcheck // of a test
	raw.SetMaxOpenConns(1) // which has the temporary table
	change := func(script string) {
		t.Helper()
		if _, err := raw.Exec("PRAGMA ignore_check_constraints = on; " + script); err != nil {
			t.Fatal(script, err)
		}
	}
	found := 0
	for _, c := range columns {
		flips := []string{`%s || 'x'`, `'x' || %s`}
		if c.Type == "INTEGER" {
			flips = nil
			for _, bit := range []int{0, 7, 31, 52, 62} {
				flips = append(flips, fmt.Sprintf(`(%%[1]s | 1 << %[1]d) - (%%[1]s & 1 << %[1]d)`, bit))
			}
		}
		for _, flip := range append(flips, `coalesce(%s, 1)`) {
			change(fmt.Sprintf(`CREATE TEMP TABLE was AS SELECT * FROM %[1]s;
UPDATE %[1]s SET %[2]s = %[3]s WHERE rowid = (SELECT min(rowid) FROM %[1]s)`, c.Table, c.Name,
				fmt.Sprintf(flip, c.Name)))
			var changed int
			if err := raw.QueryRow(fmt.Sprintf(`SELECT count(*) FROM (SELECT * FROM %s EXCEPT SELECT * FROM temp.was)`,
				c.Table)).Scan(&changed); err != nil {
				t.Fatal(err)
			}
			if changed > 0 {
				found++
				if problems, err := d.Check(t.Context()); err != nil || len(problems) == 0 {
					t.Errorf("%s.%s = %s: %v", c.Table, c.Name, flip, err)
				}
			}
			change(fmt.Sprintf(`DELETE FROM %[1]s; INSERT INTO %[1]s SELECT * FROM temp.was;
DROP TABLE temp.was`, c.Table))
		}
	}
	if found < 100 {
		t.Errorf("only %d were other values", found)
	}
}

func TestSalvage_BringsUsageBackFromRecords(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	counting(t, d)
	want := usageRows(t, d)
	edit(t, d, `DELETE FROM usage_records WHERE sequence = 3;
DELETE FROM usage_runs WHERE session_id IS NOT NULL`)
	x, err := maintenance.Check(t.Context(), d)
	if err != nil || len(x.Problems) != 2 {
		t.Errorf("checked: %v, %v", x.Problems, err)
	}
	from, to := d.Path(), filepath.Join(t.TempDir(), "salvaged.db")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a salvage of the new file changes nothing
		if s, err := maintenance.Salvage(t.Context(), from, to, maintenance.SalvageOptions{}); err != nil ||
			len(s.Problems) != 0 {
			t.Fatal(s.Problems, err)
		}
		c, err := db.Open(t.Context(), to, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := usageRows(t, c); got != want {
			t.Errorf("brought back\n%s\nwant\n%s", got, want)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		from, to = to, filepath.Join(t.TempDir(), "again.db")
	}
}
