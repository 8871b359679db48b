package runs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

func TestIDsAreKeptAsTheyAre(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ids := []string{
		"a/b", "a_b", ".x.", "x", "", "...", "_", `a\b`, "é", "E", "e", " e", "%_",
		strings.Repeat("long", 256),
	}
	for _, agent := range ids {
		for _, run := range ids {
			must(t, s.WriteStarted(t.Context(), started(run, agent, start)))
			must(t, s.AppendTurns(t.Context(), agent, run, []runs.Turn{turn(0, agent+"|"+run)}))
		}
	}
	for _, agent := range ids {
		if all := list(t, s, agent); len(all) != len(ids) {
			t.Errorf("agent %q has %d runs, not %d", agent, len(all), len(ids))
		}
		for _, run := range ids {
			records, found, err := s.GetRunTraceFor(t.Context(), agent, run)
			if err != nil || !found || len(records) != 2 || prompts(records)[0] != agent+"|"+run {
				t.Errorf("the trace of %q, %q is %v (%v, %v)", agent, run, records, found, err)
			}
		}
	}
}

func TestIDsThatCannotBeAreRefused(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	for _, id := range []string{"a\x00b", "\xff", strings.Repeat("x", txn.MaxID+1)} {
		for _, ref := range []runs.RunRef{{AgentID: id, RunID: "r"}, {AgentID: "a", RunID: id}} {
			if err := s.AppendTurns(t.Context(), ref.AgentID, ref.RunID, []runs.Turn{turn(0, "p")}); !errors.Is(err,
				db.ErrInvalid) {
				t.Errorf("%q: %v", ref, err)
			}
			if _, found, err := s.GetRunTraceFor(t.Context(), ref.AgentID, ref.RunID); found || err != nil {
				t.Errorf("%q is there (%v, %v)", ref, found, err)
			}
		}
	}
}

func TestAnAppendIsAllOrNothing(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	bad := turn(1, "bad")
	bad.Output = json.RawMessage("{")
	err := s.AppendRecords(t.Context(), "a", "r", []runs.Record{started("r", "a", start), bad})
	if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "record 2 of 2") {
		t.Errorf("the bad record gave %v", err)
	}
	if _, found, err := s.GetRunTrace(t.Context(), "r"); found || err != nil {
		t.Errorf("the run is there (%v)", err)
	}
}

func TestAnEmptyAppendMakesNothing(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	must(t, s.AppendRecords(t.Context(), "a", "r", nil))
	must(t, second(s.Append(t.Context(), runs.Batch{AgentID: "a", RunID: "r", Key: "k"})))
	if _, found, err := s.GetRunTrace(t.Context(), "r"); found || err != nil {
		t.Errorf("the run is there (%v)", err)
	}
}

func TestAnAppendWithAKeyHappensOnce(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	batch := runs.Batch{
		AgentID: "a", RunID: "r", Key: "k",
		Records: []runs.Record{started("r", "a", start), turn(0, "once")},
	}
	for range 3 {
		must(t, second(s.Append(t.Context(), batch)))
	}
	if got := len(trace(t, s, "r")); got != 2 {
		t.Errorf("the trace has %d records after the same append three times", got)
	}

	other := batch
	other.Records = []runs.Record{started("r", "a", start), turn(0, "twice")}
	_, err := s.Append(t.Context(), other)
	if !errors.Is(err, db.ErrConflict) || db.Hint(err) == "" {
		t.Errorf("other records under the key gave %v, with the hint %q", err, db.Hint(err))
	}
	if got := len(trace(t, s, "r")); got != 2 {
		t.Errorf("the trace has %d records after the conflict", got)
	}

	other.Key = "k2"
	must(t, second(s.Append(t.Context(), other)))
	other.RunID, other.Key = "r2", "k"
	must(t, second(s.Append(t.Context(), other))) // a key belongs to its run
	if a, b := len(trace(t, s, "r")), len(trace(t, s, "r2")); a != 4 || b != 2 {
		t.Errorf("the traces have %d and %d records, not 4 and 2", a, b)
	}
}

func TestAKeyTellsRecordsApartByWhatTheySay(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	batch := func(parameters string) runs.Batch {
		return runs.Batch{
			AgentID: "a", RunID: "r", Key: "k",
			Records: []runs.Record{runs.Turn{Parameters: json.RawMessage(parameters)}},
		}
	}
	must(t, second(s.Append(t.Context(), batch(`{"a":1,"b":2}`))))
	must(t, second(s.Append(t.Context(), batch(`{ "b":2, "a":1 }`))))
	if _, err := s.Append(t.Context(), batch(`{"a":1,"b":3}`)); !errors.Is(err, db.ErrConflict) {
		t.Errorf("other parameters gave %v", err)
	}
}

func TestTurns_AfterEndCountWithoutReopening(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	must(t, s.AppendRecords(t.Context(), "a", "r",
		[]runs.Record{started("r", "a", start), turn(0, "p"), ended("r", "a", runs.OutcomeFailure, start)}))
	for i := range 3 {
		must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(1, "late"), turn(2, "later")}))
		run := list(t, s, "a")[0]
		if run.Status != runs.StatusCompleted || run.Outcome != runs.OutcomeFailure || run.TurnCount != 3+2*i {
			t.Errorf("the run is %+v", run)
		}
	}
}

func TestTheLastStartAndTheLastEndWin(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	must(t, s.WriteEnded(t.Context(), ended("r", "a", runs.OutcomeSuccess, start)))
	if all := list(t, s, "a"); len(all) != 0 {
		t.Errorf("a run without a start is in the list: %v", all)
	}
	must(t, s.AppendRecords(t.Context(), "a", "r", []runs.Record{
		started("r", "a", start), started("else", "other", start.Add(day)),
		runs.Ended{RunID: "r", AgentID: "a", EndedAt: start.Add(2 * day)},
	}))
	run := list(t, s, "a")[0]
	if run.RunID != "else" || run.AgentID != "other" || !run.StartedAt.Equal(start.Add(day)) ||
		run.Status != runs.StatusIncomplete ||
		run.Outcome != "" || !run.EndedAt.Equal(start.Add(2*day)) ||
		run.Ref != (runs.RunRef{AgentID: "a", RunID: "r"}) {
		t.Errorf("the run is %+v", run)
	}
	if all := list(t, s, "other"); len(all) != 0 {
		t.Errorf("the run is in the list of the agent that its record names: %v", all)
	}
}

func TestOddTimesAreExactInAnswers(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	times := []string{
		"+262142-12-31T23:59:59.999999999Z", "2300-01-01T00:00:00Z", "2016-12-31T23:59:60.5Z",
		"2016-12-31T23:59:59.999Z", "1600-02-29T00:00:00Z", "-0001-01-01T00:00:00Z",
	}
	for _, text := range times {
		importTrace(t, d, s, runs.RunRef{AgentID: "a", RunID: text}, fmt.Sprintf(
			`{"record":"started","run_id":%q,"agent_id":"a","intent":"","started_at":%q}
{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},"ended_at":%q}
`, text, text, text))
	}
	var got []string
	for _, run := range list(t, s, "a") {
		text, err := json.Marshal(run)
		must(t, err)
		want := fmt.Sprintf(`{"run_id":%q,"agent_id":"a","intent":"","started_at":%q,"ended_at":%q,`+
			`"status":"incomplete","turn_count":0}`, run.RunID, run.RunID, run.RunID)
		if want = strings.ReplaceAll(want, ".5Z\",", ".500Z\","); !strings.Contains(want, "60.500Z") &&
			string(text) != want {
			t.Errorf("the summary is\n%s, not\n%s", text, want)
		}
		var back runs.RunSummary
		must(t, json.Unmarshal(text, &back))
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(text) {
			t.Errorf("%s was read as %s, %v", text, again, err)
		}
		got = append(got, run.RunID)
	}
	if strings.Join(got, " ") != strings.Join(times, " ") {
		t.Errorf("the list is %q", got)
	}
}

var errUndo = errors.New("undo")

func TestAnAppendInATransactionGoesWithIt(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	batch := runs.Batch{AgentID: "a", RunID: "gone", Records: []runs.Record{started("gone", "a", start)}}
	err := d.Write(t.Context(), "test", func(tx *db.Tx) error {
		must(t, second(s.AppendTx(tx, batch)))
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	// The next run gets the key that the first one had.
	must(t, s.WriteStarted(t.Context(), started("stays", "a", start)))
	must(t, s.AppendTurns(t.Context(), "a", "gone", []runs.Turn{turn(0, "p")}))
	if a, b := len(trace(t, s, "stays")), len(trace(t, s, "gone")); a != 1 || b != 1 {
		t.Errorf("the traces have %d and %d records, not one each", a, b)
	}
}

func TestAppend_OnlyMissingTimesAreFilled(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	end := start.Add(-time.Hour)
	must(t, s.AppendRecords(t.Context(), "a", "r",
		[]runs.Record{runs.Started{RunID: "r", AgentID: "a", Intent: "i"}, ended("r", "a", runs.OutcomeDone, end)}))
	run, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"})
	if err != nil || !run.StartedAt.Equal(start) || run.EndedAt == nil || !run.EndedAt.Equal(end) {
		t.Errorf("it began at %v and ended at %v, %v", run.StartedAt, run.EndedAt, err)
	}
}

func TestAFullTraceSaysSo(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
	batch := runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{turn(0, "p")}}
	err := d.Write(t.Context(), "test", func(tx *db.Tx) error {
		// A trace with a hole, for as long as this transaction lasts.
		_, err := tx.Exec(`INSERT INTO run_records (id, kind, turn_index, verdict, exact)
			VALUES ((1 << 24) + 16777213, 'turn', 0, 'pass', 1)`)
		must(t, err)
		must(t, second(s.AppendTx(tx, batch)))
		for range 2 {
			if _, err := s.AppendTx(tx, batch); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
				t.Errorf("a turn in the last line gave %v", err)
			}
		}
		batch.Records = []runs.Record{ended("r", "a", runs.OutcomeSuccess, start)}
		must(t, second(s.AppendTx(tx, batch)))
		if _, err := s.AppendTx(tx, batch); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("the line behind the last gave %v", err)
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Error(err)
	}
}

func TestScopesKeepApart(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	one, two := runs.NewStore(d, runs.Options{Scope: "one"}), runs.NewStore(d, runs.Options{Scope: "two"})
	must(t, one.WriteStarted(t.Context(), started("r", "a", start)))
	if _, found, err := two.GetRunTrace(t.Context(), "r"); found || err != nil {
		t.Errorf("the run is in the other scope (%v)", err)
	}
	must(t, two.WriteStarted(t.Context(), started("r", "a", start)))
	must(t, two.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(0, "p")}))
	if a, b := len(trace(t, one, "r")), len(trace(t, two, "r")); a != 1 || b != 2 {
		t.Errorf("the traces have %d and %d records, not 1 and 2", a, b)
	}
	if adopted, err := one.AdoptOrphans(t.Context()); err != nil || adopted != 1 {
		t.Errorf("adopted %d (%v)", adopted, err)
	}
	if got := list(t, two, "a")[0].Status; got != runs.StatusInProgress {
		t.Errorf("adoption went into the other scope: the run is %s", got)
	}
}
