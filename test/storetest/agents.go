package storetest

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
)

var ofAgents = store{"agents", slices.Concat(lists[string, agents.Filter, agents.Entry,
	agents.Entry](listedAgents).laws(),
	streams[string, agents.Change](followedAgents).laws(), holdLaws(heldAgents, "agents"),
	keeps(valuesOfAgents).laws()), heldAgents}

func nthEntry(n int) agents.Entry {
	return agents.Entry{SessionID: nth(n), Thread: "thread", Status: agents.Active}
}

func listedAgents(_ *testing.T, d *db.DB, scope string) things[string, agents.Filter, agents.Entry,
	agents.Entry] {
	r := agents.NewRegistry(d, agents.Options{Scope: scope})
	return things[string, agents.Filter, agents.Entry, agents.Entry]{
		lister: r,
		add:    func(ctx context.Context, n int) (string, error) { return nth(n), r.Save(ctx, nthEntry(n)) },
		addTx:  func(tx *db.Tx, n int) (string, error) { return nth(n), r.SaveTx(tx, nthEntry(n)) },
		name:   func(ref string) string { return ref },
		of:     func(e agents.Entry) string { return e.SessionID },
		newest: true, forgives: true,
		began: func(e agents.Entry) time.Time { return e.StartedAt }, unit: time.Nanosecond,
		end: func(ctx context.Context, ref string) error { // eight days ago, and so it has left the registry
			_, _, err := r.UpdateEntry(ctx, ref, func(e *agents.Entry) {
				ended := time.Now().Add(-8 * 24 * time.Hour)
				e.Status, e.CompletedAt = agents.Complete, &ended
			})
			return err
		},
		unlisted: true,
		prune:    r.Prune, pins: r,
		big: func(ctx context.Context, n int, text string) (string, error) {
			e := nthEntry(n)
			e.BaseState = text
			return nth(n), r.Save(ctx, e)
		},
	}
}

func followedAgents(_ *testing.T, d *db.DB, scope string) followed[string, agents.Change] {
	r := agents.NewRegistry(d, agents.Options{Scope: scope})
	return followed[string, agents.Change]{
		states: true,
		add:    func(ctx context.Context, n int) (string, error) { return nth(n), r.Save(ctx, nthEntry(n)) },
		addTx:  func(tx *db.Tx, n int) error { return r.SaveTx(tx, nthEntry(n)) },
		remove: r.Delete,
		end:    func(ctx context.Context, id string) error { return r.UpdateStatus(ctx, id, agents.Complete) },
		began:  string(agents.Active), ended: string(agents.Complete),
		append: func(tx *db.Tx, id string, texts ...string) error {
			_, _, err := r.UpdateEntryTx(tx, id, func(e *agents.Entry) { e.BaseState = texts[len(texts)-1] })
			return err
		},
		follow: r.Follow,
		followAll: func(ctx context.Context, status string) iter.Seq2[agents.Followed, error] {
			return r.FollowAll(ctx, agents.Filter{Statuses: statuses[agents.Status](status)})
		},
		before: r.CursorBefore,
		says:   func(_ context.Context, c agents.Change) string { return c.Entry.BaseState },
	}
}

func heldAgents(d *db.DB, scope string) holds {
	r := agents.NewRegistry(d, agents.Options{Scope: scope})
	terms := db.LeaseTerms{TTL: time.Hour}
	build := func(thread string) agents.Builder {
		return func(id string) (agents.Entry, error) {
			return agents.Entry{SessionID: id, Thread: thread, Status: agents.Active}, nil
		}
	}
	hold := func(l *agents.Lease) holding {
		return holding{
			l.Epoch(), func(tx *db.Tx) error { return l.LogContextQueryTx(tx, agents.ContextQuery{Path: "x"}) },
			func(ctx context.Context) error { return l.Release(ctx, agents.Complete) },
		}
	}
	held := func(l *agents.Lease, _ agents.ReserveOutcome, err error) (holding, bool, error) {
		if err != nil || l == nil {
			return holding{}, false, err
		}
		return hold(l), true, nil
	}
	holder := func(ctx context.Context, thread string) (string, error) {
		held, _, err := r.Reservation(ctx, thread)
		return held.Holder.SessionID, err
	}
	return holds{
		take: func(ctx context.Context, thread string) (holding, bool, error) {
			return held(r.TryLeaseThread(ctx, thread, terms, build(thread)))
		},
		takeTx: func(tx *db.Tx, thread string) (holding, bool, error) {
			return held(r.TryLeaseThreadTx(tx, thread, terms, build(thread)))
		},
		reattach: func(ctx context.Context, thread string, epoch int64) (holding, error) {
			id, err := holder(ctx, thread)
			if err != nil {
				return holding{}, err
			}
			l, err := r.Reattach(ctx, id, thread, epoch)
			if err != nil {
				return holding{}, err
			}
			return hold(l), nil
		},
		remove: func(ctx context.Context, thread string) error {
			id, err := holder(ctx, thread)
			if err != nil {
				return err
			}
			return r.Delete(ctx, id)
		},
		recover: r.Recover,
	}
}

func valuesOfAgents(_ *testing.T, d *db.DB, scope string) []kept {
	r := agents.NewRegistry(d, agents.Options{Scope: scope})
	return []kept{{
		name: "base state", refuses: []string{"invalid UTF-8"},
		put: func(ctx context.Context, n int, value string) error {
			e := nthEntry(n)
			e.BaseState = value
			return r.Save(ctx, e)
		},
		get: func(ctx context.Context, n int) (string, error) {
			e, err := r.Get(ctx, nth(n))
			return e.BaseState, err
		},
	}}
}
