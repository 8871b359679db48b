package live_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func TestBegin_LiveRunHasOneHolder(t *testing.T) {
	ctx, path := t.Context(), dbtest.Path(t)
	s := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	other := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	first, err := s.Begin(ctx, live.Start{ID: "r", SessionID: "s", Prompt: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Append(ctx, live.AgentStart("p"), live.TextDelta("1")); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"a second beginning": func() error { _, err := other.Begin(ctx, live.Start{ID: "r"}); return err },
		"taking it up":       func() error { _, err := other.Resume(ctx, "r"); return err },
		"deleting it":        func() error { return other.Delete(ctx, "r") },
	} {
		if err := call(); !errors.Is(err, db.ErrConflict) {
			t.Errorf("%s gave %v", what, err)
		}
	}
	again, err := s.Reattach(ctx, "r", first.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	if a, err := again.Append(ctx, live.TextDelta("2")); err != nil || a.First != 2 {
		t.Errorf("a handle that was attached again gave %+v, %v", a, err)
	}
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	second, err := other.Resume(ctx, "r")
	if err != nil || second.Epoch() <= first.Epoch() {
		t.Fatalf("epoch %d follows %d: %v", second.Epoch(), first.Epoch(), err)
	}
	for name, write := range map[string]func() error{
		"append":  func() error { _, err := first.Append(ctx, live.TextDelta("stale")); return err },
		"end":     func() error { return again.End(ctx, live.AgentEnd("stale")) },
		"release": func() error { return first.Release(ctx) },
	} {
		if err := write(); !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("%s by a stale holder: %v", name, err)
		}
	}
	if err := second.End(ctx, live.AgentEnd("done")); err != nil {
		t.Fatal(err)
	}
	if run := snapshotOf(t, s, "r"); run.Status != live.Completed || run.EventCount != 4 {
		t.Errorf("the run is %s", jsonOf(run))
	}
	if _, err := s.Resume(ctx, "none"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
	third, err := s.Resume(ctx, "r") // an end is not final
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateRunWithID(ctx, "r", "s", "another"); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Append(ctx, live.TextDelta("into another")); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the holder of a run that was replaced: %v", err)
	}
}

func TestADetachedHoldIsNoProcesss(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{})
	tied := live.NewStore(d, live.Options{})
	detached := live.NewStore(d, live.Options{Lease: db.LeaseTerms{TTL: time.Hour, Detached: true}})
	for id, s := range map[string]*live.Store{"tied": tied, "detached": detached} {
		if _, err := s.Begin(ctx, live.Start{ID: id, SessionID: "s", Prompt: "p"}); err != nil {
			t.Fatal(err)
		}
	}
	var owned []string
	err := d.Read(ctx, "look", func(rx *db.Rx) error {
		return rx.Select(&owned, `SELECT run_id FROM live_runs WHERE owner_id IS NOT NULL`)
	})
	if err != nil || !slices.Equal(owned, []string{"tied"}) {
		t.Errorf("%q have an owner, %v", owned, err)
	}
}

// Of one process that lives, one that is dead, and nobody at all.
func TestRecover_FreesWhatTheDeadHeldEndsNothing(t *testing.T) {
	ctx, path := t.Context(), dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	s := live.NewStore(d, live.Options{})
	second := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	if _, err := s.Begin(ctx, live.Start{ID: "ours"}); err != nil {
		t.Fatal(err)
	}
	nobodys := create(t, s, "p")
	record(t, s, nobodys.ID, live.AgentStart("p"))
	other := dbtest.Start(t, "hold", path)
	for _, id := range []string{"theirs", "paused", "resumed", "cancelled"} {
		other.Send(id)
		other.Expect("holds " + id)
	}
	if _, _, err := s.MarkCancelled(ctx, "cancelled"); err != nil {
		t.Fatal(err)
	}
	paused := checkpoints.NewStore(d, checkpoints.Options{})
	err := paused.Save(ctx, &checkpoints.PausedWorkflow{
		RunID: "paused", PausedStageID: "s", CreatedAt: time.Unix(1, 0),
		Workflow: checkpoints.Workflow{ID: "w", Name: "w", Start: "s", MaxIterations: 1},
		WFState:  map[string]json.RawMessage{},
	})
	if err != nil {
		t.Fatal(err)
	}
	recovered := func(want int) {
		t.Helper()
		for i, store := range []*live.Store{s, second} {
			if n, err := store.Recover(ctx); err != nil || n != want {
				t.Errorf("handle %d recovered %d (%v), not %d", i, n, err, want)
			}
			want = 0 // the first took them all
		}
	}
	recovered(0)
	other.Kill()
	if _, err := s.Resume(ctx, "resumed"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.RecoverReservations(ctx, db.ReservationFilter{}); err != nil { // tidying up hides nothing
		t.Fatal(err)
	}
	recovered(2) // theirs and the one that waits; the mark freed the cancelled one
	for id, want := range map[string]live.RunStatus{
		"ours": live.Created, "theirs": live.Executing, "paused": live.Executing, "resumed": live.Executing,
		"cancelled": live.Cancelled, nobodys.ID: live.Executing,
	} {
		if run := snapshotOf(t, s, id); run.Status != want || run.Error != nil {
			t.Errorf("%s is %s", id, jsonOf(run))
		}
	}
}

func TestPruneKeepsWhatThePolicyKeeps(t *testing.T) {
	ctx := t.Context()
	clock := dbtest.NewClock(clockBase)
	for name, c := range map[string]struct {
		policy db.Policy
		left   string
	}{
		"nothing asked": {db.Policy{}, "a1 a2 a3 b1 open"},
		"by age":        {db.Policy{Age: 36 * time.Hour}, "a3 b1 open"},
		"by count":      {db.Policy{Count: 1}, "a3 b1 open"},
		"by bytes":      {db.Policy{Bytes: 1}, "open"},
		"pinned":        {db.Policy{Bytes: 1, Pinned: []string{"a2", "none"}}, "a2 open"},
		"only counted":  {db.Policy{Bytes: 1, DryRun: true}, "a1 a2 a3 b1 open"},
	} {
		t.Run(name, func(t *testing.T) {
			store := live.NewStore(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now}),
				live.Options{})
			for _, id := range []string{"a1", "open", "a2", "b1", "a3"} {
				if _, err := store.CreateRunWithID(ctx, id, id[:1], "p"); err != nil {
					t.Fatal(err)
				}
				event := live.AgentEnd("t")
				if id == "open" {
					event = live.AgentStart("p")
				}
				record(t, store, id, event)
				clock.Advance(24 * time.Hour)
			}
			clock.Advance(-12 * time.Hour)
			done, err := store.Prune(ctx, c.policy)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for run, err := range store.All(ctx, live.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				left = append(left, run.ID)
			}
			slices.Sort(left)
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("%q are left, not %q", got, c.left)
			}
			gone := 5 - len(left)
			if c.policy.DryRun {
				gone = 4
			}
			if done.Removed != gone || done.Remaining != 4-gone || (done.Bytes > 0) != (gone > 0) {
				t.Errorf("it says %+v", done)
			}
		})
	}
	store := newStore(t, live.Options{})
	if _, err := store.Prune(ctx, db.Policy{Age: -2}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("an age below 0 gave %v", err)
	}
}

func TestPruneTakesALargeRunInSteps(t *testing.T) {
	longest := time.Duration(0)
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if o.Write && o.Why == "prune live runs" {
			longest = max(longest, o.Run)
		}
	}})
	store := live.NewStore(d, live.Options{})
	run := create(t, store, "p")
	if _, err := store.Append(t.Context(), run.ID,
		live.Batch{Events: slices.Repeat([]live.Event{live.TextDelta("x")}, 9_999)}); err != nil {
		t.Fatal(err)
	}
	record(t, store, run.ID, live.AgentEnd("t"))
	done, err := store.Prune(t.Context(), db.Policy{Bytes: 1})
	if err != nil || done.Removed != 1 || done.Bytes < 9_999*60 {
		t.Errorf("it says %+v, %v", done, err)
	}
	t.Logf("the longest of its transactions took %v", longest)
}

func TestATransactionOfAnotherFileIsRefused(t *testing.T) {
	ctx := t.Context()
	store, elsewhere := newStore(t, live.Options{}), dbtest.Open(t, db.Options{})
	run := create(t, store, "p")
	err := elsewhere.Write(ctx, "elsewhere", func(tx *db.Tx) error {
		_, appended := store.AppendTx(tx, run.ID, live.Batch{Events: []live.Event{live.TextDelta("x")}})
		_, created := store.CreateRunWithIDTx(tx, "c", "s", "p")
		_, _, failed := store.MarkFailedTx(tx, run.ID, "e")
		_, begun := store.BeginTx(tx, live.Start{ID: "x"})
		_, got := store.GetTx(&tx.Rx, run.ID)
		_, page := store.PageTx(&tx.Rx, live.Filter{}, db.At{})
		_, found := store.FindTx(&tx.Rx, "", 1)
		_, events := store.EventsPageTx(&tx.Rx, run.ID, db.At{})
		for i, err := range []error{
			appended, created, failed, begun, got, page, found, events,
			store.DeleteTx(tx, run.ID),
		} {
			if !errors.Is(err, db.ErrInvalid) {
				return fmt.Errorf("call %d gave %w", i, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestACancelledRunIsNotTakenUp(t *testing.T) {
	ctx, s := t.Context(), live.NewStore(dbtest.Open(t, db.Options{}), live.Options{})
	run := create(t, s, "p")
	if _, _, err := s.MarkCancelled(ctx, run.ID); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Resume(ctx, run.ID); r != nil || !errors.Is(err, db.ErrConflict) {
		t.Errorf("it was: %v, %v", r, err)
	}
}

func TestRun_KeyedAppendSaysWhetherItRepeats(t *testing.T) {
	s := live.NewStore(dbtest.Open(t, db.Options{}), live.Options{})
	r, err := s.Begin(t.Context(), live.Start{ID: "r", SessionID: "s", Prompt: "p"})
	if err != nil {
		t.Fatal(err)
	}
	b := live.Batch{Key: "k", Events: []live.Event{live.TextDelta("x")}}
	for _, repeated := range []bool{false, true} {
		if a, err := r.AppendBatch(t.Context(), b); err != nil || a.Repeated != repeated || a.First != 0 {
			t.Fatalf("repeated %+v, %v; want %t", a, err, repeated)
		}
	}
	b.Events = []live.Event{live.TextDelta("other")}
	if _, err := r.AppendBatch(t.Context(), b); !errors.Is(err, db.ErrConflict) {
		t.Errorf("other events under the key: %v", err)
	}
}

func TestRun_HolderOfRemovedRunHasLost(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{})
	s := live.NewStore(d, live.Options{})
	held, err := s.Begin(ctx, live.Start{ID: "r", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ReplaceRecords(ctx, nil); !errors.Is(err, db.ErrConflict) {
		t.Fatalf("a held run was replaced: %v", err)
	}
	for r, err := range d.AllReservations(ctx, db.ReservationFilter{}) {
		if err == nil {
			err = d.ReleaseReservation(ctx, "", r.Kind, r.Name, r.Epoch)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ReplaceRecords(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Append(ctx, live.TextDelta("into nothing")); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("it gave %v", err)
	}
}

// A page of what is owned is 100 runs.
func TestRecoverPassesByWhatLivesOnEveryPage(t *testing.T) {
	ctx, path := t.Context(), dbtest.Path(t)
	gone, err := db.Open(ctx, path, db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(d *db.DB, n int) {
		t.Helper()
		s := live.NewStore(d, live.Options{})
		err := d.Write(ctx, "begin", func(tx *db.Tx) error {
			for range n {
				if _, err := s.BeginTx(tx, live.Start{SessionID: "s"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	begin(gone, 1)
	d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	begin(d, 150)
	begin(gone, 1)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := live.NewStore(d, live.Options{}).Recover(ctx); n != 2 || err != nil {
		t.Errorf("recovered %d, %v; a handle that is closed held 2", n, err)
	}
}

func TestRecoverJudgesAnewWhatChangedSinceItLooked(t *testing.T) {
	ctx, path := t.Context(), dbtest.Path(t)
	gone, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"recovered", "removed", "resumed"} {
		if _, err := live.NewStore(gone, live.Options{}).Begin(ctx,
			live.Start{ID: id, SessionID: "s"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	other := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	looks := 0
	d := dbtest.OpenAt(t, path, db.Options{Observe: func(o db.Observation) {
		if looks++; looks > 1 || o.Write {
			return
		}
		if _, err := other.Resume(ctx, "resumed"); err != nil {
			t.Error(err)
		}
		if err := other.Delete(ctx, "removed"); err != nil {
			t.Error(err)
		}
		if n, err := other.Recover(ctx); n != 1 || err != nil {
			t.Errorf("recovered %d, %v", n, err)
		}
	}})
	s := live.NewStore(d, live.Options{})
	looks = 0
	if n, err := s.Recover(ctx); n != 0 || err != nil {
		t.Errorf("recovered %d, %v", n, err)
	}
}
