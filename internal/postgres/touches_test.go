package postgres

import (
	"slices"
	"testing"

	"selvedge/internal/engine"
)

func TestTouchingsOfStatements(t *testing.T) {
	for _, c := range []struct {
		text    string
		want    []touching
		returns bool
	}{
		{
			text: "UPDATE live_runs SET epoch = $1, owner_id = (SELECT $2) WHERE key = $3",
			want: []touching{{engine.LiveRuns, 3, 0}},
		},
		{text: "UPDATE runs SET status = $1 WHERE key = $2", want: []touching{{engine.Runs, 2, 0}}},
		{text: "DELETE FROM agents WHERE id = $1 AND x = $2", want: []touching{{engine.Agents, 1, 0}}},
		{text: "DELETE FROM agents WHERE scope = $1", want: []touching{{engine.Agents, 0, 0}}},
		{text: "DELETE FROM run_records WHERE id >= $1"},
		{text: "INSERT INTO run_records (id, a) VALUES ($1, $2)", want: []touching{{engine.Runs, 1, 24}}},
		{
			text: "INSERT INTO run_records (id, a)\nSELECT 1, $1 FROM runs AS r WHERE r.key = $2",
			want: []touching{{engine.Runs, 2, 0}},
		},
		{text: "INSERT INTO run_steps (run, a) VALUES ($1, $2)", want: []touching{{engine.Runs, 1, 0}}},
		{
			text: "INSERT INTO checkpoints (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET a = $1 RETURNING id",
			want: []touching{{engine.Checkpoints, 0, 0}}, returns: true,
		},
		{
			text: "WITH changed AS (UPDATE state_values SET a = $1 WHERE id = $2 RETURNING 1), kept AS (UPDATE " +
				"sessions SET outcome = $3 WHERE id = $4) SELECT 1",
			want: []touching{{engine.StateValues, 2, 0}},
		},
		{text: "SELECT key FROM runs WHERE key = $1 FOR NO KEY UPDATE"},
	} {
		if got, returns := touchings(c.text); !slices.Equal(got, c.want) || returns != c.returns {
			t.Errorf("%s: %+v, %v", c.text, got, returns)
		}
	}
}

func TestNotificationsAreReadAsWritten(t *testing.T) {
	few := engine.Touched{Rows: []engine.Touch{
		{Stream: engine.Runs, Key: 1 << 38}, {Stream: engine.Agents, Key: 7},
	}}
	many := engine.Touched{}
	for key := range int64(5000) {
		many.Add(engine.Touch{Stream: engine.Runs, Key: key})
	}
	for _, sent := range []engine.Touched{few, {}, {All: true}, {Rows: few.Rows, All: true}} {
		text := notification("me", sent)
		sender, got := notified(text)
		if sender != "me" || got.All != sent.All || !slices.Equal(got.Rows, sent.Rows) {
			t.Errorf("%s is read as %+v from %s", text, got, sender)
		}
	}
	text := notification("me", many)
	if _, got := notified(text); !got.All || len(text) >= 8000 || len(got.Rows) < 1000 ||
		!slices.Equal(got.Rows, many.Rows[:len(got.Rows)]) {
		t.Errorf("%d bytes are read as %d rows, all %v", len(text), len(got.Rows), got.All)
	}
	// Of another version, or anybody's.
	for _, text := range []string{"", "x", "2 x", "1 x 1:", "1 x 999:1", "1 x y"} {
		if _, got := notified(text); !got.All {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
