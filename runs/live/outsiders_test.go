package live_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refusesOutsiders(t *testing.T, s *live.Store, pid int) {
	t.Helper()
	ctx := t.Context()
	batch := live.Batch{Events: []live.Event{live.TextDelta("x")}}
	before := snapshotOf(t, s, "r")
	for name, write := range map[string]func() error{
		"Append":          func() error { _, err := s.Append(ctx, "r", batch); return err },
		"RecordEvent":     func() error { _, _, err := s.RecordEvent(ctx, "r", live.AgentEnd("x")); return err },
		"ReplaceRecords":  func() error { return s.ReplaceRecords(ctx, nil) },
		"CreateRunWithID": func() error { _, err := s.CreateRunWithID(ctx, "r", "s", "p"); return err },
		"Resume":          func() error { _, err := s.Resume(ctx, "r"); return err },
		"Delete":          func() error { return s.Delete(ctx, "r") },
	} {
		err := write()
		held, ok := errors.AsType[*db.ReservedError](err)
		if !errors.Is(err, db.ErrConflict) || !ok || held.Holder.PID != pid || db.Hint(err) == "" ||
			!strings.Contains(err.Error(), `live run "r"`) {
			t.Errorf("%s gave %v (hint %q)", name, err, db.Hint(err))
		}
	}
	if after := snapshotOf(t, s, "r"); string(jsonOf(after)) != string(jsonOf(before)) {
		t.Errorf("the run became %s", jsonOf(after))
	}
}

func TestHeldLiveRun_RefusesOtherProcesses(t *testing.T) {
	path := dbtest.Path(t)
	s := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	holder := dbtest.Start(t, "hold", path)
	holder.Send("r")
	holder.Expect("holds r")
	refusesOutsiders(t, s, holder.Pid())
	holder.Kill()
	for range 2 {
		record(t, s, "r", live.TextDelta("mine"))
	}
	must(t, s.Delete(t.Context(), "r"))
}

func TestHeldLiveRun_RefusesItsOwnProcess(t *testing.T) {
	s := live.NewStore(dbtest.Open(t, db.Options{}), live.Options{})
	r, err := s.Begin(t.Context(), live.Start{ID: "r"})
	must(t, err)
	refusesOutsiders(t, s, os.Getpid())
	_, err = r.Append(t.Context(), live.TextDelta("mine"))
	must(t, err)
	must(t, r.Release(t.Context()))
	record(t, s, "r", live.TextDelta("free"))
}

func TestMark_EndsTheLeaseFromOutside(t *testing.T) {
	path := dbtest.Path(t)
	holder, outside := dbtest.OpenAt(t, path, db.Options{}), dbtest.OpenAt(t, path, db.Options{})
	s, other := live.NewStore(holder, live.Options{}), live.NewStore(outside, live.Options{})
	for name, mark := range map[string]func(id string) error{
		"failed":    func(id string) error { _, _, err := other.MarkFailed(t.Context(), id, "e"); return err },
		"cancelled": func(id string) error { _, _, err := other.MarkCancelled(t.Context(), id); return err },
	} {
		r, err := s.Begin(t.Context(), live.Start{ID: name})
		must(t, err)
		kept, stop := r.Keep(t.Context())
		must(t, holder.Write(t.Context(), "hold", r.HoldTx))
		must(t, mark(name))
		select {
		case <-kept.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("marked %s, the holder's context goes on", name)
		}
		stop()
		if err := context.Cause(kept); !errors.Is(err, db.ErrLeaseLost) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the context ended with %v", name, err)
		}
		if _, err := r.Append(t.Context(), live.TextDelta("late")); !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("%s: the holder appends: %v", name, err)
		}
		if run := snapshotOf(t, s, name); string(run.Status) != name {
			t.Errorf("it is %s", jsonOf(run))
		}
	}
	if n := rows(t, holder, "leases"); n != 0 {
		t.Errorf("there are %d leases", n)
	}
}

// One lease holds a trace and its live run.
func TestHoldTx_OneLeaseHoldsBoth(t *testing.T) {
	ctx, path := t.Context(), dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	traces, s := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	trace, err := traces.Begin(ctx, runs.Started{RunID: "r", AgentID: "a"}, runs.BeginOptions{})
	must(t, err)
	hold := func() (r *live.Run) {
		t.Helper()
		_, err := s.ReserveRunWithID(ctx, "r", "s", "p")
		must(t, err)
		must(t, d.Write(ctx, "hold", func(tx *db.Tx) (err error) {
			r, err = s.HoldTx(tx, "r", trace.Lease())
			return err
		}))
		return r
	}
	r := hold()
	refusesOutsiders(t, s, os.Getpid())
	if r.Epoch() != trace.Epoch() {
		t.Errorf("the epochs are %d and %d", r.Epoch(), trace.Epoch())
	}
	must(t, d.WriteLocked(ctx, "both", func(tx *db.Tx) error {
		_, err := r.AppendTx(tx, live.TextDelta("1"))
		return errors.Join(trace.AppendTx(tx, runs.Turn{}), err)
	}))
	must(t, r.Release(ctx))
	if _, err := r.Append(ctx, live.TextDelta("late")); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("after its release: %v", err)
	}
	must(t, trace.Append(ctx, runs.Turn{Index: 1}))

	r = hold()
	_, _, err = s.MarkFailed(ctx, "r", "stop")
	must(t, err)
	if err := trace.Append(ctx, runs.Turn{Index: 2}); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the trace of a marked run: %v", err)
	}
	lost := trace.Lease()
	second := runs.NewStore(dbtest.OpenAt(t, path, db.Options{}), runs.Options{})
	trace, err = second.Resume(ctx, trace.Ref())
	must(t, err)
	err = d.Write(ctx, "test", func(tx *db.Tx) error { _, err := s.HoldTx(tx, "r", lost); return err })
	if !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("held under a lost lease: %v", err)
	}
	r = hold()
	must(t, d.WriteEnd(ctx, "end", func(tx *db.Tx) error {
		return errors.Join(trace.HoldTx(tx), r.EndTx(tx, live.AgentEnd("done")),
			trace.EndTx(tx, runs.Termination{}))
	}))
	record(t, s, "r", live.TextDelta("free"))
	if n := rows(t, d, "leases"); n != 0 {
		t.Errorf("there are %d leases", n)
	}
}

// traced returns a held trace, and the store of the live run with its id.
func traced(t *testing.T) (d *db.DB, traces *runs.Store, trace *runs.Run, s *live.Store) {
	t.Helper()
	d = dbtest.Open(t, db.Options{})
	traces, s = runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	trace, err := traces.Begin(t.Context(), runs.Started{RunID: "r", AgentID: "a"}, runs.BeginOptions{})
	must(t, err)
	_, err = s.ReserveRunWithID(t.Context(), "r", "s", "p")
	must(t, err)
	return d, traces, trace, s
}

func TestHoldTx_EndsWithTheLeaseItBorrowed(t *testing.T) {
	ctx := t.Context()
	d, _, trace, s := traced(t)
	var r *live.Run
	must(t, d.Write(ctx, "hold", func(tx *db.Tx) (err error) {
		r, err = s.HoldTx(tx, "r", trace.Lease())
		return err
	}))
	must(t, trace.Release(ctx))
	_, appended := r.Append(ctx, live.TextDelta("late"))
	for what, err := range map[string]error{
		"append": appended, "hold": d.Write(ctx, "hold", r.HoldTx), "release": r.Release(ctx),
	} {
		if !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The holder of a trace that lost the answer to HoldTx asks again.
func TestHoldTx_RepeatHoldsOn(t *testing.T) {
	ctx := t.Context()
	d, traces, trace, s := traced(t)
	var r *live.Run
	for range 2 {
		must(t, d.Write(ctx, "hold", func(tx *db.Tx) (err error) {
			r, err = s.HoldTx(tx, "r", trace.Lease())
			return err
		}))
		var err error
		trace, err = traces.Reattach(ctx, trace.Ref(), trace.Epoch())
		must(t, err)
	}
	_, err := r.Append(ctx, live.TextDelta("1"))
	must(t, errors.Join(err, r.Release(ctx)))
	record(t, s, "r", live.TextDelta("free"))
}

// Two runs that had one id, one after the other, may be held by one lease, under one epoch.
func TestHoldTx_HandleIsOfItsOwnRun(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{})
	traces, s := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	trace, err := traces.Begin(ctx, runs.Started{RunID: "r", AgentID: "a"}, runs.BeginOptions{})
	must(t, err)
	var handles []*live.Run
	for range 2 {
		_, err := s.ReserveRunWithID(ctx, "r", "s", "p")
		must(t, err)
		must(t, d.Write(ctx, "hold", func(tx *db.Tx) error {
			r, err := s.HoldTx(tx, "r", trace.Lease())
			handles = append(handles, r)
			return err
		}))
		if len(handles) == 1 {
			must(t, errors.Join(handles[0].Release(ctx), s.Delete(ctx, "r")))
		}
	}
	if handles[0].Epoch() != handles[1].Epoch() {
		t.Fatalf("the epochs are %d and %d", handles[0].Epoch(), handles[1].Epoch())
	}
	if _, err := handles[0].Append(ctx, live.TextDelta("late")); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the handle of the run before: %v", err)
	}
	_, err = handles[1].Append(ctx, live.TextDelta("1"))
	must(t, err)
}

func TestCap_SparesHeldRuns(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{})
	s := live.NewStore(d, live.Options{MaxRuns: new(uint64(2))})
	var held []*live.Run
	for _, id := range []string{"1", "2", "3"} {
		r, err := s.Begin(ctx, live.Start{ID: id})
		must(t, err)
		held = append(held, r)
	}
	for _, id := range []string{"4", "5"} {
		_, err := s.ReserveRunWithID(ctx, id, "s", "p")
		must(t, err)
	}
	if got := ids(t, s); got != "1 2 3 5" {
		t.Errorf("held runs and the last one leave %s", got)
	}
	for _, r := range held {
		_, err := r.Append(ctx, live.TextDelta("x"))
		must(t, errors.Join(err, r.Release(ctx)))
	}
	_, err := s.ReserveRunWithID(ctx, "6", "s", "p")
	must(t, err)
	if got := ids(t, s); got != "5 6" {
		t.Errorf("free runs leave %s", got)
	}
}

func ids(t *testing.T, s *live.Store) string {
	t.Helper()
	var all []string
	list, err := s.List(t.Context())
	must(t, err)
	for i := range list {
		all = append(all, list[i].ID)
	}
	return strings.Join(all, " ")
}
