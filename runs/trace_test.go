package runs_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// removeRun removes a run as an importer does.
func removeRun(t testing.TB, s *runs.Store, ref runs.RunRef) error {
	t.Helper()
	return handle(s).Write(t.Context(), "remove", func(tx *db.Tx) error {
		found, err := s.Remove(tx, ref)
		if err == nil && !found {
			err = db.ErrNotFound
		}
		return err
	})
}

// handle is the file of a store.
func handle(s *runs.Store) *db.DB { return runs.HandleOf(s) }

func laterRecord(kind string) runs.Unknown {
	return runs.Unknown{Kind: kind, Raw: json.RawMessage(`{"record":"` + kind + `","x":[1, 2]}`)}
}

func kinds(t testing.TB, s *runs.Store, agent, run string) []string {
	t.Helper()
	var all []string
	for r, err := range s.Trace(t.Context(), runs.RunRef{AgentID: agent, RunID: run}) {
		must(t, err)
		all = append(all, r.Record.RecordKind())
	}
	return all
}

func TestTrace_LaterRecordsNotInSeedAnswers(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	must(t, s.AppendRecords(t.Context(), "a", "r",
		[]runs.Record{started("r", "a", start), laterRecord("model_turn"), turn(0, "p")}))
	if got := len(trace(t, s, "r")); got != 2 {
		t.Errorf("GetRunTrace gives %d records, not 2", got)
	}
	if got := kinds(t, s, "a", "r"); !slices.Equal(got, []string{"started", "model_turn", "turn"}) {
		t.Errorf("the trace is %v", got)
	}
	if got := list(t, s, "a")[0].TurnCount; got != 1 {
		t.Errorf("the run has %d turns, not 1", got)
	}
}

func TestATraceIsReadInPages(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	var turns []runs.Turn
	for i := range 1000 {
		turns = append(turns, turn(uint64(i), "p"))
	}
	must(t, s.AppendTurns(t.Context(), "a", "r", turns))
	next := uint64(0)
	for r, err := range s.Trace(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}) {
		must(t, err)
		if got := r.Record.(runs.Turn).Index; got != next {
			t.Fatalf("turn %d comes where %d should", got, next)
		}
		if next++; next == 500 { // no transaction is open here
			must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(1000, "late")}))
		}
	}
	if next != 1001 {
		t.Errorf("the loop saw %d turns, not 1001", next)
	}
}

func TestAPageOfATraceEndsWhereFollowGoesOn(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(0, "p"), turn(1, "p"), turn(2, "p")}))
	first, err := s.TracePage(t.Context(), ref, db.At{Limit: 2})
	if err != nil || len(first.Items) != 2 || first.Next != first.Items[1].Cursor {
		t.Fatalf("the first page is %+v, %v", first, err)
	}
	second, err := s.TracePage(t.Context(), ref, db.At{After: first.Next})
	if err != nil || len(second.Items) != 1 || second.Next != "" || second.Items[0].Item.Sequence != 3 {
		t.Fatalf("the second page is %+v, %v", second, err)
	}
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(3, "p")}))
	for r, err := range s.Follow(t.Context(), ref, second.Items[0].Cursor) {
		if err != nil || r.Item.Sequence != 4 {
			t.Errorf("behind the last page comes %+v, %v", r, err)
		}
		break
	}
}

func TestACursorIntoARemovedRunSaysSo(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref, other := runs.RunRef{AgentID: "a", RunID: "r"}, runs.RunRef{AgentID: "a", RunID: "other"}
	must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
	must(t, s.WriteStarted(t.Context(), started("other", "a", start)))
	cursor, err := s.CursorBefore(t.Context(), ref, 0)
	must(t, err)
	if _, err := s.TracePage(t.Context(), other, db.At{After: cursor}); !errors.Is(err, db.ErrInvalid) ||
		db.Hint(err) == "" {
		t.Errorf("the cursor of another run gave %v", err)
	}
	must(t, removeRun(t, s, ref))
	for range 2 {
		if _, err := s.TracePage(t.Context(), ref, db.At{After: cursor}); !errors.Is(err, db.ErrCursorExpired) ||
			db.Hint(err) == "" {
			t.Errorf("the cursor into the removed run gave %v", err)
		}
		must(t, s.WriteStarted(t.Context(), started("r", "a", start))) // a new one of that name
	}
}

func TestATraceThatIsNotThere(t *testing.T) {
	s, _ := openStore(t, runs.Options{Scope: "nobody was here"})
	for r, err := range s.Trace(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}) {
		if r.Record != nil || !errors.Is(err, db.ErrNotFound) {
			t.Errorf("got %v, %v", r, err)
		}
	}
	for line, err := range s.Lines(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}) {
		if line.Line != nil || !errors.Is(err, db.ErrNotFound) {
			t.Errorf("got %v, %v", line, err)
		}
	}
}

func TestARunIDAloneMeansTheFirstAgent(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	for _, agent := range []string{"b", "a", "c"} {
		must(t, s.AppendTurns(t.Context(), agent, "r", []runs.Turn{turn(0, agent)}))
	}
	if got := prompts(trace(t, s, "r"))[0]; got != "a" {
		t.Errorf("the trace is that of %s", got)
	}
	if agent, found, err := s.AgentForRun(t.Context(), "r"); err != nil || !found || agent != "a" {
		t.Errorf("the agent is %q (%v, %v)", agent, found, err)
	}
}

func TestFindGoesByPrefix(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	for _, id := range []string{"ab", "abc", "abé", "ab\U0010ffff", "ac", "b", "a%", "a"} {
		must(t, s.AppendTurns(t.Context(), "agent", id, []runs.Turn{turn(0, "p")}))
	}
	for prefix, want := range map[string]int{
		"ab": 4, "a": 7, "": 8, "abc": 1, "a%": 1, "x": 0, "\U0010ffff": 0,
		"ab\U0010ffff": 1,
	} {
		got, err := s.Find(t.Context(), prefix, 100)
		if err != nil || len(got) != want {
			t.Errorf("%q finds %v (%v), not %d runs", prefix, got, err, want)
		}
	}
	if got, err := s.Find(t.Context(), "ab", 2); err != nil || len(got) != 2 || got[0].RunID != "ab" {
		t.Errorf("at most two of them are %v (%v)", got, err)
	}
	if _, err := s.Find(t.Context(), "\xff", 2); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a prefix that no id can have gave %v", err)
	}
}

// What an importer hands over must come back byte for byte, whatever it is.
func TestImportedLinesComeBack(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	const text = "\n \t\n\ufeff{}\n" +
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","client_id":"later","started_at":"2021-03-01T10:00:00+02:00"}` + "\r\n" +
		`{"record":"turn","index":18446744073709551615,"verifier_verdict":"pass"}` + "\n" +
		`{"record":"turn","index":1,"parameters":{"b": 1.10,"a":"\u0041"},"verifier_verdict":"not_run"}` + "\n" +
		"{\"x\":\"\xff\"}\n\x00\x00\n" +
		`{"record":"model_turn","index":2 }` + "\n" +
		`{"verifier_verdict":"fail","index":3,"record":"turn"}` + "\n" +
		`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"cancelled"},"ended_at":"2021-03-01T09:00:00Z"}` + "\n"
	importTrace(t, d, s, ref, text)
	if got := exportTrace(t, s, ref); got != text {
		t.Errorf("the export is\n%q, not\n%q", got, text)
	}
	if got := len(trace(t, s, "r")); got != 4 {
		t.Errorf("the trace has %d records, not 4", got)
	}
	run := list(t, s, "a")[0]
	if run.TurnCount != 3 || run.Status != runs.StatusCancelled || run.EndedAt == nil {
		t.Errorf("the run is %+v", run)
	}
	must(t, d.Read(t.Context(), "count", func(rx *db.Rx) error {
		for bytes, want := range map[int]int{0: 1, 1 << 20: 11} {
			if page, all, err := s.PageOfLines(rx, ref, bytes); err != nil || page != want || all != 11 {
				t.Errorf("a page of %d bytes has %d lines of %d (%v), not %d of 11", bytes, page, all, err, want)
			}
		}
		return nil
	}))
}

func TestImport_EmptyFileIsEmptyTrace(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	importTrace(t, d, s, runs.RunRef{AgentID: "a", RunID: "r"}, "")
	if got := trace(t, s, "r"); len(got) != 0 {
		t.Errorf("the trace is %v", got)
	}
	if all := list(t, s, "a"); len(all) != 0 {
		t.Errorf("the list is %v", all)
	}
}

func TestADamagedCellIsCorrupt(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := runs.NewStore(d, runs.Options{})
	one := turn(0, "p")
	one.Parameters = []byte(`{"a":1}`)
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{one}))
	write := func(cell string) {
		must(t, d.Write(t.Context(), "damage", func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE run_records SET parameters = ?`, []byte(cell))
			return err
		}))
	}
	write(`{"a":q}`)
	_, err := s.TracePage(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}, db.At{})
	if !errors.Is(err, db.ErrCorrupt) {
		t.Errorf("parameters that are no JSON: %v", err)
	}
	write(`{"a":1}`)
}
