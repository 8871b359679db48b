//go:build postgres

package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge"
	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// Each race that a transaction loses is an ERROR in the server's log.
func TestPostgres_ConcurrentWorkIsQuiet(t *testing.T) {
	ctx := t.Context()
	address := dbtest.PostgresAlone(t, "../..")
	handles := twoHandlesOf(t, address)
	turn := runs.Turn{Output: json.RawMessage(`{}`)}
	if err := runs.NewStore(handles[0], runs.Options{}).AppendTurns(ctx, "a", "shared",
		[]runs.Turn{turn}); err != nil {
		t.Fatal(err)
	}
	runtime, err := workers.Open(ctx, handles[0], workers.RuntimeOptions{RuntimeID: "r"})
	done(t, err)
	mixed(t, handles, func(d *db.DB, _ bool, caller, i int) error {
		return work(ctx, d, fmt.Sprintf("%d-%d", caller, i), turn)
	})
	mixed(t, handles, func(d *db.DB, _ bool, caller, i int) error {
		return reserve(ctx, d, fmt.Sprintf("%d-%d", caller, i))
	})
	mixed(t, handles, func(d *db.DB, _ bool, caller, i int) error {
		return retain(ctx, d, runtime.RuntimeID(), fmt.Sprintf("%d-%d", caller, i))
	})
	log := dbtest.PostgresShell(t, "../..", address, "grep ERROR: log || true")
	const commits = mixedCallers * mixedEach * (commitsOfWork + commitsOfReserve + commitsOfRetain)
	if lines := strings.Count(log, "ERROR:"); lines > commits/1000 {
		t.Errorf("%d commits left %d ERROR lines:\n%.4000s", commits, lines, log)
	}
}

// Serialisable calls that read the same rows wait for each other before their snapshots, once a handle has
// lost.
func TestPostgres_SerialisableCallsGrowQuiet(t *testing.T) {
	batch := runs.Batch{AgentID: "a", RunID: "shared", Records: []runs.Record{
		runs.Turn{Output: json.RawMessage(`{}`)},
	}}
	for name, do := range map[string]func(ctx context.Context, d *db.DB) error{
		"appends inside functions": func(ctx context.Context, d *db.DB) error {
			return d.Write(ctx, "append", func(tx *db.Tx) error {
				_, err := runs.NewStore(d, runs.Options{}).AppendTx(tx, batch)
				return err
			})
		},
		"find or create": func(ctx context.Context, d *db.DB) error {
			_, _, err := agents.NewRegistry(d, agents.Options{}).FindOrCreateActiveEntry(ctx,
				func(agents.Entry) bool { return false }, nil, func(id string) (agents.Entry, error) {
					return activeOn(id)(id)
				})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { growsQuiet(t, do) })
	}
}

func growsQuiet(t *testing.T, do func(context.Context, *db.DB) error) {
	t.Helper()
	address := dbtest.PostgresAlone(t, "../..")
	const learning, each = 50, 250
	handles := make([]*db.DB, 4)
	for i := range handles {
		handles[i] = dbtest.OpenAt(t, address, db.Options{})
		done(t, do(t.Context(), handles[i]))
	}
	before := 0
	for _, times := range []int{learning, each} {
		before = strings.Count(dbtest.PostgresShell(t, "../..", address, "cat log"), "ERROR:")
		var all sync.WaitGroup
		for _, d := range handles {
			all.Go(func() {
				for range times {
					if err := do(t.Context(), d); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	lines := strings.Count(dbtest.PostgresShell(t, "../..", address, "cat log"), "ERROR:") - before
	if lines > len(handles)*each/1000 {
		t.Errorf("%d calls left %d ERROR lines", len(handles)*each, lines)
	}
}

const commitsOfWork = 21

// work is what an agent does.
func work(ctx context.Context, d *db.DB, id string, turn runs.Turn) error {
	front := selvedge.On(d, selvedge.Options{Agent: "a"})
	run, err := front.Take(ctx, "front-"+id, selvedge.Start{Intent: "work"})
	if err != nil {
		return err
	}
	_, err = run.Reply("plan", func(context.Context) (r selvedge.Reply, err error) { return r, nil })
	if err == nil {
		_, err = run.Do("push", selvedge.Effect{Tool: "git"},
			func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
	}
	if err == nil {
		_, err = run.Ask("gate", selvedge.Question{Prompt: "go on?"})
	}
	if !errors.Is(err, selvedge.ErrWaiting) {
		return fmt.Errorf("ask: %w", err)
	}
	if err := front.Answer(ctx, run.Ref(), "gate", selvedge.Answer{Decision: "approved"}); err != nil {
		return err
	}
	if run, err = front.Take(ctx, "front-"+id, selvedge.Start{}); err != nil {
		return err
	}
	traces := runs.NewStore(d, runs.Options{})
	held, errBegin := traces.Begin(ctx, runs.Started{AgentID: "a", RunID: "held-" + id, StartedAt: time.Now()},
		runs.BeginOptions{})
	if err := errors.Join(run.End(selvedge.Succeeded("done")), errBegin); err != nil {
		return err
	}
	watched := live.NewStore(d, live.Options{})
	_, errCreate := watched.CreateRunWithID(ctx, "live-"+id, "s", "")
	_, errEvent := watched.Append(ctx, "live-"+id, live.Batch{Events: []live.Event{live.AgentEnd("x")}})
	paused := checkpoints.NewStore(d, checkpoints.Options{})
	errSave := paused.Save(ctx, &checkpoints.PausedWorkflow{RunID: id, CreatedAt: time.Now()})
	claim, ok, errClaim := paused.Claim(ctx, id)
	if err := errors.Join(errCreate, errEvent, errSave, errClaim); err != nil || !ok {
		return fmt.Errorf("claim %s: %t, %w", id, ok, err)
	}
	_, errSet := state.NewStore(d, state.Options{}).Set(ctx, state.Ref{Key: "k"}, json.RawMessage(`1`))
	return errors.Join(held.Append(ctx, turn), held.Release(ctx), claim.Complete(ctx), errSet,
		traces.AppendTurns(ctx, "a", "shared", []runs.Turn{turn}),
		traces.Delete(ctx, runs.RunRef{AgentID: "a", RunID: "front-" + id}), watched.Delete(ctx, "live-"+id))
}

const commitsOfReserve = 8

// reserve reserves new threads.
func reserve(ctx context.Context, d *db.DB, id string) error {
	registry := agents.NewRegistry(d, agents.Options{})
	for n := range commitsOfReserve {
		thread := fmt.Sprintf("%s-%d", id, n)
		_, err := registry.TryReserveThread(ctx, thread, activeOn(thread))
		if err != nil {
			return err
		}
	}
	return nil
}

const commitsOfRetain = 34

// retain ends one thing in each store, pins it for a while, and removes what has ended.
func retain(ctx context.Context, d *db.DB, runtime workers.RuntimeID, id string) error {
	traces, watched := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	paused, values := checkpoints.NewStore(d, checkpoints.Options{}), state.NewStore(d, state.Options{})
	registry, runtimes := agents.NewRegistry(d, agents.Options{}), workers.NewRuntimes(d, "")
	opened, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: runtime})
	if err != nil {
		return err
	}
	worker, err := opened.CreateWorker(ctx, workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{}))
	if err != nil {
		return err
	}
	run, value := runs.RunRef{AgentID: "b", RunID: "ended-" + id}, state.Ref{Owner: "b", Key: id}
	ended := time.Now().Add(-30 * 24 * time.Hour)
	_, errCreate := watched.CreateRunWithID(ctx, run.RunID, "s", "")
	_, _, errCancel := watched.MarkCancelled(ctx, run.RunID)
	_, errStop := opened.StopWorker(ctx, worker.WorkerRef, nil)
	_, errSet := values.Set(ctx, value, json.RawMessage(`1`))
	errSave := paused.Save(ctx, &checkpoints.PausedWorkflow{RunID: run.RunID, CreatedAt: time.Now()})
	claim, ok, errClaim := paused.Claim(ctx, run.RunID)
	if err := errors.Join(errCreate, errCancel, errStop, errSet, errSave, errClaim); err != nil || !ok {
		return fmt.Errorf("claim %s: %t, %w", id, ok, err)
	}
	err = errors.Join(
		traces.AppendRecords(ctx, run.AgentID, run.RunID, []runs.Record{
			runs.Started{AgentID: run.AgentID, RunID: run.RunID, StartedAt: time.Now()}, runs.Ended{},
		}),
		claim.Complete(ctx),
		registry.Save(ctx, agents.Entry{
			SessionID: "ended-" + id, Thread: "t", BaseState: "b", StartedAt: ended, CompletedAt: &ended,
			Status: agents.Abandoned,
		}))
	for _, pin := range []func(context.Context) error{
		func(ctx context.Context) error { return traces.Pin(ctx, run) },
		func(ctx context.Context) error { return watched.Pin(ctx, run.RunID) },
		func(ctx context.Context) error { return paused.Pin(ctx, run.RunID) },
		func(ctx context.Context) error { return values.Pin(ctx, value) },
		func(ctx context.Context) error { return runtimes.Pin(ctx, worker.WorkerRef) },
		func(ctx context.Context) error { return registry.Pin(ctx, run.RunID) },
	} {
		if failed := pin(ctx); !errors.Is(failed, db.ErrNotFound) { // another caller may have removed it
			err = errors.Join(err, failed)
		}
	}
	err = errors.Join(err, traces.Unpin(ctx, run), watched.Unpin(ctx, run.RunID), paused.Unpin(ctx, run.RunID),
		values.Unpin(ctx, value), runtimes.Unpin(ctx, worker.WorkerRef), registry.Unpin(ctx, run.RunID))
	for _, prune := range []func(context.Context, db.Policy) (db.Pruned, error){
		traces.Prune, watched.Prune, paused.Prune, values.Prune, runtimes.Prune, registry.Prune,
	} {
		err = errors.Join(err, second(prune(ctx, db.Policy{Count: db.KeepNone})))
	}
	return err
}

func TestPostgres_OneOfManyBegins(t *testing.T) {
	ctx := t.Context()
	handles := twoHandles(t)
	for name, begin := range map[string]func(d *db.DB, id string) error{
		"runs.Begin": func(d *db.DB, id string) error {
			_, err := runs.NewStore(d, runs.Options{}).Begin(ctx, runs.Started{AgentID: "a", RunID: id},
				runs.BeginOptions{})
			return err
		},
		"live.Begin": func(d *db.DB, id string) error {
			_, err := live.NewStore(d, live.Options{}).Begin(ctx, live.Start{ID: id})
			return err
		},
		"Take": func(d *db.DB, id string) error {
			_, err := selvedge.On(d, selvedge.Options{Agent: "b"}).Take(ctx, "taken-"+id, selvedge.Start{})
			return err
		},
	} {
		var won [mixedEach]atomic.Int64
		mixed(t, handles, func(d *db.DB, _ bool, _, i int) error {
			err := begin(d, fmt.Sprint("run-", i))
			if err == nil {
				won[i].Add(1)
			}
			if errors.Is(err, db.ErrConflict) {
				return nil
			}
			return err
		})
		for i := range won {
			if n := won[i].Load(); n != 1 {
				t.Errorf("%s: run %d had %d winners", name, i, n)
			}
		}
	}
	lines := 0
	taken := runs.RunRef{AgentID: "b", RunID: "taken-run-0"}
	for _, err := range runs.NewStore(handles[0], runs.Options{}).Trace(ctx, taken) {
		if lines++; err != nil {
			t.Fatal(err)
		}
	}
	if lines != 1 {
		t.Errorf("the trace of a run that was taken once has %d lines", lines)
	}
}
