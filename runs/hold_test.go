package runs_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func TestBegin_RunHasOneHolder(t *testing.T) {
	path := dbtest.Path(t)
	s, other := storeAt(t, path), storeAt(t, path)
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	first, err := s.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, first.Append(t.Context(), turn(0, "p"), turn(1, "q")))
	if r, err := other.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{}); r != nil ||
		!errors.Is(err, db.ErrConflict) || db.Hint(err) == "" {
		t.Errorf("a second beginning gave %v, %v", r, err)
	}
	if _, err := other.Resume(t.Context(), ref); !errors.Is(err, db.ErrConflict) {
		t.Errorf("a held run was taken up: %v", err)
	}
	if err := other.Delete(t.Context(), ref); !errors.Is(err, db.ErrConflict) {
		t.Errorf("a held run was deleted: %v", err)
	}
	again, err := s.Reattach(t.Context(), ref, first.Epoch())
	must(t, err)
	must(t, again.Append(t.Context(), turn(2, "r")))

	must(t, first.Release(t.Context()))
	second, err := other.Resume(t.Context(), ref)
	must(t, err)
	if second.Epoch() <= first.Epoch() {
		t.Errorf("epoch %d follows %d", second.Epoch(), first.Epoch())
	}
	for name, write := range map[string]func() error{
		"append":  func() error { return first.Append(t.Context(), turn(3, "stale")) },
		"end":     func() error { return again.End(t.Context(), runs.Termination{}) },
		"release": func() error { return first.Release(t.Context()) },
	} {
		if err := write(); !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("%s by a stale holder: %v", name, err)
		}
	}
	must(t, second.End(t.Context(), runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeDone}}))
	if _, err := s.Resume(t.Context(), ref); !errors.Is(err, db.ErrConflict) {
		t.Errorf("an ended run was taken up: %v", err)
	}
	if got := kinds(t, s, "a", "r"); !slices.Equal(got, []string{"started", "turn", "turn", "turn", "ended"}) {
		t.Errorf("the trace is %v", got)
	}
	if _, err := s.Resume(t.Context(), runs.RunRef{RunID: "none"}); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
}

func TestBegin_RunNeedsAnID(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("", "a", start), runs.BeginOptions{})
	if !errors.Is(err, db.ErrInvalid) {
		t.Errorf("%v, %v", r, err)
	}
}

func TestARunThatEndsOrIsReleasedIsNobodys(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	var held [3]*runs.Run
	for i, agent := range []string{"a", "b", "c"} {
		var err error
		held[i], err = s.Begin(t.Context(), started("r", agent, start), runs.BeginOptions{})
		must(t, err)
	}
	must(t, held[0].Release(t.Context()))
	must(t, held[1].End(t.Context(), runs.Termination{}))
	var owned []string
	leases := 0
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return errors.Join(rx.Select(&owned, `SELECT agent_id FROM runs WHERE owner_id IS NOT NULL`),
			rx.Get(&leases, `SELECT count(*) FROM leases`))
	}))
	if !slices.Equal(owned, []string{"c"}) || leases != 1 {
		t.Errorf("the runs of %q have an owner, and there are %d leases", owned, leases)
	}
}

func TestWhatWasBegunIsNotBegunAgain(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, r.Release(t.Context()))
	r, err = s.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
	if r != nil || !errors.Is(err, db.ErrConflict) {
		t.Errorf("it was, though nobody holds it: %v, %v", r, err)
	}
	if got := kinds(t, s, "a", "r"); !slices.Equal(got, []string{"started"}) {
		t.Errorf("the trace is %v", got)
	}
}

func TestRelease_OtherScopeStaysHeld(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	var held [2]*runs.Run
	for i, store := range []*runs.Store{s, runs.NewStore(d, runs.Options{Scope: "other"})} {
		var err error
		held[i], err = store.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
		must(t, err)
	}
	must(t, held[0].Release(t.Context()))
	owned := 0
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Get(&owned,
			`SELECT count(*) FROM runs WHERE owner_id IS NOT NULL`)
	}))
	if owned != 1 {
		t.Errorf("%d runs have an owner", owned)
	}
	must(t, held[1].Append(t.Context(), turn(0, "p")))
	if r, err := s.Reattach(t.Context(), runs.RunRef{AgentID: "a", RunID: "none"}, 1); r != nil ||
		!errors.Is(err, db.ErrNotFound) {
		t.Errorf("of no run: %v, %v", r, err)
	}
}

func TestDetachedRun_OutlivesItsProcess(t *testing.T) {
	path := dbtest.Path(t)
	gone, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	_, err = runs.NewStore(gone, runs.Options{Lease: db.LeaseTerms{TTL: time.Hour, Detached: true}}).Begin(
		t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, gone.Close())
	if n, err := storeAt(t, path).Recover(t.Context()); n != 0 || err != nil {
		t.Errorf("recovered %d: %v", n, err)
	}
}

func TestAnAppendOfAHolderIsRepeatedOnce(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, r.Append(t.Context(), turn(0, "p")))
	again := runs.Batch{Records: []runs.Record{turn(0, "p")}, Repeat: batchOf(t, s, r.Ref())}
	if repeated, err := r.AppendBatch(t.Context(), again); err != nil || !repeated {
		t.Errorf("it is repeated: %v, %v", repeated, err)
	}
	if got := len(kinds(t, s, "a", "r")); got != 2 {
		t.Errorf("the trace has %d records", got)
	}
}

func TestRun_KeyedAppendSaysWhetherItRepeats(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	b := runs.Batch{Key: "k", Records: []runs.Record{turn(0, "p")}}
	for _, want := range []bool{false, true} {
		if repeated, err := r.AppendBatch(t.Context(), b); err != nil || repeated != want {
			t.Fatalf("repeated %v, %v; want %t", repeated, err, want)
		}
	}
	b.Records = []runs.Record{turn(0, "other")}
	if _, err := r.AppendBatch(t.Context(), b); !errors.Is(err, db.ErrConflict) {
		t.Errorf("other records under the key: %v", err)
	}
	b.RunID = "other"
	if _, err := r.AppendBatch(t.Context(), b); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("another run: %v", err)
	}
	must(t, r.Release(t.Context()))
	b.RunID, b.Records = "", []runs.Record{turn(0, "p")}
	if _, err := r.AppendBatch(t.Context(), b); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("without the lease: %v", err)
	}
	r, err = s.Resume(t.Context(), r.Ref())
	must(t, err)
	if repeated, err := r.AppendBatch(t.Context(), b); err != nil || !repeated {
		t.Errorf("the next holder repeats %v, %v", repeated, err)
	}
	if got := len(kinds(t, s, "a", "r")); got != 2 {
		t.Errorf("the trace has %d records", got)
	}
}

// Of one process that lives, one that is dead, and nobody at all.
func TestRecover_FreesWhatTheDeadHeldEndsNothing(t *testing.T) {
	path := dbtest.Path(t)
	s, second := storeAt(t, path), storeAt(t, path)
	must(t, s.WriteStarted(t.Context(), started("ours", "a", start)))
	must(t, s.WriteStarted(t.Context(), started("paused here", "a", start)))
	imported := `{"record":"started","run_id":"imported","agent_id":"a","intent":"i","started_at":"2026-01-01T00:00:00Z"}` + "\n"
	importTrace(t, handle(s), s, runs.RunRef{AgentID: "a", RunID: "imported"}, imported)
	other := dbtest.Start(t, "writer", path)
	for _, run := range []string{"held-theirs", "held-paused", "held-resumed", "open"} {
		other.Send(run)
		other.Expect("started " + run)
	}
	paused := checkpoints.NewStore(handle(s), checkpoints.Options{})
	must(t, paused.Save(t.Context(), &checkpoints.PausedWorkflow{
		RunID: "held-paused", PausedStageID: "s", CreatedAt: start,
		Workflow: checkpoints.Workflow{ID: "w", Name: "w", Start: "s", MaxIterations: 1},
		WFState:  map[string]json.RawMessage{},
	}))
	recovered := func(want int) {
		t.Helper()
		for i, store := range []*runs.Store{s, second} {
			if n, err := store.Recover(t.Context()); err != nil || n != want {
				t.Errorf("handle %d recovered %d (%v), not %d", i, n, err, want)
			}
			want = 0 // the first took them all
		}
	}
	recovered(0)
	other.Kill()
	resumed, err := s.Resume(t.Context(), runs.RunRef{AgentID: "a", RunID: "held-resumed"})
	must(t, err)
	recovered(2)
	adopt(t, s, 4) // but what was held: ours, the one that is paused here, the imported one, and open
	for run, want := range map[string]runs.RunStatus{
		"ours": runs.StatusIncomplete, "imported": runs.StatusIncomplete, "open": runs.StatusIncomplete,
		"held-paused": runs.StatusInProgress, "held-resumed": runs.StatusInProgress,
		"held-theirs": runs.StatusInProgress,
	} {
		got, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: run})
		if err != nil || got.Status != want {
			t.Errorf("%s is %s (%v), not %s", run, got.Status, err, want)
		}
	}
	must(t, resumed.End(t.Context(), runs.Termination{}))
	taken, err := second.Resume(t.Context(), runs.RunRef{AgentID: "a", RunID: "held-theirs"})
	must(t, err)
	must(t, taken.End(t.Context(), runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeDone}}))
	if got := kinds(t, s, "a", "held-theirs"); !slices.Equal(got, []string{"started", "ended"}) {
		t.Errorf("the trace is %v", got)
	}
}

func TestResume_TakesUpAnIncompleteRun(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
	adopt(t, s, 1)
	r, err := s.Resume(t.Context(), ref)
	must(t, err)
	must(t, r.Append(t.Context(), turn(0, "p")))
	if got := kinds(t, s, "a", "r"); !slices.Equal(got, []string{"started", "ended", "turn"}) {
		t.Errorf("the trace is %v", got)
	}
	everything := db.Policy{Age: db.KeepNone}
	if done, err := s.Prune(t.Context(), everything); err != nil || done.Removed != 0 || done.Remaining != 1 {
		t.Errorf("while it was held it went: %+v, %v", done, err)
	}
	adopt(t, s, 0)
	must(t, r.End(t.Context(), runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeDone}}))
	if got, err := s.Get(t.Context(), ref); err != nil || got.Status != runs.StatusCompleted ||
		got.TurnCount != 1 {
		t.Errorf("it is %+v, %v", got, err)
	}
	if _, err := s.Resume(t.Context(), ref); !errors.Is(err, db.ErrConflict) || db.Hint(err) == "" {
		t.Errorf("a completed run was taken up: %v", err)
	}
	if done, err := s.Prune(t.Context(), everything); err != nil || done.Removed != 1 {
		t.Errorf("once it is over it does not go: %+v, %v", done, err)
	}
}

func TestAdoptOrphans_SparesRunsThatWereHeld(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("released", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, r.Release(t.Context()))
	// held by a program that kept no mark
	_, err = s.Begin(t.Context(), started("from before", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, s.WriteStarted(t.Context(), started("submitted", "a", start)))
	must(t, d.Write(t.Context(), "forget, and submit", func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM run_append_keys
			WHERE run = (SELECT key FROM runs WHERE run_id = 'from before')`)
		_, failed := tx.Exec(`UPDATE runs SET owner_id = NULL, ready_at = 1 WHERE run_id = 'submitted'`)
		return errors.Join(err, failed)
	}))
	shown := live.NewStore(d, live.Options{})
	asks, err := live.NewEvent([]byte(`{"type":"confirmation_required","tool_id":"t","tool_name":"rm","args":{},"timeout_ms":1000}`))
	must(t, err)
	for run, events := range map[string][]live.Event{
		"asks": {live.AgentStart("p"), asks}, "works": {live.AgentStart("p")},
	} {
		must(t, s.WriteStarted(t.Context(), started(run, "a", start)))
		_, err := shown.CreateRunWithID(t.Context(), run, "s", "p")
		must(t, err)
		_, _, err = shown.RecordEvent(t.Context(), run, events...)
		must(t, err)
	}
	adopt(t, s, 1)
	for run, want := range map[string]runs.RunStatus{
		"released": runs.StatusInProgress, "submitted": runs.StatusInProgress,
		"from before": runs.StatusInProgress, "asks": runs.StatusInProgress, "works": runs.StatusIncomplete,
	} {
		if got, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: run}); err != nil || got.Status != want {
			t.Errorf("%s is %s, %v", run, got.Status, err)
		}
	}
}

func TestPrune_EndsSilentRunsThatNobodyHolds(t *testing.T) {
	path, clock := dbtest.Path(t), dbtest.NewClock(start)
	gone, err := db.Open(t.Context(), path, db.Options{Now: clock.Now})
	must(t, err)
	left := runs.NewStore(gone, runs.Options{})
	for _, run := range []string{"seeds", "paused", "pinned", "kept"} {
		must(t, left.WriteStarted(t.Context(), started(run, "a", start)))
	}
	_, err = left.Begin(t.Context(), started("held", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, gone.Close())
	d := dbtest.OpenAt(t, path, db.Options{Now: clock.Now})
	s := runs.NewStore(d, runs.Options{})
	must(t, checkpoints.NewStore(d, checkpoints.Options{}).Save(t.Context(), &checkpoints.PausedWorkflow{
		RunID: "paused", PausedStageID: "s", CreatedAt: start,
		Workflow: checkpoints.Workflow{ID: "w", Name: "w", Start: "s", MaxIterations: 1},
		WFState:  map[string]json.RawMessage{},
	}))
	must(t, s.Pin(t.Context(), runs.RunRef{AgentID: "a", RunID: "pinned"}))
	must(t, s.WriteStarted(t.Context(), started("alive", "a", start)))
	_, err = s.Begin(t.Context(), started("working", "a", start), runs.BeginOptions{})
	must(t, err)
	importTrace(t, d, s, runs.RunRef{AgentID: "a", RunID: "imported"},
		`{"record":"started","run_id":"imported","agent_id":"a","intent":"i","started_at":"2020-01-01T00:00:00Z"}`+
			"\n")
	policy := db.Policy{Age: 24 * time.Hour, Pinned: []string{"kept"}}
	prune := func(want int) {
		t.Helper()
		would := policy
		would.DryRun = true
		for _, p := range []db.Policy{would, policy} {
			if done, err := s.Prune(t.Context(), p); err != nil || done != (db.Pruned{Ended: want, Remaining: want}) {
				t.Errorf("it did %+v, %v; %d should end", done, err, want)
			}
		}
	}
	clock.Advance(24 * time.Hour)
	prune(0)
	clock.Advance(1)
	prune(2)
	var ended []string
	for run, err := range s.All(t.Context(), runs.Filter{Statuses: []runs.RunStatus{runs.StatusIncomplete}}) {
		must(t, err)
		ended = append(ended, run.Ref.RunID)
	}
	if slices.Sort(ended); !slices.Equal(ended, []string{"held", "seeds"}) {
		t.Errorf("it ended %q", ended)
	}
	clock.Advance(25 * time.Hour)
	if done, err := s.Prune(t.Context(), policy); err != nil || done.Removed != 2 || done.Ended != 0 {
		t.Errorf("what it ended has its age from then on: %+v, %v", done, err)
	}
}

func TestPrune_SparesDetachedHoldUntilItEnds(t *testing.T) {
	path, clock := dbtest.Path(t), dbtest.NewClock(start)
	boot := &db.BootTime{Boot: "first", Since: time.Hour}
	o := db.Options{Now: clock.Now, BootTime: func() db.BootTime { return *boot }}
	gone, err := db.Open(t.Context(), path, o)
	must(t, err)
	_, err = runs.NewStore(gone, runs.Options{Lease: db.LeaseTerms{TTL: time.Minute, Detached: true}}).Begin(
		t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, gone.Close())
	s := runs.NewStore(dbtest.OpenAt(t, path, o), runs.Options{})
	clock.Advance(25 * time.Hour)
	for _, ends := range []int{0, 1} {
		for _, dry := range []bool{true, false} {
			done, err := s.Prune(t.Context(), db.Policy{Age: 24 * time.Hour, DryRun: dry})
			if err != nil || done.Ended != ends {
				t.Errorf("it did %+v, %v; dry: %v, %d should end", done, err, dry, ends)
			}
		}
		boot.Since += time.Minute
	}
}
