//go:build postgres

package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// On a server the stores' own calls lock rows, and callers' functions are serialisable. These are
// about both kinds at once, through two handles
// (docs/decisions/0020-rows-locked-and-transactions-serialisable.md).

const (
	mixedCallers = 8
	mixedEach    = 12
)

// mixed has callers do it in turns on their own and inside of functions: own is odd callers',
// inside even ones'.
func mixed(t *testing.T, handles []*db.DB, do func(d *db.DB, inside bool, caller, i int) error) {
	t.Helper()
	var wait sync.WaitGroup
	for c := range mixedCallers {
		wait.Go(func() {
			for i := range mixedEach {
				if err := do(handles[c%len(handles)], c/2%2 == 0, c, i); err != nil {
					t.Errorf("caller %d: %v", c, err)
				}
			}
		})
	}
	wait.Wait()
}

func twoHandles(t *testing.T) []*db.DB { return twoHandlesOf(t, dbtest.Postgres(t)) }

func twoHandlesOf(t *testing.T, address string) []*db.DB {
	handles := []*db.DB{dbtest.OpenAt(t, address, db.Options{}), dbtest.OpenAt(t, address, db.Options{})}
	t.Cleanup(func() {
		found, err := handles[0].Check(context.Background())
		if err != nil || len(found) > 0 {
			t.Errorf("check: %v, %v", found, err)
		}
	})
	return handles
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgres_MixedTurnsAreDense(t *testing.T) {
	handles := twoHandles(t)
	stores := map[*db.DB]*runs.Store{}
	for _, d := range handles {
		stores[d] = runs.NewStore(d, runs.Options{})
	}
	done(t, stores[handles[0]].WriteStarted(t.Context(),
		runs.Started{RunID: "r", AgentID: "a", StartedAt: time.Unix(1, 0)}))
	mixed(t, handles, func(d *db.DB, inside bool, c, i int) error {
		b := runs.Batch{
			AgentID: "a", RunID: "r",
			Records: []runs.Record{runs.Turn{
				Index: uint64(c*mixedEach + i), VerifierVerdict: runs.VerdictPass,
				Output: []byte("{}"),
			}},
		}
		if !inside {
			return second(stores[d].Append(t.Context(), b))
		}
		return d.Write(t.Context(), "append", func(tx *db.Tx) error { return second(stores[d].AppendTx(tx, b)) })
	})
	seen := map[uint64]bool{}
	records := int64(0)
	for record, err := range stores[handles[0]].Trace(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}) {
		done(t, err)
		if turn, ok := record.Record.(runs.Turn); ok {
			seen[turn.Index] = true
		}
		if records++; record.Sequence != records {
			t.Errorf("record %d has the sequence %d", records, record.Sequence)
		}
	}
	if len(seen) != mixedCallers*mixedEach || records != int64(len(seen))+1 {
		t.Errorf("%d turns are there of %d, in %d records", len(seen), mixedCallers*mixedEach, records)
	}
}

func TestPostgres_MixedLiveEventsAreDense(t *testing.T) {
	handles := twoHandles(t)
	stores := map[*db.DB]*live.Store{}
	for _, d := range handles {
		stores[d] = live.NewStore(d, live.Options{MaxEventsPerRun: new(uint64(40))})
	}
	_, err := stores[handles[0]].ReserveRunWithID(t.Context(), "r", "s", "p")
	done(t, err)
	var first sync.Map
	mixed(t, handles, func(d *db.DB, inside bool, _, _ int) (err error) {
		event, err := live.NewEvent([]byte(`{"type":"message","text":"x"}`))
		if err != nil {
			return err
		}
		var a live.Appended
		b := live.Batch{Events: []live.Event{event}}
		if !inside {
			a, err = stores[d].Append(t.Context(), "r", b)
		} else {
			err = d.Write(t.Context(), "append",
				func(tx *db.Tx) (err error) { a, err = stores[d].AppendTx(tx, "r", b); return err })
		}
		if _, twice := first.LoadOrStore(a.First, true); twice && err == nil {
			err = fmt.Errorf("sequence %d was given twice", a.First)
		}
		return err
	})
	now, err := stores[handles[0]].Get(t.Context(), "r")
	done(t, err)
	if now.EventCount != mixedCallers*mixedEach {
		t.Errorf("%d events are counted of %d", now.EventCount, mixedCallers*mixedEach)
	}
}

func TestPostgres_MixedInputsAreDense(t *testing.T) {
	handles := twoHandles(t)
	runtimes := map[*db.DB]*workers.Runtime{}
	var refs []workers.WorkerRef
	for _, d := range handles {
		r, err := workers.Open(t.Context(), d, workers.RuntimeOptions{RuntimeID: "runtime"})
		done(t, err)
		runtimes[d] = r
		w, err := r.CreateWorker(t.Context(),
			workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{}))
		done(t, err)
		refs = append(refs, w.WorkerRef)
	}
	var events sync.Map
	mixed(t, handles, func(d *db.DB, inside bool, c, i int) (err error) {
		var ack workers.WorkerInteractionAck
		to, input := refs[(c+i)%2], workers.UserInput("x")
		if !inside {
			ack, err = runtimes[d].SendInput(t.Context(), to, input)
		} else {
			err = d.Write(t.Context(), "send", func(tx *db.Tx) (err error) {
				ack,
					err = runtimes[d].SendInputTx(tx, to, input)
				return err
			})
		}
		if _, twice := events.LoadOrStore(ack.EventID, true); twice && err == nil {
			err = fmt.Errorf("event %d was given twice", ack.EventID)
		}
		return err
	})
	total := uint64(0)
	for _, ref := range refs {
		p, err := runtimes[handles[0]].TranscriptProjection(t.Context(), ref, workers.TranscriptQuery{})
		done(t, err)
		total += p.TotalItems
	}
	if total != mixedCallers*mixedEach {
		t.Errorf("%d inputs are there of %d", total, mixedCallers*mixedEach)
	}
}

func TestPostgresAClaimOfEitherKindHasOneWinner(t *testing.T) {
	handles := twoHandles(t)
	stores := map[*db.DB]*checkpoints.Store{}
	for _, d := range handles {
		stores[d] = checkpoints.NewStore(d, checkpoints.Options{})
	}
	for i := range mixedEach {
		id := fmt.Sprintf("run-%d", i)
		done(t, stores[handles[0]].SaveDocument(t.Context(), id, pauseOf(id, 1)))
	}
	var won [mixedEach]atomic.Int64
	mixed(t, handles, func(d *db.DB, inside bool, _, i int) (err error) {
		var ok bool
		id := fmt.Sprintf("run-%d", i)
		if !inside {
			_, ok, err = stores[d].Claim(t.Context(), id)
		} else {
			err = d.Write(t.Context(), "claim", func(tx *db.Tx) (err error) {
				_, ok,
					err = stores[d].ClaimTx(tx, id)
				return err
			})
		}
		if ok && err == nil {
			won[i].Add(1)
		}
		return err
	})
	for i := range won {
		if n := won[i].Load(); n != 1 {
			t.Errorf("run %d has %d winners", i, n)
		}
	}
}

func pauseOf(id string, iterations int) []byte {
	return fmt.Appendf(nil, `{"run_id":%q,"workflow":{"id":"w","name":"w","start":"g","stages":[],"edges":[],`+
		`"max_iterations":1},`+
		`"paused_stage_id":"g","prompt":"p","fields":[],"output_key":"o","wf_state":{},"stage_results":[],`+
		`"completed_stage_ids":[],"iterations":%d,`+
		`"prior_duration_ms":0.0,"created_at":"2026-05-14T12:09:37Z"}`, id, iterations)
}

// errDisturbed ends a function that is to be run again: the caller that waited for its first run
// has gone on.
var errDisturbed = errors.New("the function was run again")

// undisturbed tries something until one transaction of it came through in its first run. A beat of
// the process alone may have it run again.
func undisturbed(t *testing.T, try func() error) {
	t.Helper()
	for range 10 {
		err := try()
		if !errors.Is(err, errDisturbed) {
			done(t, err)
			return
		}
	}
	t.Fatal("it was run again each time")
}

// once runs fn in a transaction, unless it is run again.
func once(ctx context.Context, d *db.DB, why string, fn func(tx *db.Tx) error) error {
	ran := false
	return d.Write(ctx, why, func(tx *db.Tx) error {
		if ran {
			return errDisturbed
		}
		ran = true
		return fn(tx)
	})
}

// A caller that completes a claim and saves the next pause in one transaction leaves a row that
// those that wait for the old one have not locked.
func TestPostgres_ReplacingPauseHasOneWinner(t *testing.T) {
	handles := twoHandles(t)
	stores := []*checkpoints.Store{
		checkpoints.NewStore(handles[0], checkpoints.Options{}),
		checkpoints.NewStore(handles[1], checkpoints.Options{}),
	}
	tries := 0
	again := func() error {
		tries++
		id := fmt.Sprintf("run-%d", tries)
		done(t, stores[0].SaveDocument(t.Context(), id, pauseOf(id, 1)))
		held, ok, err := stores[0].Claim(t.Context(), id)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		done(t, stores[0].SaveDocument(t.Context(), id, pauseOf(id, 1))) // what the claims wait for
		var wait sync.WaitGroup
		var won atomic.Int64
		claim := func(s *checkpoints.Store) {
			c, ok, err := s.Claim(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			if ok {
				won.Add(1)
				if !bytes.Equal(c.Document(), pauseOf(id, 2)) {
					t.Errorf("it was given the document %s", c.Document())
				}
			}
		}
		err = once(t.Context(), handles[0], "pause again", func(tx *db.Tx) error {
			if err := held.CompleteTx(tx); err != nil {
				return err
			}
			if err := stores[0].SaveDocumentTx(tx, id, pauseOf(id, 2)); err != nil {
				return err
			}
			for n := range 4 {
				wait.Go(func() { claim(stores[n%2]) })
			}
			dbtest.AwaitPostgresWaits(t, handles[0].Path(), 4)
			return nil
		})
		wait.Wait()
		if n := won.Load(); err == nil && n != 1 {
			t.Errorf("%s has %d winners", id, n)
		}
		return err
	}
	for range mixedEach {
		undisturbed(t, again)
	}
}

// replaced makes callers wait for a row that a transaction removes and replaces by another one of
// the same name.
func replaced(t *testing.T, d *db.DB, replace func(tx *db.Tx) error, waiters ...func()) error {
	t.Helper()
	var wait sync.WaitGroup
	defer wait.Wait()
	return once(t.Context(), d, "replace", func(tx *db.Tx) error {
		if err := replace(tx); err != nil {
			return err
		}
		for _, w := range waiters {
			wait.Go(w)
		}
		dbtest.AwaitPostgresWaits(t, d.Path(), len(waiters))
		return nil
	})
}

// For a run that keeps no events, only its row records which sequences were used.
func TestPostgres_ReplacingLiveRunIsLockedToo(t *testing.T) {
	handles := twoHandles(t)
	stores := []*live.Store{}
	for _, d := range handles {
		stores = append(stores, live.NewStore(d, live.Options{MaxEventsPerRun: new(uint64(0))}))
	}
	event, err := live.NewEvent([]byte(`{"type":"message","text":"x"}`))
	done(t, err)
	tries := 0
	undisturbed(t, func() error {
		tries++
		id := fmt.Sprintf("r-%d", tries)
		_, err := stores[0].ReserveRunWithID(t.Context(), id, "s", "p")
		done(t, err)
		var given sync.Map
		waiters := []func(){func() {
			if _, found, err := stores[1].MarkCancelled(t.Context(), id); err != nil || !found {
				t.Error(found, err)
			}
		}}
		for n := range 4 {
			waiters = append(waiters, func() {
				a, err := stores[n%2].Append(t.Context(), id, live.Batch{Events: []live.Event{event}})
				if _, twice := given.LoadOrStore(a.First, true); twice || err != nil {
					t.Errorf("sequence %d was given: %v", a.First, err)
				}
			})
		}
		if err := replaced(t, handles[0], func(tx *db.Tx) error {
			_, err := stores[0].CreateRunWithIDTx(tx, id, "s", "p")
			return err
		}, waiters...); err != nil {
			return err
		}
		now, err := stores[0].Get(t.Context(), id)
		if err == nil && (now.EventCount != 4 || now.Status != live.Cancelled) {
			t.Errorf("%d events are counted, and the run is %s", now.EventCount, now.Status)
		}
		return err
	})
}

func TestPostgres_ReplacingRunIsLockedToo(t *testing.T) {
	handles := twoHandles(t)
	store, other := runs.NewStore(handles[0], runs.Options{}), runs.NewStore(handles[1], runs.Options{})
	tries := 0
	undisturbed(t, func() error {
		tries++
		ref := runs.RunRef{AgentID: "a", RunID: fmt.Sprintf("r-%d", tries)}
		started := runs.Started{RunID: ref.RunID, AgentID: ref.AgentID, StartedAt: time.Unix(1, 0)}
		ended := runs.Ended{RunID: ref.RunID, AgentID: ref.AgentID, EndedAt: time.Unix(2, 0)}
		done(t, second(store.Append(t.Context(), runs.Batch{
			AgentID: ref.AgentID, RunID: ref.RunID,
			Records: []runs.Record{started, ended},
		})))
		if err := replaced(t, handles[0], func(tx *db.Tx) error {
			err := store.DeleteTx(tx, ref)
			if err == nil {
				_, err = store.AppendTx(tx, runs.Batch{
					AgentID: ref.AgentID, RunID: ref.RunID,
					Records: []runs.Record{started},
				})
			}
			return err
		}, func() {
			if err := handles[1].WriteLocked(t.Context(), "append", func(tx *db.Tx) error {
				_, err := other.AppendTx(tx, runs.Batch{
					AgentID: ref.AgentID, RunID: ref.RunID, Key: "k",
					Records: []runs.Record{runs.Turn{VerifierVerdict: runs.VerdictPass, Output: []byte("{}")}},
				})
				if free := dbtest.PostgresExec(t, handles[1].Path(),
					"SELECT key FROM runs WHERE run_id = '"+ref.RunID+"' FOR NO KEY UPDATE SKIP LOCKED"); err == nil &&
					len(free) > 0 {
					t.Error("nobody has locked the run")
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}); err != nil {
			return err
		}
		run, err := store.Get(t.Context(), ref)
		if err == nil && run.TurnCount != 1 {
			t.Errorf("the run has %d turns", run.TurnCount)
		}
		return err
	})
}

// What removed runs used is settled once, by the later of two removals of one name.
func TestPostgres_UsageIsSettledByLastRemoval(t *testing.T) {
	ctx := t.Context()
	address := dbtest.Postgres(t)
	d := dbtest.OpenAt(t, address, db.Options{})
	run, err := selvedge.On(d, selvedge.Options{Agent: "a"}).Take(ctx, "x", selvedge.Start{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Reply("plan", func(context.Context) (selvedge.Reply, error) {
		return selvedge.Reply{Usage: db.Usage{InputTokens: new(uint64(7)), OutputTokens: new(uint64(1))}}, nil
	})
	if err := errors.Join(err, run.End(selvedge.Succeeded(""))); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	err = d.Write(ctx, "test", func(tx *db.Tx) error {
		err := runs.NewStore(d, runs.Options{}).DeleteTx(tx, runs.RunRef{AgentID: "a", RunID: "x"})
		if err != nil {
			return err
		}
		go func() { // the cap removes the live run
			_, err := live.NewStore(d, live.Options{MaxRuns: new(uint64(1))}).CreateRunWithID(ctx, "y", "s", "")
			done <- err
		}()
		dbtest.AwaitPostgresWaits(t, address, 1)
		return nil
	})
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	left := 0
	if err := d.Read(ctx, "test", func(rx *db.Rx) error {
		return rx.Get(&left, "SELECT count(*) FROM usage_runs")
	}); err != nil || left > 0 {
		t.Errorf("the usage of %d runs that are gone is not settled, %v", left, err)
	}
}

// The number of a scope's runs is changed last, also if a part of the transaction that needs it before is
// undone.
func TestPostgres_UndonePartKeepsEarlierCounts(t *testing.T) {
	ctx := t.Context()
	d := twoHandles(t)[0]
	create := func(tx *db.Tx, most *uint64, id string) error {
		_, err := live.NewStore(d, live.Options{MaxRuns: most}).CreateRunWithIDTx(tx, id, "s", "")
		return err
	}
	undone := errors.New("undone")
	if err := d.WriteLocked(ctx, "test", func(tx *db.Tx) error {
		err := create(tx, nil, "kept")
		part := tx.Savepoint(func() error {
			return errors.Join(create(tx, nil, "a"), create(tx, new(uint64(1)), "b"), undone)
		})
		if !errors.Is(part, undone) {
			err = part
		}
		return errors.Join(err, create(tx, new(uint64(1)), "last"))
	}); err != nil {
		t.Fatal(err)
	}
	list, err := live.NewStore(d, live.Options{}).List(ctx)
	if err != nil || len(list) != 1 || list[0].ID != "last" {
		t.Errorf("%v, %v", list, err)
	}
}
