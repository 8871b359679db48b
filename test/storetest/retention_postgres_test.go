//go:build postgres

package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// A retained is a thing of a store that has ended.
type retained struct {
	name  string // of the store
	table string // from which retention removes it
	waits bool   // retention waits for a pin of it, and does not pass over it
	add   func(ctx context.Context, d *db.DB) error
	pin   func(d *db.DB, tx *db.Tx) error
	prune func(ctx context.Context, d *db.DB, policy db.Policy) (db.Pruned, error)
}

func retainedThings() []retained {
	traces := func(d *db.DB) *runs.Store { return runs.NewStore(d, runs.Options{}) }
	watched := func(d *db.DB) *live.Store { return live.NewStore(d, live.Options{}) }
	paused := func(d *db.DB) *checkpoints.Store { return checkpoints.NewStore(d, checkpoints.Options{}) }
	registry := func(d *db.DB) *agents.Registry { return agents.NewRegistry(d, agents.Options{}) }
	values := func(d *db.DB) *state.Store { return state.NewStore(d, state.Options{}) }
	long := time.Now().Add(-30 * 24 * time.Hour)
	var worker workers.WorkerRef
	type prune = func(context.Context, db.Policy) (db.Pruned, error)
	of := func(prune func(d *db.DB) prune) func(context.Context, *db.DB, db.Policy) (db.Pruned, error) {
		return func(ctx context.Context, d *db.DB, p db.Policy) (db.Pruned, error) { return prune(d)(ctx, p) }
	}
	return []retained{
		{
			"runs", "runs", false,
			func(ctx context.Context, d *db.DB) error {
				return traces(d).AppendRecords(ctx, "a", "r", []runs.Record{
					runs.Started{AgentID: "a", RunID: "r", StartedAt: long}, runs.Ended{},
				})
			},
			func(d *db.DB, tx *db.Tx) error {
				return traces(d).PinTx(tx, runs.RunRef{AgentID: "a", RunID: "r"})
			},
			of(func(d *db.DB) prune { return traces(d).Prune }),
		},
		{
			"live", "live_runs", false,
			func(ctx context.Context, d *db.DB) error {
				_, err := watched(d).CreateRunWithID(ctx, "r", "", "")
				if err == nil {
					_, _, err = watched(d).MarkCancelled(ctx, "r")
				}
				return err
			},
			func(d *db.DB, tx *db.Tx) error { return watched(d).PinTx(tx, "r") },
			of(func(d *db.DB) prune { return watched(d).Prune }),
		},
		{
			"agents", "agents", true,
			func(ctx context.Context, d *db.DB) error {
				return registry(d).Save(ctx, agents.Entry{
					SessionID: "r", Thread: "t", BaseState: "b", StartedAt: long, CompletedAt: &long,
					Status: agents.Complete,
				})
			},
			func(d *db.DB, tx *db.Tx) error { return registry(d).PinTx(tx, "r") },
			of(func(d *db.DB) prune { return registry(d).Prune }),
		},
		{
			"checkpoints", "checkpoint_history", true,
			func(ctx context.Context, d *db.DB) error {
				err := paused(d).SaveDocument(ctx, "r", pauseOf("r", 1))
				if err == nil {
					_, _, err = paused(d).Claim(ctx, "r")
				}
				if err == nil {
					err = paused(d).Complete(ctx, "r")
				}
				return err
			},
			func(d *db.DB, tx *db.Tx) error { return paused(d).PinTx(tx, "r") },
			of(func(d *db.DB) prune { return paused(d).Prune }),
		},
		{
			"workers", "workers", true,
			func(ctx context.Context, d *db.DB) error {
				r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "r"})
				if err != nil {
					return err
				}
				made, err := r.CreateWorker(ctx,
					workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{}))
				if worker = made.WorkerRef; err == nil {
					_, err = r.StopWorker(ctx, worker, nil)
				}
				return err
			},
			func(d *db.DB, tx *db.Tx) error { return workers.NewRuntimes(d, "").PinTx(tx, worker) },
			of(func(d *db.DB) prune { return workers.NewRuntimes(d, "").Prune }),
		},
		{
			"state", "state_values", false,
			func(ctx context.Context, d *db.DB) error {
				return second(values(d).Set(ctx, state.Ref{Key: "r"}, json.RawMessage("1")))
			},
			func(d *db.DB, tx *db.Tx) error { return values(d).PinTx(tx, state.Ref{Key: "r"}) },
			of(func(d *db.DB) prune { return values(d).Prune }),
		},
	}
}

var removeAll = db.Policy{Count: db.KeepNone}

// Retention meets a pin that is not committed yet.
func TestPostgres_RetentionLeavesWhatIsBeingPinned(t *testing.T) {
	for _, thing := range retainedThings() {
		t.Run(thing.name, func(t *testing.T) {
			handles := twoHandles(t)
			done(t, thing.add(t.Context(), handles[0]))
			removed := make(chan int, 1)
			prune := func() {
				pruned, err := thing.prune(t.Context(), handles[1], removeAll)
				if err != nil {
					t.Error(err)
				}
				removed <- pruned.Removed
			}
			done(t, handles[0].WriteLocked(t.Context(), "pin", func(tx *db.Tx) error {
				if err := thing.pin(handles[0], tx); err != nil {
					return err
				}
				if err := tx.Get(new(int), "SELECT 1"); err != nil { // with which queued statements go
					return err
				}
				go prune()
				if thing.waits {
					dbtest.AwaitPostgresWaits(t, handles[0].Path(), 1)
					return nil
				}
				select {
				case n := <-removed:
					removed <- n
					return nil
				case <-time.After(time.Minute):
					return errors.New("retention waits")
				}
			}))
			if n := <-removed; n != 0 {
				t.Errorf("%d things were removed that were pinned", n)
			}
		})
	}
}

// A pin meets a removal by retention that is not committed yet.
func TestPostgres_PinWaitsForRetention(t *testing.T) {
	for _, thing := range retainedThings() {
		t.Run(thing.name, func(t *testing.T) {
			handles := twoHandles(t)
			done(t, thing.add(t.Context(), handles[0]))
			removed, pinned := make(chan int, 1), make(chan error, 1)
			// Rows of the table can be locked, and not removed.
			done(t, handles[0].WriteLocked(t.Context(), "hold", func(tx *db.Tx) error {
				if _, err := tx.Exec("LOCK TABLE " + thing.table + " IN SHARE MODE"); err != nil {
					return err
				}
				go func() {
					pruned, err := thing.prune(t.Context(), handles[1], removeAll)
					if err != nil {
						t.Error(err)
					}
					removed <- pruned.Removed
				}()
				dbtest.AwaitPostgresWaits(t, handles[0].Path(), 1)
				go func() {
					pinned <- handles[1].WriteLocked(t.Context(), "pin",
						func(tx *db.Tx) error { return thing.pin(handles[1], tx) })
				}()
				dbtest.AwaitPostgresWaits(t, handles[0].Path(), 2)
				return nil
			}))
			if n, err := <-removed, <-pinned; n != 1 || !errors.Is(err, db.ErrNotFound) {
				t.Errorf("%d things were removed, and the pin gave %v", n, err)
			}
			var pins int
			done(t, handles[0].Read(t.Context(), "check",
				func(rx *db.Rx) error { return rx.Get(&pins, "SELECT count(*) FROM retention_pins") }))
			if pins != 0 {
				t.Error("a removed thing is pinned")
			}
		})
	}
}
