//go:build postgres

package docs_test

import (
	"database/sql"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// Times as far apart as columns hold them, and half milliseconds, which two engines might round another way.
func TestPostgresAnswersDistantTimesAsAFile(t *testing.T) {
	n, server := besideAServer(t)
	times := []int64{
		math.MinInt64, math.MinInt64 + 1, -62135596800e9 / 8, -1_500_000, -1_499_999, -500_000, -1,
		0, 1, 499_999, 500_000, 4_500_000, 1_000_500_000, 1_778_000_000_000_500_000, math.MaxInt64 - 1,
		math.MaxInt64,
	}
	n.must(n.db.Write(t.Context(), "leave what lasts long", func(tx *db.Tx) error {
		key := 100
		for _, from := range times {
			for _, to := range times {
				key++
				texts := []string{
					`INSERT INTO runs (key, scope, agent_id, run_id, intent, started_at, status, ended_at, turn_count,
						others) VALUES (?1, 1, 'a', CAST(?1 AS TEXT), '', ?2, 'incomplete', ?3, 2, 0)`,
					`INSERT INTO run_records (id, kind, turn_index, tool, verdict, exact, recorded_at)
						VALUES ((?1 << 24) + 1, 'turn', 0, 't', 'pass', 1, ?2),
						((?1 << 24) + 2, 'turn', 1, 't', 'pass', 1, ?3)`,
					`INSERT INTO checkpoints (scope, state, run_id, paused_stage_id, prompt, created_at, saved_at, size,
						checksum, claimed_at) VALUES (1, 'claimed', CAST(?1 AS TEXT), '', '', ?2, 0, 0, 0, ?3)`,
				}
				if from >= 0 && to >= 0 {
					texts = append(texts, `INSERT INTO live_runs (key, scope, run_id, session_id, status, created_at,
						updated_at, event_count, kept_events, kept_bytes)
						VALUES (?1, 1, CAST(?1 AS TEXT), '', 'failed', ?2, ?3, 2, 2, 0)`,
						`INSERT INTO live_texts (run, prompt) SELECT ?1, '' WHERE ?2 >= 0 AND ?3 >= 0`,
						`INSERT INTO live_events (id, sequence, type, recorded_at, event) VALUES (?1 << 32, 0, `+
							`'tool_start', ?2, CAST('{"id":"c","name":"n"}' AS BLOB)), ((?1 << 32) + 1, 1, 'tool_end', ?3, `+
							`CAST('{"id":"c"}' AS BLOB))`)
				}
				for _, text := range texts {
					if _, err := tx.Exec(text, key, from, to); err != nil {
						return fmt.Errorf("%s: %w", text, err)
					}
				}
			}
		}
		return nil
	}))
	sameAnswers(t, n.db, server, map[string]int{})
	for _, seconds := range []struct {
		from, to int64
		want     float64
	}{
		{0, 500_000, 0.001},
		{0, 4_500_000, 0.005},
		{4_500_000, 0, -0.005},
		{0, 499_999, 0},
		{math.MinInt64, math.MaxInt64, 18446744073.71},
	} {
		got := fileRows(t, n.db, fmt.Sprintf(`SELECT seconds FROM v_runs WHERE started_at_ns = %d
			AND ended_at_ns = %d`, seconds.from, seconds.to), 1)
		if len(got) != 1 || got[0][0] != seconds.want {
			t.Errorf("from %d to %d are %v seconds, and not %v", seconds.from, seconds.to, got, seconds.want)
		}
	}
}

// Counts of runtimes that were brought in may be any, and their sum more than 64 bits.
func TestPostgresAnswersHugeCountsAsAFile(t *testing.T) {
	n, server := besideAServer(t)
	key := 0
	counts := []int64{0, 1, math.MaxInt64 - 1, math.MaxInt64}
	for _, running := range counts {
		for _, stopped := range counts {
			for _, next := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64} { // without a sign
				key++
				n.insert(`INSERT INTO worker_runtimes (key, scope, runtime_id, status, max_transcript_items,
				max_event_items, next_worker_sequence, next_event_id, next_diagnostic_id,
next_event_position, first_event_position, events_in_order, running_workers, stopped_workers,
	cancelled_workers, diagnostics)
	VALUES (?1, 1, CAST(?1 AS TEXT), 'running', 1, 1, 1, ?4, 1, 1, 1, 1, ?2, ?3, ?2,
	?3)`, key, running, stopped, next)
			}
		}
	}
	sameAnswers(t, n.db, server, map[string]int{})
	got := fileRows(t, n.db, `SELECT max(workers), max(last_event_id) FROM v_worker_runtimes`, 2)
	if fmt.Sprint(got) != fmt.Sprint([][]any{{int64(math.MaxInt64), int64(math.MaxInt64)}}) {
		t.Errorf("of a file they are %v", got)
	}
}

// A type of event that begins with Tool is none of the original's, on both engines.
func TestPostgresTellsTypesOfEventsApartAsAFile(t *testing.T) {
	n, server := besideAServer(t)
	n.create("live", "session")
	for i, kind := range []string{"tool", "tool_start", "Tool_start", "TOOL", "tooL", "too", "tools", "t%l"} {
		n.insert(`INSERT INTO live_events (id, sequence, type, recorded_at, event)
			SELECT (key << 32) + ?, ?, ?, 0, ?
			FROM live_runs`, i, i, kind, []byte(`{"name":"a","tool_name":"b","id":"c","tool_id":"d"}`))
	}
	sameAnswers(t, n.db, server, map[string]int{})
}

// What views answer otherwise than a file's: docs/postgres.md names each.
func TestPostgresAnswersOtherwiseWhereThePageSaysSo(t *testing.T) {
	n, server := besideAServer(t)
	n.append(runs.Batch{AgentID: "a", RunID: "r"}, runs.Started{Intent: ""})
	n.create("live", "session")
	deep := func(depth int) string {
		return fmt.Sprintf(`{"deep":%s%s,"provider":"x"}`, strings.Repeat("[", depth), strings.Repeat("]", depth))
	}
	const tokens, cost, provider, exit, at = "input_tokens", "cost_usd", "provider", "exit_code",
		"recorded_at_ns"
	for i, c := range []struct {
		column, text string
		file, server any
	}{
		{tokens, `{"usage":{"input_tokens":"1"}}`, "1", nil},
		{tokens, `{"usage":{"input_tokens":true}}`, int64(1), nil},
		{cost, `{"cost_usd":"x"}`, "x", nil},
		{provider, `{"provider":"first","provider":"last"}`, "first", "last"},
		{provider, deep(1000), nil, "x"},
		{provider, `{"provider":"a\u0000b"}`, "a\x00b", "a\ufffdb"},
		{provider, `{"provider":"a\ud800b"}`, "a\xed\xa0\x80b", "a\ufffdb"},
		{exit, `{"id":"c","exit_code":0.4}`, 0.4, int64(0)},
		{exit, `{"id":"c","exit_code":1.5}`, 1.5, int64(2)},
		{exit, `{"id":"c","exit_code":9223372036854775808}`, 9223372036854775808.0, nil},
		{at, `{"recorded_at":2461165}`, time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC).UnixNano(), nil},
		{at, `{"recorded_at":"2026-02-30T00:00:00Z"}`, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).UnixNano(), nil},
		{at, `{"recorded_at":"9999-01-01T00:00:00Z"}`, 2.533707648e+20, nil},
	} {
		query := fmt.Sprintf(`SELECT %s FROM v_model_turns WHERE sequence = %d`, c.column, i+2)
		if c.column == exit {
			n.insert(`INSERT INTO live_events (id, sequence, type, recorded_at, event)
				SELECT (key << 32) + ?1, ?1, 'tool_start', ?1, ?2 FROM live_runs`, 2*i, []byte(c.text))
			n.insert(`INSERT INTO live_events (id, sequence, type, recorded_at, event)
				SELECT (key << 32) + ?1 + 1, ?1 + 1, 'tool_end', ?1, ?2 FROM live_runs`, 2*i, []byte(c.text))
			query = fmt.Sprintf(`SELECT exit_code FROM v_tool_calls WHERE started_at_ns = %d`, 2*i)
		} else {
			n.insert(`INSERT INTO run_records (id, kind, unknown_kind, raw, exact)
				SELECT (key << 24) + ?, 'unknown', 'model_turn', ?, 1 FROM runs`, i+2, []byte(c.text))
		}
		copied(t, n.db, server)
		file, there := fileRows(t, n.db, query, 1), rowsOf(t, server, query)
		if len(file) != 1 || len(there) != 1 || file[0][0] != c.file ||
			fmt.Sprint(there[0][0]) != fmt.Sprint(c.server) {
			t.Errorf("%s of %.60s: %#v of a file, %#v of a server", c.column, c.text, file, there)
		}
	}
}

// besideAServer gives an empty file, whose counts need not be those of its rows, and a server's schema.
func besideAServer(t *testing.T) (*night, *sql.DB) {
	t.Helper()
	server := dbtest.PostgresSchema(t)
	n := &night{
		t: t, path: t.TempDir() + "/file.db",
		clock: dbtest.NewClock(time.Date(2026, 5, 4, 1, 0, 0, 0, time.UTC)),
	}
	d, err := db.Open(t.Context(), n.path, db.Options{Now: n.clock.Now})
	n.must(err)
	n.db = d
	t.Cleanup(func() { d.Close() }) //nolint:errcheck // its counts are not those of its rows
	n.in("")
	return n, server
}

func (n *night) insert(statement string, args ...any) {
	n.t.Helper()
	n.must(n.db.Write(n.t.Context(), "leave a row", func(tx *db.Tx) error {
		_, err := tx.Exec(statement, args...)
		return err
	}))
}
