package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge"
	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/machine"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/legacy"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// A thrower is a function that panics, leaves by Goexit or calls the handle: once, the first time that it is
// called.
type thrower struct {
	t     *testing.T
	d     *db.DB
	path  string
	armed atomic.Pointer[string] // the option that throws
	does  func()
	calls bool // it calls the handle, and the stream goes on
	threw atomic.Bool
	done  atomic.Bool // the call inside has returned
}

func (x *thrower) hit() {
	if x.threw.CompareAndSwap(false, true) {
		x.does()
		x.done.Store(true)
	}
}

// option throws where the option of that name is to.
func (x *thrower) option(name string) {
	if armed := x.armed.Load(); armed != nil && *armed == name {
		x.hit()
	}
}

// through calls with an option that throws.
func (x *thrower) through(name string, call func(ctx context.Context) error) error {
	x.armed.Store(&name)
	defer x.armed.Store(nil)
	return call(x.t.Context())
}

// in calls from inside a transaction.
func (x *thrower) in(fn func(tx *db.Tx) error) error { return x.d.Write(x.t.Context(), "throw", fn) }

func (x *thrower) build(id string) (agents.Entry, error) {
	x.hit()
	return agents.Entry{SessionID: id, Thread: "u", Status: agents.Active}, nil
}

func (x *thrower) update(*agents.Entry) { x.hit() }

func (x *thrower) matches(agents.Entry) bool { x.hit(); return false }

func noUpdate(*agents.Entry)       {}
func matchesAll(agents.Entry) bool { return true }

func noBuild(id string) (agents.Entry, error) {
	return agents.Entry{SessionID: id, Status: agents.Active}, nil
}

// registry has an active agent "a".
func (x *thrower) registry() *agents.Registry {
	r := agents.NewRegistry(x.d, agents.Options{})
	must0(x.t, r.Save(x.t.Context(), agents.Entry{
		SessionID: "a", Thread: "t", StartedAt: time.Now(), Status: agents.Active,
	}))
	return r
}

func (x *thrower) lease() *agents.Lease {
	r, terms := agents.NewRegistry(x.d, agents.Options{}), db.LeaseTerms{TTL: time.Minute}
	l, _, err := r.TryLeaseThread(x.t.Context(), "leased", terms, func(id string) (agents.Entry, error) {
		return agents.Entry{SessionID: id, Thread: "leased", Status: agents.Active}, nil
	})
	must0(x.t, err)
	return l
}

// over is a run that has ended.
func (x *thrower) over() *runs.Store {
	s := runs.NewStore(x.d, runs.Options{})
	must0(x.t, second(s.Append(x.t.Context(), runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{
		runs.Started{AgentID: "a", RunID: "r"}, runs.Ended{AgentID: "a", RunID: "r"},
	}})))
	return s
}

// run is a run that is held.
func (x *thrower) run() *selvedge.Run {
	r, err := selvedge.On(x.d, selvedge.Options{}).Take(x.t.Context(), "r", selvedge.Start{})
	must0(x.t, err)
	return r
}

func (x *thrower) effect(context.Context, string) (json.RawMessage, error) {
	x.hit()
	return json.RawMessage("1"), nil
}

func must0(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// follow reads to the first error of a stream, while others write.
func (x *thrower) follow(
	s stores.Stream[int64, int64], between headsBetween, begin func(*db.Rx) (stores.Place, error),
) error {
	ctx, stop := context.WithCancel(x.t.Context())
	defer stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		for n := 0; ctx.Err() == nil; n++ {
			_ = x.d.Write(ctx, "tick", tick)
			if x.calls && x.done.Load() && n > 100 {
				stop()
			}
		}
	}()
	defer func() { stop(); <-written }()
	if between != nil {
		for _, err := range stores.FollowAll(ctx, x.d, s, x.path, between) {
			if err != nil {
				return unlessStopped(ctx, err)
			}
		}
		return nil
	}
	for _, err := range stores.Follow(ctx, x.d, s, begin) {
		if err != nil {
			return unlessStopped(ctx, err)
		}
	}
	return nil
}

func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// tick changes a row to what it was, and commits that.
func tick(tx *db.Tx) error {
	_, err := tx.Exec(`UPDATE scopes SET name = name`)
	return err
}

type headsBetween func(rx *db.Rx, behind, last int64) ([]stores.Head[int64], error)

func (x *thrower) stream() (
	s stores.Stream[int64, int64], between headsBetween, begin func(*db.Rx) (stores.Place, error),
) {
	s = stores.Stream[int64, int64]{
		Op: "follow ticks", Name: "tick", Table: "scopes", Key: "id",
		End: `SELECT 1 AS key, 0 AS seen, '' AS status WHERE ? > 0`,
		Read: func(*db.Rx, stores.Place, paging.Room) (stores.Stretch[int64, int64], error) {
			return stores.Stretch[int64, int64]{Of: 1}, nil
		},
	}
	between = func(*db.Rx, int64, int64) ([]stores.Head[int64], error) {
		return []stores.Head[int64]{{Of: 1, Place: stores.Place{Key: 1}}}, nil
	}
	return s, between, func(*db.Rx) (stores.Place, error) { return stores.Place{Key: 1}, nil }
}

func (x *thrower) renew(change func(*db.Leased)) error {
	ttl := int64(time.Minute)
	l := db.Leased{
		Noun: "lease",
		Key:  func(*db.Rx) ([]any, error) { return nil, nil },
		Held: func(*db.Rx, string, func() db.BootTime) (txn.LeaseColumns, error) {
			return txn.LeaseColumns{TTL: &ttl}, nil
		},
		Renew: func(*db.Tx, func(string, ...any) (int64, error), txn.LeaseColumns, txn.LeaseColumns) error {
			return nil
		},
		Named: func(_ string, err error) error { return err },
	}
	change(&l)
	return x.d.NewHandle(nil, l, txn.LeaseColumns{}).Renew(x.t.Context())
}

// sweep sweeps one thing.
func (x *thrower) sweep(change func(*stores.Sweep[int, string])) error {
	s := stores.Sweep[int, string]{
		DB: x.d, Op: "sweep",
		Page: func(*db.Rx, int) ([]string, int, bool, error) { return []string{"a"}, 1, false, nil },
		End:  func(*db.Tx, string) (bool, error) { return true, nil },
	}
	change(&s)
	_, err := s.Run(x.t.Context(), 0)
	return err
}

func (x *thrower) prune(change func(*stores.Pruning)) error {
	p := stores.Pruning{
		Op: "prune ticks", Store: maintenance.StoreRuns, Share: 10,
		Ended: func(*db.Rx, int64, stores.Ended, int) ([]stores.Ended, error) {
			return []stores.Ended{{Key: 1, ID: "x", At: 1}}, nil
		},
		Lock:   func(*db.Tx, int64, []stores.Ended) (map[int64]bool, error) { return nil, nil },
		Remove: func(*db.Tx, stores.Ended, int64) (stores.Removal, int64, error) { return stores.Removed, 1, nil },
	}
	change(&p)
	_, err := stores.Prune(x.t.Context(), x.d, p, db.Policy{Count: db.KeepNone})
	return err
}

func (x *thrower) page() paging.Room {
	room, err := paging.RoomFor(1)
	must0(x.t, err)
	return room
}

func (x *thrower) items(yield func(int, error) bool) { _ = yield(1, nil) && yield(2, nil) }

type hook struct{ hit func() }

func (h hook) RecordRunCancelled(context.Context, string, string, string) { h.hit() }

// throws are calls in which each function throws. Some of a server have none on a file.
var throws = map[string]func(x *thrower) error{
	"db.Options.Now": func(x *thrower) error {
		return x.through("Now", func(ctx context.Context) error {
			return x.d.Write(ctx, "throw", func(*db.Tx) error {
				return nil
			})
		})
	},
	"db.Options.BootTime": func(x *thrower) error {
		return x.through("BootTime", func(ctx context.Context) error {
			_, err := x.d.Reserve(ctx, "port", "1", db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: time.Minute}})
			return err
		})
	},
	"db.Options.Observe": func(x *thrower) error {
		return x.through("Observe", func(ctx context.Context) error {
			return x.d.Write(ctx, "throw", func(*db.Tx) error {
				return nil
			})
		})
	},
	"db.WithProgress(tell)": func(x *thrower) error {
		_, err := x.d.Check(db.WithProgress(x.t.Context(), func(db.Progress) { x.hit() }))
		return err
	},
	"db.DB.Read(fn)": func(x *thrower) error {
		return x.d.Read(x.t.Context(), "throw", func(*db.Rx) error { x.hit(); return nil })
	},
	"db.DB.ReadSingle(fn)": func(x *thrower) error {
		return x.d.ReadSingle(x.t.Context(), "throw", func(*db.Rx) error { x.hit(); return nil })
	},
	"db.DB.Write(fn)": func(x *thrower) error { return x.in(func(*db.Tx) error { x.hit(); return nil }) },
	"db.DB.WriteLocked(fn)": func(x *thrower) error {
		return x.d.WriteLocked(x.t.Context(), "throw", func(*db.Tx) error { x.hit(); return nil })
	},
	"db.DB.WriteEnd(fn)": func(x *thrower) error {
		return x.d.WriteEnd(x.t.Context(), "throw", func(*db.Tx) error { x.hit(); return nil })
	},
	"db.DB.Reclaim(fn)": func(x *thrower) error {
		return x.d.Reclaim(x.t.Context(), "throw", func(*db.Tx) error { x.hit(); return nil })
	},
	"db.Handle.Hold(fn)": func(x *thrower) error {
		return x.lease().Hold(x.t.Context(), "throw", func(*db.Tx) error { x.hit(); return nil })
	},
	"db.Tx.Savepoint(fn)": func(x *thrower) error {
		return x.in(func(tx *db.Tx) error { return tx.Savepoint(func() error { x.hit(); return nil }) })
	},
	"db.Tx.AfterCommit(fn)": func(x *thrower) error {
		return x.in(func(tx *db.Tx) error { tx.AfterCommit(x.hit); return nil })
	},
	"agents.Registry.UpdateEntry(update)": func(x *thrower) error {
		_, _, err := x.registry().UpdateEntry(x.t.Context(), "a", x.update)
		return err
	},
	"agents.Registry.UpdateEntryTx(update)": func(x *thrower) error {
		r := x.registry()
		return x.in(func(tx *db.Tx) error { _, _, err := r.UpdateEntryTx(tx, "a", x.update); return err })
	},
	"agents.Lease.Update(update)": func(x *thrower) error {
		_, err := x.lease().Update(x.t.Context(), x.update)
		return err
	},
	"agents.Lease.UpdateTx(update)": func(x *thrower) error {
		l := x.lease()
		return x.in(func(tx *db.Tx) error { _, err := l.UpdateTx(tx, x.update); return err })
	},
	"agents.Registry.TryReserveThread(build)": func(x *thrower) error {
		_, err := x.registry().TryReserveThread(x.t.Context(), "u", x.build)
		return err
	},
	"agents.Registry.TryReserveThreadTx(build)": func(x *thrower) error {
		r := x.registry()
		return x.in(func(tx *db.Tx) error { _, err := r.TryReserveThreadTx(tx, "u", x.build); return err })
	},
	"agents.Registry.TryLeaseThread(build)": func(x *thrower) error {
		_, _, err := x.registry().TryLeaseThread(x.t.Context(), "u", db.LeaseTerms{TTL: time.Minute}, x.build)
		return err
	},
	"agents.Registry.TryLeaseThreadTx(build)": func(x *thrower) error {
		r := x.registry()
		return x.in(func(tx *db.Tx) error {
			_, _, err := r.TryLeaseThreadTx(tx, "u", db.LeaseTerms{TTL: time.Minute}, x.build)
			return err
		})
	},
	"agents.Registry.CreateGeneratedEntry(build)": func(x *thrower) error {
		_, err := x.registry().CreateGeneratedEntry(x.t.Context(), x.build)
		return err
	},
	"agents.Registry.CreateGeneratedEntryTx(build)": func(x *thrower) error {
		r := x.registry()
		return x.in(func(tx *db.Tx) error { _, err := r.CreateGeneratedEntryTx(tx, x.build); return err })
	},
	"agents.Registry.CreateGeneratedEntryForThread(build)": func(x *thrower) error {
		_, err := x.registry().CreateGeneratedEntryForThread(x.t.Context(), "u", x.build)
		return err
	},
	"agents.Registry.FindOrCreateActiveEntry(matches)": func(x *thrower) error {
		_, _, err := x.registry().FindOrCreateActiveEntry(x.t.Context(), x.matches, noUpdate, noBuild)
		return err
	},
	"agents.Registry.FindOrCreateActiveEntry(update)": func(x *thrower) error {
		_, _, err := x.registry().FindOrCreateActiveEntry(x.t.Context(), matchesAll, x.update, noBuild)
		return err
	},
	"agents.Registry.FindOrCreateActiveEntry(build)": func(x *thrower) error {
		none := func(agents.Entry) bool { return false }
		_, _, err := x.registry().FindOrCreateActiveEntry(x.t.Context(), none, noUpdate, x.build)
		return err
	},
	"agents.Registry.FindOrCreateActiveEntryTx(matches)": func(x *thrower) error {
		r := x.registry()
		return x.in(func(tx *db.Tx) error {
			_, _, err := r.FindOrCreateActiveEntryTx(tx, x.matches, noUpdate, noBuild)
			return err
		})
	},
	"agents.Registry.FindOrCreateActiveEntryTx(update)": func(x *thrower) error {
		r := x.registry()
		return x.in(func(tx *db.Tx) error {
			_, _, err := r.FindOrCreateActiveEntryTx(tx, matchesAll, x.update, noBuild)
			return err
		})
	},
	"agents.Registry.FindOrCreateActiveEntryTx(build)": func(x *thrower) error {
		r, none := x.registry(), func(agents.Entry) bool { return false }
		return x.in(func(tx *db.Tx) error {
			_, _, err := r.FindOrCreateActiveEntryTx(tx, none, noUpdate, x.build)
			return err
		})
	},
	"db.Policy.Each": func(x *thrower) error {
		_, err := x.over().Prune(x.t.Context(), db.Policy{Count: db.KeepNone, Each: func(db.Gone) { x.hit() }})
		return err
	},
	"maintenance.PruneOptions.Each": func(x *thrower) error {
		x.over()
		_, err := maintenance.Prune(x.t.Context(), x.d, maintenance.PruneOptions{
			Policy: &db.Policy{Count: db.KeepNone}, Each: func(string, db.Gone) { x.hit() },
		})
		return err
	},
	"legacy.Options.Progress": func(x *thrower) error {
		dir := filepath.Join(filepath.Dir(x.path), "tree")
		must0(x.t, os.MkdirAll(filepath.Join(dir, "runs", "a"), 0o700))
		must0(x.t, os.WriteFile(filepath.Join(dir, "runs", "a", "r.jsonl"), nil, 0o600))
		_, err := legacy.Import(x.t.Context(), x.d, legacy.Runs, dir,
			legacy.Options{Progress: func(legacy.Progress) {
				x.hit()
			}})
		if err != nil || x.threw.Load() {
			return err
		}
		return errors.New("it was not told")
	},
	"selvedge.Run.Reply(fn)": func(x *thrower) error {
		_, err := x.run().Reply("k", func(context.Context) (selvedge.Reply, error) {
			x.hit()
			return selvedge.Reply{}, nil
		})
		return err
	},
	"selvedge.Run.Do(fn)": func(x *thrower) error {
		_, err := x.run().Do("k", selvedge.Effect{Tool: "t"}, x.effect)
		return err
	},
	"selvedge.Run.DoTurn(fn)": func(x *thrower) error {
		_, err := x.run().DoTurn("k", selvedge.Effect{Tool: "t"}, selvedge.Turn{}, x.effect)
		return err
	},
	"selvedge.Do(fn)": func(x *thrower) error {
		_, err := selvedge.Do(x.run(), "k", selvedge.Effect{Tool: "t"}, x.effect)
		return err
	},
	"live.Session.SetCurrent(stop)": func(x *thrower) error {
		var session live.Session
		session.SetCurrent("r", x.hit)
		handle := live.NewRunHandle("r", "s", live.NewStore(x.d, live.Options{}), &session, nil)
		_, err := handle.Cancel(x.t.Context())
		return err
	},
	"live.CancelHook.RecordRunCancelled": func(x *thrower) error {
		var session live.Session
		session.SetCurrent("r", func() {})
		s := live.NewStore(x.d, live.Options{})
		_, err := live.NewRunHandle("r", "s", s, &session, hook{x.hit}).Cancel(x.t.Context())
		return err
	},
	"stores.Follow(begin)": func(x *thrower) error {
		s, _, begin := x.stream()
		return x.follow(s, nil, func(rx *db.Rx) (stores.Place, error) { x.hit(); return begin(rx) })
	},
	"stores.Stream.PlaceIn(find)": func(x *thrower) error {
		s, _, _ := x.stream()
		return x.d.Read(x.t.Context(), "find a place", func(rx *db.Rx) error {
			_, err := s.PlaceIn(rx, "", func() (int64, bool, error) { x.hit(); return 1, true, nil })
			return err
		})
	},
	"stores.Stream.CursorBefore(first)": func(x *thrower) error {
		s, _, _ := x.stream()
		return x.d.Read(x.t.Context(), "throw", func(rx *db.Rx) error {
			_, err := s.CursorBefore(rx, 1, func() (stores.Place, error) { x.hit(); return stores.Place{Key: 1}, nil })
			return err
		})
	},
	"stores.Stream.Read": func(x *thrower) error {
		s, _, begin := x.stream()
		read := s.Read
		s.Read = func(rx *db.Rx, at stores.Place, room paging.Room) (stores.Stretch[int64, int64], error) {
			x.hit()
			return read(rx, at, room)
		}
		return x.follow(s, nil, begin)
	},
	"stores.FollowAll(between)": func(x *thrower) error {
		s, between, _ := x.stream()
		return x.follow(s, func(rx *db.Rx, from, to int64) ([]stores.Head[int64], error) {
			x.hit()
			return between(rx, from, to)
		}, nil)
	},
	"stores.Pruning.Ended": func(x *thrower) error {
		return x.prune(func(p *stores.Pruning) {
			ended := p.Ended
			p.Ended = func(rx *db.Rx, scope int64, after stores.Ended, limit int) ([]stores.Ended, error) {
				x.hit()
				return ended(rx, scope, after, limit)
			}
		})
	},
	"stores.Pruning.Weigh": func(x *thrower) error {
		return x.prune(func(p *stores.Pruning) {
			p.Weigh = func(*db.Rx, stores.Ended) (int64, error) {
				x.hit()
				return 1, nil
			}
		})
	},
	"stores.Pruning.Lock": func(x *thrower) error {
		return x.prune(func(p *stores.Pruning) {
			p.Lock = func(*db.Tx, int64, []stores.Ended) (map[int64]bool, error) { x.hit(); return nil, nil }
		})
	},
	"stores.Pruning.Remove": func(x *thrower) error {
		return x.prune(func(p *stores.Pruning) {
			p.Remove = func(*db.Tx, stores.Ended, int64) (stores.Removal, int64, error) {
				x.hit()
				return stores.Removed, 1, nil
			}
		})
	},
	"db.Leased.Key": func(x *thrower) error {
		return x.renew(func(l *db.Leased) {
			l.Key = func(*db.Rx) ([]any, error) { x.hit(); return nil, nil }
		})
	},
	"db.Leased.Held": func(x *thrower) error {
		return x.renew(func(l *db.Leased) {
			l.Held = func(*db.Rx, string, func() db.BootTime) (c txn.LeaseColumns, err error) {
				x.hit()
				return c, nil
			}
		})
	},
	"db.Leased.Renew": func(x *thrower) error {
		return x.renew(func(l *db.Leased) {
			l.Renew = func(*db.Tx, func(string, ...any) (int64, error), txn.LeaseColumns, txn.LeaseColumns) error {
				x.hit()
				return nil
			}
		})
	},
	"db.Leased.Named": func(x *thrower) error {
		return x.renew(func(l *db.Leased) {
			l.Named = func(_ string, err error) error { x.hit(); return err }
		})
	},
	"db.About(hint)": func(x *thrower) error {
		_ = db.About(errors.New("no"), "throw", "thing", "1", func(error) string { x.hit(); return "" })
		return nil
	},
	"db.Exclusively(fn)": func(x *thrower) error {
		fn := func(engine.Closed) error { x.hit(); return nil }
		return db.Exclusively(x.t.Context(), "x.db", db.Options{}, fn)
	},
	"stores.Get(in)": func(x *thrower) error {
		in := func(ctx context.Context, why string, fn func(*db.Rx) error) error {
			x.hit()
			return x.d.Read(ctx, why, fn)
		}
		_, err := stores.Get(x.t.Context(), in, "get", func(*db.Rx) (int, error) { return 0, nil })
		return err
	},
	"stores.Find(in)": func(x *thrower) error {
		in := func(ctx context.Context, why string, fn func(*db.Rx) error) error {
			x.hit()
			return x.d.Read(ctx, why, fn)
		}
		_, _, err := stores.Find(x.t.Context(), in, "find", func(*db.Rx) (int, bool, error) { return 0, true, nil })
		return err
	},
	"stores.Writer.Write(fn)": func(x *thrower) error {
		return stores.On(x.d, txn.Pins).Write(x.t.Context(), "throw", func(*db.Tx) error { x.hit(); return nil })
	},
	"stores.Writer.End(fn)": func(x *thrower) error {
		return stores.On(x.d, txn.Runs).End(x.t.Context(), "throw", func(*db.Tx) error { x.hit(); return nil })
	},
	"stores.Writer.Remove(fn)": func(x *thrower) error {
		return stores.On(x.d, txn.Runs).Remove(x.t.Context(), "throw", func(*db.Tx) error { x.hit(); return nil })
	},
	"stores.TakeUp(in)": func(x *thrower) error {
		in := func(ctx context.Context, why string, fn func(*db.Tx) error) error {
			x.hit()
			return x.d.Write(ctx, why, fn)
		}
		_, err := stores.TakeUp(x.t.Context(), in, "take up", func(*db.Tx) (*int, error) { return nil, nil })
		return err
	},
	"stores.TakeUp(fn)": func(x *thrower) error {
		_, err := stores.TakeUp(x.t.Context(), x.d.Write, "take up", func(*db.Tx) (*int, error) {
			x.hit()
			return nil, nil
		})
		return err
	},
	"stores.Bind(fn)": func(x *thrower) error {
		bound := stores.Bind(func(*db.Rx, int) (int, error) { x.hit(); return 0, nil }, 1)
		_, err := stores.Get(x.t.Context(), x.d.Read, "bind", bound)
		return err
	},
	"stores.With(fn)": func(x *thrower) error {
		throw := stores.With(func(*db.Tx, int) error { x.hit(); return nil }, 1)
		return stores.On(x.d, txn.Pins).Write(x.t.Context(), "throw", throw)
	},
	"stores.Bind2(fn)": func(x *thrower) error {
		bound := stores.Bind2(func(*db.Rx, int, int) (int, error) { x.hit(); return 0, nil }, 1, 2)
		_, err := stores.Get(x.t.Context(), x.d.Read, "bind", bound)
		return err
	},
	"stores.Get(fn)": func(x *thrower) error {
		_, err := stores.Get(x.t.Context(), x.d.Read, "get", func(*db.Rx) (int, error) { x.hit(); return 0, nil })
		return err
	},
	"stores.Find(fn)": func(x *thrower) error {
		_, _, err := stores.Find(x.t.Context(), x.d.Read, "find", func(*db.Rx) (int, bool, error) {
			x.hit()
			return 0, true, nil
		})
		return err
	},
	"stores.Restate(fn)": func(x *thrower) error {
		one := func(*db.Tx, int64) (string, error) { x.hit(); return "", nil }
		_, err := stores.Restate(x.t.Context(), x.d, "restate", "SELECT 1", one)
		return err
	},
	"stores.Sweep.Page": func(x *thrower) error {
		return x.sweep(func(s *stores.Sweep[int, string]) {
			page := s.Page
			s.Page = func(rx *db.Rx, after int) ([]string, int, bool, error) { x.hit(); return page(rx, after) }
		})
	},
	"stores.Sweep.End": func(x *thrower) error {
		return x.sweep(func(s *stores.Sweep[int, string]) {
			s.End = func(*db.Tx, string) (bool, error) { x.hit(); return false, nil }
		})
	},
	"stores.FillPage(items)": func(x *thrower) error {
		items := func(yield func(int, error) bool) { x.hit(); x.items(yield) }
		_, err := stores.FillPage(x.page(), items, func(*int) int { return 1 }, func(*int) string { return "" })
		return err
	},
	"stores.FillPage(weigh)": func(x *thrower) error {
		_, err := stores.FillPage(x.page(), x.items, func(*int) int { x.hit(); return 1 }, func(*int) string {
			return ""
		})
		return err
	},
	"stores.FillPage(next)": func(x *thrower) error {
		_, err := stores.FillPage(x.page(), x.items, func(*int) int { return 1 }, func(*int) string {
			x.hit()
			return ""
		})
		return err
	},
}

var rowOfFunctions = regexp.MustCompile(
	`^\| (\x60.*) \| .* \| (raised|error|own) \| (ends|error) \| (refused|works) \|$`)

// ofServers are functions that a file never calls.
var ofServers = []string{"db.WithWaits(tell)", "db.Options.Password", "db.Options.Dial"}

func TestFunctions_ThrowAsTheTableSays(t *testing.T) {
	page, err := os.ReadFile("functions.md")
	must0(t, err)
	tried := 0
	for line := range strings.Lines(string(page)) {
		row := rowOfFunctions.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		for name := range strings.SplitSeq(row[1], ", ") {
			name = strings.Trim(name, "`")
			call := throws[name]
			if call == nil {
				if !slices.Contains(ofServers, name) {
					t.Errorf("nothing throws in %s", name)
				}
				continue
			}
			tried++
			for does, want := range map[string]string{"panic": row[2], "Goexit": row[3], "call": row[4]} {
				t.Run(name+"/"+does, func(t *testing.T) { thrown(t, does, want, call) })
			}
		}
	}
	if tried != len(throws) {
		t.Errorf("%d functions threw, of %d", tried, len(throws))
	}
}

func thrown(t *testing.T, does, want string, call func(*thrower) error) {
	x := &thrower{t: t, path: dbtest.Path(t), calls: does == "call"}
	x.d = dbtest.OpenAt(t, x.path, db.Options{
		Now:      func() time.Time { x.option("Now"); return time.Now() },
		BootTime: func() db.BootTime { x.option("BootTime"); return machine.ReadBootTime() },
		Observe:  func(db.Observation) { x.option("Observe") },
	})
	goroutines := runtime.NumGoroutine()
	var inner error
	x.does = map[string]func(){
		"panic": func() { panic("thrown") }, "Goexit": runtime.Goexit,
		"call": func() {
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			inner = x.d.Write(ctx, "inside", func(*db.Tx) error { return nil })
		},
	}[does]
	got := outcome(func() error { return call(x) })
	if !x.threw.Load() {
		t.Fatalf("it was not called: %s", got)
	}
	if does == "call" {
		as := map[string]error{"refused": db.ErrInvalid, "works": nil}[want]
		if got != "nothing" || !errors.Is(inner, as) {
			t.Errorf("%s; the call inside gave %v", got, inner)
		}
	} else if got != want {
		t.Errorf("it was %s, and the table says %s", got, want)
	}
	dbtest.Await(t, "its goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines+1 })
	if does != "call" {
		if got := outcome(func() error { return x.again() }); got != "nothing" {
			t.Errorf("then the handle: %s", got)
		}
	}
}

// again reads and writes with the handle; the test closes it, and checks the file.
func (x *thrower) again() error {
	ctx, stop := context.WithTimeout(x.t.Context(), time.Minute)
	defer stop()
	write := x.d.Write(ctx, "after", tick)
	var n int
	read := x.d.Read(ctx, "after", func(rx *db.Rx) error {
		return rx.Get(&n, `SELECT count(*) FROM scopes`)
	})
	return errors.Join(write, read)
}

// outcome says how a call ended, in the words of the table.
func outcome(call func() error) (how string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		how = "ends"
		defer func() {
			switch v := recover().(type) {
			case nil:
			case *db.Panic:
				how = "raised"
			default:
				how = "own"
				if v != "thrown" {
					panic(v)
				}
			}
		}()
		err := call()
		p, panicked := errors.AsType[*db.Panic](err)
		switch {
		case err == nil:
			how = "nothing"
		case panicked && p.Value == "thrown", strings.Contains(err.Error(), "runtime.Goexit"):
			how = "error"
		default:
			how = "another error: " + err.Error()
		}
	}()
	<-done
	return how
}

func second[T any](_ T, err error) error { return err }
