//go:build postgres

package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// A holder works on, changes or removes a thing, while others try to take, change or remove it.

// fenced has a holder do something in a transaction, and another caller take away what it holds
// before that is committed.
func fenced(t *testing.T, d *db.DB, hold func(tx *db.Tx) error, takeAway func() error) error {
	t.Helper()
	taken := make(chan error, 1)
	err := once(t.Context(), d, "work", func(tx *db.Tx) error {
		if err := hold(tx); err != nil {
			return err
		}
		go func() { taken <- takeAway() }()
		dbtest.AwaitPostgresWaits(t, d.Path(), 1)
		return nil
	})
	if err != nil && !errors.Is(err, errDisturbed) {
		return err
	}
	return errors.Join(err, <-taken)
}

func TestPostgres_ClaimStaysDuringHoldersWork(t *testing.T) {
	handles := twoHandles(t)
	store, other := checkpoints.NewStore(handles[0], checkpoints.Options{}),
		checkpoints.NewStore(handles[1], checkpoints.Options{})
	tries := 0
	for how, takeAway := range map[string]func(id string, epoch int64) error{
		"a claim of the next pause": func(id string, _ int64) error {
			_, _, err := other.Claim(t.Context(), id)
			return err
		},
		"a release": func(id string, epoch int64) error {
			there, err := other.Reattach(t.Context(), id, epoch)
			if err == nil {
				err = there.Release(t.Context())
			}
			return err
		},
		"a recovery": func(string, int64) error {
			_, err := other.RecoverOrphaned(t.Context())
			return err
		},
	} {
		undisturbed(t, func() error {
			tries++
			id := fmt.Sprintf("r-%d", tries)
			done(t, store.SaveDocument(t.Context(), id, pauseOf(id, 1)))
			held, ok, err := store.Claim(t.Context(), id)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if how == "a claim of the next pause" {
				done(t, store.SaveDocument(t.Context(), id, pauseOf(id, 2)))
			}
			if err := fenced(t, handles[0], held.HoldTx,
				func() error { return takeAway(id, held.Epoch()) }); err != nil {
				return err
			}
			if err := held.Renew(t.Context()); !errors.Is(err, db.ErrLeaseLost) {
				t.Errorf("the claim ends by %s with %v", how, err)
			}
			return nil
		})
	}
}

func TestPostgres_ReservationStaysDuringHoldersWork(t *testing.T) {
	handles := twoHandles(t)
	undisturbed(t, func() error {
		held, err := handles[0].Reserve(t.Context(), "port", "1",
			db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: time.Hour}})
		done(t, err)
		if err := fenced(t, handles[0], func(tx *db.Tx) error {
			err := held.HoldTx(tx)
			if err == nil { // which others may go on with
				var there *db.Lease
				if there, err = handles[1].Reattach(t.Context(), "", "port", "1", held.Epoch()); err == nil {
					err = there.Renew(t.Context())
				}
			}
			return err
		}, func() error {
			return handles[1].ReleaseReservation(t.Context(), "", "port", "1",
				held.Epoch())
		}); err != nil {
			return err
		}
		if err := held.Renew(t.Context()); !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("the reservation ends with %v", err)
		}
		return nil
	})
}

// A holder that has released a lease can't renew it, and an acknowledged renewal was of a lease
// that was held.
func TestPostgresNobodyBeatsALeaseThatWasGivenBack(t *testing.T) {
	handles := twoHandles(t)
	registry := agents.NewRegistry(handles[0], agents.Options{})
	other := agents.NewRegistry(handles[1], agents.Options{})
	for n := range 10 {
		thread := fmt.Sprintf("thread-%d", n)
		lease, _, err := registry.TryLeaseThread(t.Context(), thread, db.LeaseTerms{TTL: time.Hour},
			activeOn(thread))
		done(t, err)
		var released atomic.Bool
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				for over := false; !over; {
					over = released.Load()
					if err := lease.Renew(t.Context()); err == nil && over {
						t.Error("a lease that was given back was prolonged")
					}
				}
			})
		}
		wait.Go(func() {
			defer released.Store(true)
			if n%2 == 0 {
				done(t, lease.Release(t.Context(), agents.Complete))
			} else {
				done(t, other.UpdateStatus(t.Context(), lease.SessionID(), agents.Abandoned))
			}
		})
		wait.Wait()
	}
}

// entryOf adds an agent to a registry.
func entryOf(t *testing.T, r *agents.Registry, id string) {
	t.Helper()
	done(t, r.Save(t.Context(), agents.Entry{
		SessionID: id, Thread: "thread", BaseState: "b",
		StartedAt: time.Unix(1, 0), Status: agents.Active,
	}))
}

func TestPostgres_ConcurrentEntryChangesAllStay(t *testing.T) {
	handles := twoHandles(t)
	registries := map[*db.DB]*agents.Registry{}
	for _, d := range handles {
		registries[d] = agents.NewRegistry(d, agents.Options{})
	}
	entryOf(t, registries[handles[0]], "agent")
	mixed(t, handles, func(d *db.DB, inside bool, c, i int) error {
		r := registries[d]
		count := func(e *agents.Entry) {
			calls := uint32(1)
			if e.UsageSummary.ToolCalls != nil {
				calls += *e.UsageSummary.ToolCalls
			}
			e.UsageSummary.ToolCalls = &calls
		}
		query := agents.ContextQuery{Path: fmt.Sprint(c, i)}
		if !inside {
			_, _, err := r.UpdateEntry(t.Context(), "agent", count)
			return errors.Join(err, r.LogContextQuery(t.Context(), "agent", query))
		}
		return d.Write(t.Context(), "update", func(tx *db.Tx) error {
			_, _, err := r.UpdateEntryTx(tx, "agent", count)
			return errors.Join(err, r.LogContextQueryTx(tx, "agent", query))
		})
	})
	e, err := registries[handles[0]].Get(t.Context(), "agent")
	done(t, err)
	if calls := *e.UsageSummary.ToolCalls; calls != mixedCallers*mixedEach ||
		len(e.ContextQueries) != mixedCallers*mixedEach {
		t.Errorf("of %d changes %d and %d queries are there", mixedCallers*mixedEach, calls, len(e.ContextQueries))
	}
}

// It has read the queries before there was one more, and rewrites them.
func TestPostgres_QueryIsNotSkippedByRewriters(t *testing.T) {
	handles := twoHandles(t)
	registry, other := agents.NewRegistry(handles[0], agents.Options{}),
		agents.NewRegistry(handles[1], agents.Options{})
	entryOf(t, registry, "agent")
	for _, path := range []string{"1", "2"} {
		done(t, registry.LogContextQuery(t.Context(), "agent", agents.ContextQuery{Path: path}))
	}
	var logged sync.Once
	done(t, handles[0].Write(t.Context(), "rewrite", func(tx *db.Tx) error {
		if err := tx.Get(new(int64), "SELECT count(*) FROM agents"); err != nil {
			return err
		}
		logged.Do(func() { done(t, other.LogContextQuery(t.Context(), "agent", agents.ContextQuery{Path: "3"})) })
		_, _, err := registry.UpdateEntryTx(tx, "agent",
			func(e *agents.Entry) { e.ContextQueries = e.ContextQueries[1:] })
		return err
	}))
	e, err := registry.Get(t.Context(), "agent")
	done(t, err)
	if len(e.ContextQueries) != 2 || e.ContextQueries[0].Path != "2" || e.ContextQueries[1].Path != "3" {
		t.Errorf("the queries are %+v", e.ContextQueries)
	}
}

// owned gives a handle its owner: the call that does so runs again.
func owned(t *testing.T, d *db.DB) {
	t.Helper()
	done(t, d.Write(t.Context(), "begin", func(tx *db.Tx) error { return second(tx.Store().Owner()) }))
}

// activeOn builds an active entry on the thread.
func activeOn(thread string) agents.Builder {
	return func(id string) (agents.Entry, error) {
		return agents.Entry{SessionID: id, Thread: thread, BaseState: "b", Status: agents.Active}, nil
	}
}

// leasedThread returns a lease, and the registries of two handles with a clock that is moved by
// hand.
func leasedThread(t *testing.T) (clock *atomic.Int64, handles []*db.DB, registries []*agents.Registry,
	lease *agents.Lease,
) {
	t.Helper()
	address := dbtest.Postgres(t)
	clock = new(atomic.Int64)
	for range 2 {
		d := dbtest.OpenAt(t, address, db.Options{BootTime: func() db.BootTime {
			return db.BootTime{
				Boot:  "here",
				Since: time.Duration(clock.Load()),
			}
		}})
		owned(t, d)
		handles, registries = append(handles, d), append(registries, agents.NewRegistry(d, agents.Options{}))
	}
	lease, _, err := registries[0].TryLeaseThread(t.Context(), "thread", db.LeaseTerms{TTL: time.Minute},
		activeOn("thread"))
	done(t, err)
	return clock, handles, registries, lease
}

func TestPostgres_ThreadStaysDuringHoldersWork(t *testing.T) {
	undisturbed(t, func() error {
		_, handles, registries, lease := leasedThread(t)
		if err := fenced(t, handles[0], func(tx *db.Tx) error {
			err := lease.HoldTx(tx)
			if err == nil { // which others may go on with
				var there *agents.Lease
				if there, err = registries[1].Reattach(t.Context(), lease.SessionID(), "thread",
					lease.Epoch()); err == nil {
					err = there.Renew(t.Context())
				}
			}
			return err
		}, func() error {
			return registries[1].UpdateStatus(t.Context(), lease.SessionID(),
				agents.Abandoned)
		}); err != nil {
			return err
		}
		if err := lease.Renew(t.Context()); !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("the lease ends with %v", err)
		}
		return nil
	})
}

// blocked makes others wait for the rows that a transaction has locked; it commits once that many
// wait.
func blocked(t *testing.T, d *db.DB, many int, lock func(tx *db.Tx) error, others func()) {
	t.Helper()
	var wait sync.WaitGroup
	done(t, d.WriteLocked(t.Context(), "lock", func(tx *db.Tx) error {
		if err := lock(tx); err != nil {
			return err
		}
		wait.Go(others)
		dbtest.AwaitPostgresWaits(t, d.Path(), many)
		return nil
	}))
	wait.Wait()
}

// The renewal was in time, and is committed behind the look at the lease.
func TestPostgres_EntryChangeSparesRenewedLease(t *testing.T) {
	clock, handles, registries, lease := leasedThread(t)
	clock.Store(int64(time.Minute - 1))
	blocked(t, handles[0], 1, func(tx *db.Tx) error {
		err := lease.RenewTx(tx)
		clock.Store(int64(time.Minute))
		return err
	}, func() {
		_, found, err := registries[1].UpdateEntry(t.Context(), lease.SessionID(),
			func(e *agents.Entry) { e.BaseState = "c" })
		if err != nil || !found {
			t.Error(found, err)
		}
	})
	done(t, lease.Renew(t.Context()))
}

// The reservation judges what a transaction under way leaves of the lease.
func TestPostgres_ReservationJudgesLockedLease(t *testing.T) {
	for name, change := range map[string]func(*agents.Lease, *db.Tx) error{
		"renewed":  func(l *agents.Lease, tx *db.Tx) error { return l.RenewTx(tx) },
		"released": func(l *agents.Lease, tx *db.Tx) error { return l.ReleaseTx(tx, agents.Complete) },
	} {
		t.Run(name, func(t *testing.T) {
			clock, handles, registries, lease := leasedThread(t)
			clock.Store(int64(time.Minute - 1))
			blocked(t, handles[0], 1, func(tx *db.Tx) error {
				err := change(lease, tx)
				clock.Store(int64(time.Minute))
				return err
			}, func() {
				next, out, err := registries[1].TryLeaseThread(t.Context(), "thread", db.LeaseTerms{TTL: time.Minute},
					activeOn("thread"))
				if err != nil || (out.Reserved != nil) != (name == "released") {
					t.Errorf("%+v, %v", out, err)
				}
				if next != nil && next.Epoch() <= lease.Epoch() {
					t.Errorf("epoch %d comes after %d", next.Epoch(), lease.Epoch())
				}
			})
		})
	}
}

// The lease begins once the thread's name is free, which may take long.
func TestPostgres_LeaseBeginsAfterItsWait(t *testing.T) {
	clock, handles, registries, held := leasedThread(t)
	next := make(chan *agents.Lease, 1)
	build := activeOn("thread")
	terms := db.LeaseTerms{TTL: time.Minute}
	done(t, handles[0].WriteLocked(t.Context(), "release", func(tx *db.Tx) error {
		_, _, err := registries[0].TryLeaseThreadTx(tx, "thread", terms, build)
		if err = errors.Join(err, held.ReleaseTx(tx, agents.Complete)); err != nil {
			return err
		}
		go func() {
			lease, _, err := registries[1].TryLeaseThread(t.Context(), "thread", terms, build)
			if err != nil {
				t.Error(err)
			}
			next <- lease
		}()
		dbtest.AwaitPostgresWaits(t, handles[0].Path(), 1)
		clock.Store(int64(time.Minute))
		return nil
	}))
	lease := <-next
	if lease == nil {
		t.Fatal("the thread was not free")
	}
	done(t, lease.Renew(t.Context()))
}

// Both wait for the row, the renewal first, which was asked for in time.
func TestPostgres_OvertakenNumberIsNotRenewed(t *testing.T) {
	clock, handles, registries, lease := leasedThread(t)
	blocked(t, handles[1], 2, func(tx *db.Tx) error {
		all := txn.AgentReservations.Rows("SELECT epoch FROM agent_reservations")
		return errors.Join(tx.Store().WillChange(all), tx.Get(new(int64), "SELECT 1"))
	}, func() {
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := lease.Renew(t.Context()); !errors.Is(err, db.ErrLeaseLost) {
				t.Errorf("it was renewed: %v", err)
			}
		})
		dbtest.AwaitPostgresWaits(t, handles[0].Path(), 1)
		clock.Store(int64(time.Minute))
		held, _, err := registries[1].Reservation(t.Context(), "thread")
		wait.Wait()
		if err != nil || held.Live != agents.Dead {
			t.Errorf("it is %+v, %v", held, err)
		}
	})
}

// The reservation is committed once the other call has read that nobody is on the thread.
func TestPostgres_SecondOnEmptyThreadLooksAgain(t *testing.T) {
	handles := twoHandles(t)
	registry, other := agents.NewRegistry(handles[0], agents.Options{}),
		agents.NewRegistry(handles[1], agents.Options{})
	build := activeOn("thread")
	var reserved sync.Once
	_, created, err := registry.FindOrCreateActiveEntry(t.Context(),
		func(e agents.Entry) bool { return e.Thread == "thread" }, func(*agents.Entry) {},
		func(id string) (agents.Entry, error) {
			reserved.Do(func() {
				out, err := other.TryReserveThread(t.Context(), "thread", build)
				if err != nil || out.Reserved == nil {
					t.Errorf("%+v, %v", out, err)
				}
			})
			return build(id)
		})
	if err != nil || created {
		t.Errorf("another one was made: %v, %v", created, err)
	}
}

// Another caller is taking the id.
func TestPostgres_UpdateUnderNewIDReplacesOccupant(t *testing.T) {
	handles := twoHandles(t)
	registry, other := agents.NewRegistry(handles[0], agents.Options{}),
		agents.NewRegistry(handles[1], agents.Options{})
	entryOf(t, registry, "one")
	blocked(t, handles[0], 1, func(tx *db.Tx) error {
		return registry.SaveTx(tx, agents.Entry{
			SessionID: "two", Thread: "t", BaseState: "theirs",
			StartedAt: time.Unix(1, 0), Status: agents.Active,
		})
	}, func() {
		_, found, err := other.UpdateEntry(t.Context(), "one",
			func(e *agents.Entry) { e.SessionID, e.BaseState = "two", "ours" })
		if err != nil || !found {
			t.Error(found, err)
		}
	})
	e, err := registry.Get(t.Context(), "two")
	done(t, err)
	if e.BaseState != "ours" {
		t.Errorf("what was saved last is %s", e.BaseState)
	}
}

// A run without a holder is resumed by one caller, and not removed by one that examined it
// before.
func TestPostgres_ResumedRunHasOneHolder(t *testing.T) {
	handles := twoHandles(t)
	started := runs.Started{RunID: "r", AgentID: "a", StartedAt: time.Unix(1, 0)}
	done(t, second(runs.NewStore(handles[0], runs.Options{}).Append(t.Context(),
		runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{started}})))
	_, err := live.NewStore(handles[0], live.Options{}).ReserveRunWithID(t.Context(), "r", "s", "p")
	done(t, err)
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	for store, calls := range map[string]struct {
		resume   func(ctx context.Context, d *db.DB) (release func(context.Context) error, err error)
		resumeTx func(d *db.DB, tx *db.Tx) error
		remove   func(d *db.DB, tx *db.Tx) error
	}{
		"runs": {
			func(ctx context.Context, d *db.DB) (func(context.Context) error, error) {
				r, err := runs.NewStore(d, runs.Options{}).Resume(ctx, ref)
				return r.Release, err
			},
			func(d *db.DB, tx *db.Tx) error {
				_, err := runs.NewStore(d, runs.Options{}).ResumeTx(tx, ref)
				return err
			},
			func(d *db.DB, tx *db.Tx) error { return runs.NewStore(d, runs.Options{}).DeleteTx(tx, ref) },
		},
		"live": {
			func(ctx context.Context, d *db.DB) (func(context.Context) error, error) {
				r, err := live.NewStore(d, live.Options{}).Resume(ctx, "r")
				return r.Release, err
			},
			func(d *db.DB, tx *db.Tx) error {
				_, err := live.NewStore(d, live.Options{}).ResumeTx(tx, "r")
				return err
			},
			func(d *db.DB, tx *db.Tx) error { return live.NewStore(d, live.Options{}).DeleteTx(tx, "r") },
		},
	} {
		t.Run(store, func(t *testing.T) {
			var looked sync.Once
			err := handles[0].Write(t.Context(), "remove", func(tx *db.Tx) error {
				if err := tx.Get(new(int64), "SELECT count(*) FROM runs"); err != nil {
					return err
				}
				looked.Do(func() {
					release, err := calls.resume(t.Context(), handles[1])
					done(t, err)
					t.Cleanup(func() { done(t, release(context.Background())) })
				})
				return calls.remove(handles[0], tx)
			})
			if !errors.Is(err, db.ErrConflict) {
				t.Errorf("it is removed: %v", err)
			}
		})
		t.Run(store+" by many", func(t *testing.T) {
			var won atomic.Int64
			mixed(t, handles, func(d *db.DB, inside bool, _, _ int) (err error) {
				if inside {
					err = d.Write(t.Context(), "resume", func(tx *db.Tx) error { return calls.resumeTx(d, tx) })
				} else {
					_, err = calls.resume(t.Context(), d)
				}
				if err == nil {
					won.Add(1)
				}
				if errors.Is(err, db.ErrConflict) {
					err = nil
				}
				return err
			})
			if n := won.Load(); n != 1 {
				t.Errorf("%d hold it", n)
			}
		})
	}
}

// A removal in a caller's WriteLocked waits for a caller that resumes the run, and finds it held.
func TestPostgres_RemovalSparesRunsTakenUp(t *testing.T) {
	handles := twoHandles(t)
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	done(t, runs.NewStore(handles[0], runs.Options{}).WriteStarted(t.Context(),
		runs.Started{RunID: "r", AgentID: "a", StartedAt: time.Unix(1, 0)}))
	open, err := runs.NewStore(handles[0], runs.Options{}).Resume(t.Context(), ref)
	done(t, err)
	done(t, open.Release(t.Context())) // it has no holder
	_, err = live.NewStore(handles[0], live.Options{}).ReserveRunWithID(t.Context(), "r", "s", "p")
	done(t, err)
	for store, calls := range map[string]struct {
		resume func(tx *db.Tx) (func(context.Context) error, error)
		remove func(tx *db.Tx) error
	}{
		"runs": {
			func(tx *db.Tx) (func(context.Context) error, error) {
				r, err := runs.NewStore(handles[1], runs.Options{}).ResumeTx(tx, ref)
				return r.Release, err
			},
			func(tx *db.Tx) error { return runs.NewStore(handles[0], runs.Options{}).DeleteTx(tx, ref) },
		},
		"live": {
			func(tx *db.Tx) (func(context.Context) error, error) {
				r, err := live.NewStore(handles[1], live.Options{}).ResumeTx(tx, "r")
				return r.Release, err
			},
			func(tx *db.Tx) error { return live.NewStore(handles[0], live.Options{}).DeleteTx(tx, "r") },
		},
	} {
		t.Run(store, func(t *testing.T) {
			var release func(context.Context) error
			blocked(t, handles[1], 1, func(tx *db.Tx) (err error) {
				release, err = calls.resume(tx)
				return err
			}, func() {
				if err := handles[0].WriteLocked(t.Context(), "remove", calls.remove); !errors.Is(err, db.ErrConflict) {
					t.Errorf("it is removed: %v", err)
				}
			})
			done(t, release(t.Context()))
		})
	}
}

// A worker is removed in a caller's WriteLocked beside an input to another one, whose event is not
// given again.
func TestPostgres_WorkerRemovalKeepsCounters(t *testing.T) {
	handles := twoHandles(t)
	var runtimes []*workers.Runtime
	var refs []workers.WorkerRef
	for _, d := range handles {
		r, err := workers.Open(t.Context(), d, workers.RuntimeOptions{RuntimeID: "runtime"})
		done(t, err)
		w, err := r.CreateWorker(t.Context(),
			workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{}))
		done(t, err)
		runtimes, refs = append(runtimes, r), append(refs, w.WorkerRef)
	}
	var first workers.WorkerInteractionAck
	blocked(t, handles[1], 1, func(tx *db.Tx) (err error) {
		first, err = runtimes[1].SendInputTx(tx, refs[1], workers.UserInput("x"))
		if err == nil {
			err = tx.Get(new(int64), "SELECT 1") // with which the input goes
		}
		return err
	}, func() {
		if err := handles[0].WriteLocked(t.Context(), "remove",
			func(tx *db.Tx) error { return runtimes[0].DeleteTx(tx, refs[0]) }); err != nil {
			t.Error(err)
		}
	})
	next, err := runtimes[0].SendInput(t.Context(), refs[1], workers.UserInput("y"))
	done(t, err)
	if next.EventID <= first.EventID {
		t.Errorf("event %d comes behind event %d", next.EventID, first.EventID)
	}
}

// Two callers that remove a live run behind row locks take it out of the counts once.
func TestPostgres_LiveRunRemovedTwiceCountsOnce(t *testing.T) {
	handles := twoHandles(t)
	var stores []*live.Store
	for _, d := range handles {
		stores = append(stores, live.NewStore(d, live.Options{MaxRuns: new(uint64(2))}))
	}
	for _, id := range []string{"a", "b"} {
		_, err := stores[0].ReserveRunWithID(t.Context(), id, "s", "p")
		done(t, err)
	}
	blocked(t, handles[1], 1, func(tx *db.Tx) error { return stores[1].DeleteTx(tx, "a") }, func() {
		err := handles[0].WriteLocked(t.Context(), "remove",
			func(tx *db.Tx) error { return stores[0].DeleteTx(tx, "a") })
		if !errors.Is(err, db.ErrNotFound) {
			t.Errorf("it was removed twice: %v", err)
		}
	})
}
