package runs_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs"
)

func TestARunIsHeldByOneAndWrittenByItsHolder(t *testing.T) {
	path := dbtest.Path(t)
	s, other := storeAt(t, path), storeAt(t, path)
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	first, err := s.Begin(t.Context(), started("r", "a", start))
	must(t, err)
	must(t, first.Append(t.Context(), turn(0, "p"), turn(1, "q")))
	if r, err := other.Begin(t.Context(), started("r", "a", start)); r != nil || !errors.Is(err, db.ErrConflict) || db.Hint(err) == "" {
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

func TestARunThatEndsOrIsReleasedIsNobodys(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	var held [3]*runs.Run
	for i, agent := range []string{"a", "b", "c"} {
		var err error
		held[i], err = s.Begin(t.Context(), started("r", agent, start))
		must(t, err)
	}
	must(t, held[0].Release(t.Context()))
	must(t, held[1].End(t.Context(), runs.Termination{}))
	var owned []string
	leases := 0
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return errors.Join(rx.Select(&owned, `SELECT agent_id FROM runs WHERE owner_id IS NOT NULL`), rx.Get(&leases, `SELECT count(*) FROM leases`))
	}))
	if !slices.Equal(owned, []string{"c"}) || leases != 1 {
		t.Errorf("the runs of %q have an owner, and there are %d leases", owned, leases)
	}
}

func TestWhatWasBegunIsNotBegunAgain(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("r", "a", start))
	must(t, err)
	must(t, r.Release(t.Context()))
	if r, err := s.Begin(t.Context(), started("r", "a", start)); r != nil || !errors.Is(err, db.ErrConflict) {
		t.Errorf("it was, though nobody holds it: %v, %v", r, err)
	}
	if got := kinds(t, s, "a", "r"); !slices.Equal(got, []string{"started"}) {
		t.Errorf("the trace is %v", got)
	}
}

func TestWhatIsReleasedInOneScopeIsHeldOnInAnother(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	var held [2]*runs.Run
	for i, store := range []*runs.Store{s, runs.NewStore(d, runs.Options{Scope: "other"})} {
		var err error
		held[i], err = store.Begin(t.Context(), started("r", "a", start))
		must(t, err)
	}
	must(t, held[0].Release(t.Context()))
	owned := 0
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error { return rx.Get(&owned, `SELECT count(*) FROM runs WHERE owner_id IS NOT NULL`) }))
	if owned != 1 {
		t.Errorf("%d runs have an owner", owned)
	}
	must(t, held[1].Append(t.Context(), turn(0, "p")))
	if r, err := s.Reattach(t.Context(), runs.RunRef{AgentID: "a", RunID: "none"}, 1); r != nil || !errors.Is(err, db.ErrNotFound) {
		t.Errorf("of no run: %v, %v", r, err)
	}
}

func TestARunThatIsHeldForNoProcessOutlivesItsOwn(t *testing.T) {
	path := dbtest.Path(t)
	gone, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	_, err = runs.NewStore(gone, runs.Options{Lease: db.LeaseTerms{TTL: time.Hour, Detached: true}}).Begin(t.Context(), started("r", "a", start))
	must(t, err)
	must(t, gone.Close())
	if n, err := storeAt(t, path).Recover(t.Context()); n != 0 || err != nil {
		t.Errorf("recovered %d: %v", n, err)
	}
}

func TestAnAppendOfAHolderIsRepeatedOnce(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("r", "a", start))
	must(t, err)
	must(t, r.Append(t.Context(), turn(0, "p")))
	must(t, r.RepeatAppend(t.Context(), batchOf(t, s, r.Ref()), turn(0, "p")))
	if got := len(kinds(t, s, "a", "r")); got != 2 {
		t.Errorf("the trace has %d records", got)
	}
}

// Of one process that lives, one that is dead, and nobody at all.
func TestRecoverTakesOnlyWhatTheDeadHeld(t *testing.T) {
	path := dbtest.Path(t)
	s, second := storeAt(t, path), storeAt(t, path)
	must(t, s.WriteStarted(t.Context(), started("ours", "a", start)))
	must(t, s.WriteStarted(t.Context(), started("paused here", "a", start)))
	imported := `{"record":"started","run_id":"imported","agent_id":"a","intent":"i","started_at":"2026-01-01T00:00:00Z"}` + "\n"
	importTrace(t, handle(s), s, runs.RunRef{AgentID: "a", RunID: "imported"}, imported)
	other := dbtest.Start(t, "writer", path)
	for _, run := range []string{"theirs", "paused", "resumed"} {
		other.Send(run)
		other.Expect("started " + run)
	}
	paused := checkpoints.NewStore(handle(s), checkpoints.Options{})
	must(t, paused.Save(t.Context(), &checkpoints.PausedWorkflow{
		RunID: "paused", PausedStageID: "s", CreatedAt: start,
		Workflow: checkpoints.Workflow{ID: "w", Name: "w", Start: "s", MaxIterations: 1}, WFState: map[string]json.RawMessage{},
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
	resumed, err := s.Resume(t.Context(), runs.RunRef{AgentID: "a", RunID: "resumed"})
	must(t, err)
	recovered(1)
	for run, want := range map[string]runs.RunStatus{
		"ours": runs.StatusInProgress, "imported": runs.StatusInProgress, "paused": runs.StatusInProgress,
		"resumed": runs.StatusInProgress, "theirs": runs.StatusIncomplete,
	} {
		got, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: run})
		if err != nil || got.Status != want {
			t.Errorf("%s is %s (%v), not %s", run, got.Status, err, want)
		}
	}
	must(t, resumed.End(t.Context(), runs.Termination{}))
	if _, ok, err := paused.Claim(t.Context(), "paused"); err != nil || !ok {
		t.Error(err)
	}
	recovered(0) // it is being resumed
}
