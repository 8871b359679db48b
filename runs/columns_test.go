package runs_test

import (
	"errors"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// row asks for one row as a text.
func row(t *testing.T, d *db.DB, query string, args ...any) (text string) {
	t.Helper()
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error { return rx.Get(&text, query, args...) }))
	return text
}

// The check of the file, at the end of every test, adds the bytes up again.
func TestTrace_LastRecordHasRunsBytes(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := runs.NewStore(d, runs.Options{})
	const bytesOf = `SELECT coalesce((SELECT bytes FROM run_records WHERE id >> 24 = key ORDER BY id DESC
		LIMIT 1), 'none') FROM runs WHERE run_id = ?`
	one := turn(0, "naïve")
	one.Tool, one.Parameters, one.Output = nil, []byte(`{"a":1}`), []byte(`[2]`)
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{one, one}))
	if got := row(t, d, bytesOf, "r"); got != "32" { // each: 6 of the prompt, 7 and 3
		t.Errorf("two turns: %s bytes", got)
	}
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{one}))
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{one, one, one}))
	if got := row(t, d, bytesOf, "r"); got != "96" {
		t.Errorf("six turns: %s bytes", got)
	}
	line := `{"record":"started","run_id":"i","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:00Z"}`
	importTrace(t, d, s, runs.RunRef{AgentID: "a", RunID: "i"}, line+"\n")
	if got := row(t, d, bytesOf, "i"); got != row(t, d, `SELECT ?`, len(line)) {
		t.Errorf("an imported line of %d bytes: %s", len(line), got)
	}

	// A run that began before totals were kept has none.
	must(t, d.Write(t.Context(), "forget", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE run_records SET bytes = NULL`)
		return err
	}))
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{one}))
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{one, one}))
	must(t, s.WriteEnded(t.Context(), ended("r", "a", runs.OutcomeSuccess, start)))
	if got := row(t, d, bytesOf, "r"); got != "none" {
		t.Errorf("a run from before: %s bytes", got)
	}
}

func TestARunKeepsTheSummaryOfItsLastEnd(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := runs.NewStore(d, runs.Options{})
	summary := func() string { return row(t, d, `SELECT coalesce(summary, 'none') FROM runs`) }
	must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
	end := ended("r", "a", runs.OutcomeFailure, start)
	end.Termination.Outcome.Summary = "the disk is full"
	must(t, s.WriteEnded(t.Context(), end))
	if got := summary(); got != "the disk is full" {
		t.Errorf("the summary is %q", got)
	}
	if r, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}); err != nil ||
		r.Summary != "the disk is full" {
		t.Errorf("it is read as %q, %v", r.Summary, err)
	}
	must(t, s.WriteEnded(t.Context(), runs.Ended{RunID: "r", AgentID: "a", EndedAt: start}))
	if got := summary(); got != "none" {
		t.Errorf("after an end without an outcome it is %q", got)
	}
}

func TestParent_KeptWhileBothRunsExist(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := runs.NewStore(d, runs.Options{})
	parent, child := runs.RunRef{AgentID: "boss", RunID: "p"}, runs.RunRef{AgentID: "a", RunID: "c"}
	begin := func(r, of runs.RunRef) error {
		return second(s.Append(t.Context(), runs.Batch{
			AgentID: r.AgentID, RunID: r.RunID,
			Records: []runs.Record{started(r.RunID, r.AgentID, start)}, Parent: of,
		}))
	}
	if err := begin(child, parent); !errors.Is(err, db.ErrNotFound) || !strings.Contains(err.Error(), `"p"`) {
		t.Errorf("a parent that is not here: %v", err)
	}
	if err := begin(child, child); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("its own parent: %v", err)
	}
	must(t, begin(parent, runs.RunRef{}))
	must(t, begin(child, parent))
	const parentOf = `SELECT coalesce((SELECT p.run_id FROM runs AS p WHERE p.key = c.parent), 'none')
		FROM runs AS c WHERE c.run_id = 'c'`
	if got := row(t, d, parentOf); got != "p" {
		t.Errorf("the parent is %s", got)
	}
	if got := row(t, d, `SELECT count(*) FROM runs WHERE parent IS NOT NULL`); got != "1" {
		t.Errorf("%s runs have a parent", got)
	}
	must(t, second(s.Append(t.Context(), runs.Batch{
		AgentID: "a", RunID: "c",
		Records: []runs.Record{turn(0, "p"), ended("c", "a", runs.OutcomeSuccess, start)},
	})))
	if got := row(t, d, parentOf); got != "p" {
		t.Errorf("after its end the parent is %s", got)
	}
	must(t, s.WriteEnded(t.Context(), ended("p", "boss", runs.OutcomeSuccess, start)))
	must(t, s.Delete(t.Context(), parent))
	if got := row(t, d, parentOf); got != "none" {
		t.Errorf("a parent that was removed is %s", got)
	}
}
