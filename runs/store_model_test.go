package runs_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/runs"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// The store against the model with our rules, on calls that nobody thought of.
func TestTheStoreDoesWhatTheModelDoes(t *testing.T) {
	clock := dbtest.NewClock(start)
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now})
	scope := 0
	rapid.Check(t, func(rt *rapid.T) {
		scope++ // each in a scope of its own, which starts empty
		clock.Set(start)
		m := newModelled(t, rt, d, clock, fmt.Sprint(scope))
		rt.Repeat(map[string]func(*rapid.T){
			"append":       m.append,
			"append again": m.appendAgain,
			"import":       m.importLines,
			"remove":       m.remove,
			"gc":           m.gc,
			"adopt":        m.adopt,
			"":             m.look,
		})
	})
}

type modelled struct {
	t     *testing.T
	clock *dbtest.Clock
	db    *db.DB
	store *runs.Store
	model *seedModel
	keys  int
	last  runs.Batch // the last one with a key
}

func newModelled(t *testing.T, rt *rapid.T, d *db.DB, clock *dbtest.Clock, scope string) *modelled {
	m := &modelled{t: t, clock: clock, db: d}
	limits := runs.RetentionConfig{
		MaxPerAgent: rapid.Uint64Range(0, 3).Draw(rt, "per agent"),
		MaxAgeDays:  rapid.Int64Range(-2, 40).Draw(rt, "days"),
	}
	m.store = runs.NewStore(m.db, runs.Options{Scope: scope, Retention: &limits})
	m.model = &seedModel{limits: limits, now: m.clock.Now, rules: seedRules{on: true, used: map[int]bool{}}}
	m.model.shelf = &table{rows: map[runs.RunRef][]byte{}, rules: &m.model.rules}
	return m
}

var (
	someAgent = rapid.SampledFrom([]string{"a", "b", "_"})
	someRun   = rapid.SampledFrom([]string{"r1", "r2", "r3", "R1"})
	someText  = rapid.SampledFrom([]string{"", "p", "é\n\u2028", "\x00"})
	someJSON  = rapid.SampledFrom([]string{
		"", "null", "{}", `{"b":1,"a":[2.50]}`, " [1, 2]\n", `"\u0041"`,
		"1e4",
	})
)

func someTime(rt *rapid.T) time.Time {
	return start.Add(time.Duration(rapid.IntRange(-60, 3).Draw(rt, "days")) * day)
}

func someRecord(rt *rapid.T) runs.Record {
	switch rapid.SampledFrom([]string{
		"started", "turn", "turn", "turn", "ended", "cancelled",
		"later",
	}).Draw(rt, "kind") {
	case "started":
		return runs.Started{
			RunID: someRun.Draw(rt, "run"), AgentID: someAgent.Draw(rt, "agent"),
			Intent: someText.Draw(rt, "intent"), StartedAt: someTime(rt),
		}
	case "ended":
		e := runs.Ended{RunID: someRun.Draw(rt, "run"), AgentID: someAgent.Draw(rt, "agent"), EndedAt: someTime(rt)}
		if rapid.Bool().Draw(rt, "outcome") {
			e.Termination.Outcome = &runs.AgentOutcome{Status: runs.OutcomeSuccess, Timestamp: e.EndedAt}
		}
		return e
	case "cancelled":
		return cancelled(chrono.Format(someTime(rt)))
	case "later":
		return laterRecord(rapid.SampledFrom([]string{
			"model_turn", "cancellation_requested",
			"cancellation_result",
		}).Draw(rt, "word"))
	}
	turn := runs.Turn{
		Index:           rapid.Uint64().Draw(rt, "index"),
		Parameters:      json.RawMessage(someJSON.Draw(rt, "parameters")),
		Output:          json.RawMessage(someJSON.Draw(rt, "output")),
		VerifierVerdict: runs.Verdict(rapid.IntRange(0, 2).Draw(rt, "verdict")),
	}
	if rapid.Bool().Draw(rt, "prompt?") {
		turn.Prompt = new(someText.Draw(rt, "prompt"))
	}
	if rapid.Bool().Draw(rt, "command?") {
		turn.CliOutcome = &runs.CliOutcome{Kind: runs.CliExited, Code: rapid.Int64().Draw(rt, "code")}
	}
	if rapid.Bool().Draw(rt, "policy?") {
		turn.PolicyRejected = &runs.PolicyRejection{Rule: someText.Draw(rt, "rule"), Param: turn.Prompt}
	}
	return turn
}

func (m *modelled) append(rt *rapid.T) {
	if _, there := m.model.shelf.file(m.last.AgentID, m.last.RunID); !there {
		m.last = runs.Batch{} // its key went with its run, which this append may make anew
	}
	b := runs.Batch{
		AgentID: someAgent.Draw(rt, "agent"), RunID: someRun.Draw(rt, "run"),
		Records: rapid.SliceOfN(rapid.Custom(someRecord), 0, 4).Draw(rt, "records"),
	}
	if rapid.IntRange(0, 3).Draw(rt, "key?") == 0 && len(b.Records) > 0 {
		m.keys++
		b.Key = fmt.Sprint("k", m.keys)
		m.last = b
	}
	must(m.t, second(m.store.Append(m.t.Context(), b)))
	must(m.t, m.model.appendRecords(b.AgentID, b.RunID, b.Records))
}

// appendAgain repeats the last append with a key, which changes nothing as long as the run is there.
func (m *modelled) appendAgain(rt *rapid.T) {
	if _, there := m.model.shelf.file(m.last.AgentID, m.last.RunID); !there {
		m.last = runs.Batch{}
	}
	if m.last.Key == "" {
		rt.Skip("nothing to repeat")
	}
	must(m.t, second(m.store.Append(m.t.Context(), m.last)))
}

func (m *modelled) importLines(rt *rapid.T) {
	ref := runs.RunRef{AgentID: someAgent.Draw(rt, "agent"), RunID: someRun.Draw(rt, "run")}
	text := rapid.SampledFrom([]string{
		"", "\n", "{\"record\":\"turn\",\"prom\n", "\xff\n", "  \r\n",
		`{"record":"turn","index":1,"verifier_verdict":"pass","more":1}` + "\n",
		`{"record":"started","run_id":"r1","agent_id":"x","intent":"","started_at":"+12345-01-01T00:00:00Z"}` +
			"\n",
	}).Draw(rt, "text")
	m.last = runs.Batch{}
	importTrace(m.t, m.db, m.store, ref, text)
	must(m.t, m.model.shelf.append(ref.AgentID, ref.RunID, []byte(text)))
}

func (m *modelled) remove(rt *rapid.T) {
	ref := runs.RunRef{AgentID: someAgent.Draw(rt, "agent"), RunID: someRun.Draw(rt, "run")}
	_, there := m.model.shelf.file(ref.AgentID, ref.RunID)
	must(m.t, m.db.Write(m.t.Context(), "remove", func(tx *db.Tx) error {
		found, err := m.store.Remove(tx, ref)
		if err == nil && found != there { // it may run again after an error
			rt.Fatalf("%v was there: %v; the model says %v", ref, found, there)
		}
		return err
	}))
	must(m.t, m.model.shelf.remove(ref.AgentID, ref.RunID))
}

func (m *modelled) gc(rt *rapid.T) {
	// Which of several that started at once go is nobody's promise.
	files, err := m.model.shelf.files()
	must(m.t, err)
	starts := map[string]bool{}
	for _, f := range files {
		if s, ok := m.model.summarize(f); ok {
			if at := f.agent + s.StartedAt; starts[at] {
				rt.Skip("two runs started at once")
			} else {
				starts[at] = true
			}
		}
	}
	want, err := m.model.gc()
	must(m.t, err)
	got, err := m.store.GC(m.t.Context())
	if err != nil || got != want {
		rt.Fatalf("gc removed %d (%v), not %d", got, err, want)
	}
}

func (m *modelled) adopt(rt *rapid.T) {
	want, err := m.model.adoptOrphans()
	must(m.t, err)
	got, err := m.store.AdoptOrphans(m.t.Context())
	if err != nil || got != want {
		rt.Fatalf("adopted %d (%v), not %d", got, err, want)
	}
	m.clock.Advance(time.Second)
}

// look compares every answer.
func (m *modelled) look(rt *rapid.T) {
	for _, agent := range []string{"a", "b", "_"} {
		want, err := m.model.listRuns(agent)
		must(m.t, err)
		got := []modelSummary{}
		for _, run := range list(m.t, m.store, agent) {
			text, err := json.Marshal(run)
			must(m.t, err)
			var s modelSummary
			must(m.t, json.Unmarshal(text, &s))
			s.started = run.StartedAt
			got = append(got, s)
		}
		slices.SortStableFunc(got, newestFirst)
		same(rt, "the list of "+agent, got, want)
		for _, run := range []string{"r1", "r2", "r3", "R1"} {
			records, found, err := m.store.GetRunTraceFor(m.t.Context(), agent, run)
			must(m.t, err)
			var trace any
			if found {
				trace = records
			}
			same(rt, "the trace of "+agent+"/"+run, trace, m.model.getRunTraceFor(agent, run))
			if text, there := m.model.shelf.file(agent, run); there {
				if got := exportTrace(m.t, m.store, runs.RunRef{AgentID: agent, RunID: run}); got != string(text.text) {
					rt.Fatalf("%s/%s is exported as\n%q, not\n%q", agent, run, got, text.text)
				}
			}
		}
	}
	for _, run := range []string{"r1", "r2", "r3", "R1"} {
		want, err := m.model.agentForRun(run)
		must(m.t, err)
		agent, found, err := m.store.AgentForRun(m.t.Context(), run)
		must(m.t, err)
		var got any
		if found {
			got = agent
		}
		same(rt, "the agent of "+run, got, want)
	}
}

func same(rt *rapid.T, what string, got, want any) {
	text, err := json.Marshal([]any{got, want})
	if err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	both, err := replay.Decode(text)
	if err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	if d := (replay.Comparison{}).Diff(both.([]any)[1], both.([]any)[0]); d != "" {
		rt.Fatalf("%s: %s", what, d)
	}
}
