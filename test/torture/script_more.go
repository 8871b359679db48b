package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/maintenance"
	"selvedge/runs/live"
	"selvedge/workers"
)

// deadPID is above every process number that Linux assigns.
var deadPID = uint32(1<<22 + 1)

// deadEntry is an entry whose process is gone.
func deadEntry(id, thread string) agents.Entry {
	e := entry(id, thread)
	e.PID, e.BootID = &deadPID, agents.CurrentBootID()
	return e
}

// agentsMoreScript makes the rarer calls of the registry: those that look first, those of a lease,
// and what tidies up.
func agentsMoreScript() script {
	old := theClock().Add(-10 * 24 * time.Hour)
	made := func(state string) func(context.Context, *session) (trace, error) {
		return func(ctx context.Context, s *session) (trace, error) {
			list, err := registry(s).List(ctx)
			return parts(len(slices.DeleteFunc(list, func(e agents.Entry) bool { return e.BaseState != state })), 1),
				err
		}
	}
	build := func(thread, state string) agents.Builder {
		return func(id string) (agents.Entry, error) {
			e := entry(id, thread)
			e.BaseState = state
			return e, nil
		}
	}
	abandoned := func(e agents.Entry) bool { return e.Status == agents.Abandoned }
	kept := func(s *session) *agents.Lease { return s.kept["kept"].(*agents.Lease) }
	return script{
		name: "agents-more",
		prepare: func(ctx context.Context, s *session) error {
			if err := otherAgents(s).Save(ctx, deadEntry("dead-1", "dead-1")); err != nil {
				return err
			}
			ended := entry("ended", "ended")
			ended.Status, ended.StartedAt, ended.CompletedAt = agents.Complete, old, &old
			if err := otherAgents(s).Save(ctx, ended); err != nil {
				return err
			}
			if _, err := otherAgents(s).List(ctx); err != nil { // puts the one that ended aside
				return err
			}
			list := []agents.Entry{
				entry("alive", "alive"), deadEntry("dead-2", "dead-2"),
				entry("pinned", "pinned"), entry("unpinned", "unpinned"),
			}
			gone := entry("gone", "gone")
			gone.Status, gone.StartedAt, gone.CompletedAt = agents.Complete, old, &old
			for _, e := range append(list, gone) {
				if err := registry(s).Save(ctx, e); err != nil {
					return err
				}
			}
			_, err := registry(s).List(ctx) // puts the one that is gone aside
			return errors.Join(err, registry(s).Pin(ctx, "unpinned"))
		},
		setup: func(ctx context.Context, s *session) (err error) {
			s.kept["kept"], err = lease(ctx, s, "kept")
			return err
		},
		ops: []op{
			{
				name: "create",
				do: func(ctx context.Context, s *session) error {
					_, err := registry(s).CreateGeneratedEntry(ctx, build("free", "created"))
					return err
				},
				look: made("created"),
			},
			{
				name: "create for a thread",
				do: func(ctx context.Context, s *session) error {
					_, err := registry(s).CreateGeneratedEntryForThread(ctx, "taken", build("taken", "for a thread"))
					return err
				},
				look: made("for a thread"),
			},
			{
				name: "find or create",
				do: func(ctx context.Context, s *session) error {
					_, _, err := registry(s).FindOrCreateActiveEntry(ctx, func(agents.Entry) bool { return false },
						func(*agents.Entry) {}, build("sought", "sought"))
					return err
				},
				look: made("sought"),
			},
			{
				name: "update under a lease",
				do: func(ctx context.Context, s *session) error {
					_, err := kept(s).Update(ctx, func(e *agents.Entry) { e.BaseState = "updated" })
					return err
				},
				look: lookForAgent("holder-kept", func(e agents.Entry) bool { return e.BaseState == "updated" }),
			},
			{
				name: "log a query under a lease",
				do: func(ctx context.Context, s *session) error {
					return kept(s).LogContextQuery(ctx, agents.ContextQuery{Path: "main.go"})
				},
				look: lookForAgent("holder-kept", func(e agents.Entry) bool { return len(e.ContextQueries) == 1 }),
			},
			{
				name: "work under a lease",
				do: func(ctx context.Context, s *session) error {
					return kept(s).Hold(ctx, "work", func(tx *db.Tx) error {
						_,
							err := tx.Store().Scope("made under a lease")
						return err
					})
				},
				look: lookForScope("made under a lease"),
			},
			{
				name: "end",
				do: func(ctx context.Context, s *session) error {
					return registry(s).UpdateStatus(ctx, "alive", agents.Complete)
				},
				look: lookForAgent("alive", func(e agents.Entry) bool { return e.Status == agents.Complete }),
			},
			{
				name: "reap a thread",
				do: func(ctx context.Context, s *session) error {
					_, err := otherAgents(s).ReapDeadForThread(ctx, "dead-1") // the next reaps all of its scope
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					e, ok, err := otherAgents(s).Load(ctx, "dead-1")
					return there(ok && abandoned(e)), err
				},
			},
			{
				name: "reap",
				do:   func(ctx context.Context, s *session) error { _, err := registry(s).ReapDead(ctx); return err },
				look: lookForAgent("dead-2", abandoned),
			},
			// The calls before it have already forgotten the dead owners: it must do no harm.
			{name: "forget dead owners", do: func(ctx context.Context,
				s *session,
			) error {
				return stores.ForgetDeadOwners(ctx, s.db)
			}},
			{
				name: "prune",
				do: func(ctx context.Context, s *session) error {
					_, err := otherAgents(s).Prune(ctx, db.Policy{Age: time.Hour})
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					n, err := countAside(ctx, s, "others")
					return parts(1-n, 1), err
				},
			},
			{
				name: "pin an agent",
				do:   func(ctx context.Context, s *session) error { return registry(s).Pin(ctx, "pinned") },
				look: lookForPin(maintenance.StoreAgents, "pinned", true),
			},
			{
				name: "unpin an agent",
				do:   func(ctx context.Context, s *session) error { return registry(s).Unpin(ctx, "unpinned") },
				look: lookForPin(maintenance.StoreAgents, "unpinned", false),
			},
		},
	}
}

func otherAgents(s *session) *agents.Registry {
	return agents.NewRegistry(s.db, agents.Options{Scope: "others"})
}

// countAside tells how many agents of a scope have left the registry and are still there.
func countAside(ctx context.Context, s *session, scope string) (n int, err error) {
	err = s.db.Read(ctx, "count", func(rx *db.Rx) error {
		return rx.Get(&n, `SELECT count(*) FROM agents JOIN scopes ON scopes.id = agents.scope
			WHERE scopes.name = ? AND put_aside_at IS NOT NULL`, scope)
	})
	return n, err
}

// lookForScope looks for a scope: the smallest thing that a transaction of one's own can make.
func lookForScope(name string) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (what trace, err error) {
		err = s.db.Read(ctx, "look", func(rx *db.Rx) error {
			_, ok, err := rx.Store().Scope(name)
			what = there(ok)
			return err
		})
		return what, err
	}
}

// sundryScript makes the rarer calls of the other stores.
func sundryScript() script {
	document := func() []byte {
		text, err := workflow("document", "as it was written").Document()
		if err != nil {
			panic(err)
		}
		return text
	}
	runtime := func(ctx context.Context, s *session, mustExist bool) (*workers.Runtime, error) {
		return workers.Open(ctx, s.db, workers.RuntimeOptions{RuntimeID: "new", MustExist: mustExist})
	}
	gone := func(id string) func(context.Context, *session) (trace, error) {
		return func(ctx context.Context, s *session) (trace, error) {
			list, err := ofRun(ctx, paused(s), id)
			return there(len(list) == 0), err
		}
	}
	return script{
		name: "sundry",
		prepare: func(ctx context.Context, s *session) error {
			for _, id := range []string{"live-1", "live-2", "live-3"} {
				if _, err := liveRuns(s).CreateRunWithID(ctx, id, "session", "be tortured"); err != nil {
					return err
				}
			}
			if err := eventsOp("live-2", "old", 3, 100).do(ctx, s); err != nil {
				return err
			}
			return start(ctx, s, "orphan")
		},
		setup: func(ctx context.Context, s *session) error {
			for _, id := range []string{"completed", "deleted"} {
				if err := paused(s).Save(ctx, workflow(id, "first")); err != nil {
					return err
				}
			}
			_, ok, err := paused(s).Claim(ctx, "completed")
			if err == nil && !ok {
				err = fmt.Errorf("it is taken")
			}
			return err
		},
		ops: []op{
			{
				name: "adopt",
				do:   func(ctx context.Context, s *session) error { _, err := traces(s).AdoptOrphans(ctx); return err },
				look: endOp("orphan").look,
			},
			{
				name: "create a live run",
				do: func(ctx context.Context, s *session) error {
					_, err := liveRuns(s).CreateRun(ctx, "session-new", "be tortured")
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					list, err := liveRuns(s).List(ctx)
					return parts(len(slices.DeleteFunc(list,
						func(r live.RunSnapshot) bool { return r.SessionID != "session-new" })), 1), err
				},
			},
			{
				name: "record an event",
				do: func(ctx context.Context, s *session) error {
					_, _, err := liveRuns(s).RecordEvent(ctx, "live-1", live.TextDelta("single"))
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					list, err := liveRuns(s).Events(ctx, "live-1")
					return parts(len(list), 1), err
				},
			},
			{
				name: "delete a live run",
				do:   func(ctx context.Context, s *session) error { return liveRuns(s).Delete(ctx, "live-2") },
				look: func(ctx context.Context, s *session) (trace, error) {
					_, found, err := liveRuns(s).Snapshot(ctx, "live-2")
					return there(!found), err
				},
			},
			{
				name: "save a document",
				do: func(ctx context.Context, s *session) error {
					return paused(s).SaveDocument(ctx, "document", document())
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					text, ok, err := paused(s).LoadDocument(ctx, "document")
					if ok && string(text) != string(document()) {
						return "another document", err
					}
					return there(ok), err
				},
			},
			{
				name: "complete by id",
				do:   func(ctx context.Context, s *session) error { return paused(s).Complete(ctx, "completed") },
				look: gone("completed"),
			},
			{
				name: "delete a checkpoint",
				do: func(ctx context.Context, s *session) error {
					return paused(s).Delete(ctx, checkpoints.Ref{RunID: "deleted"})
				},
				look: gone("deleted"),
			},
			{name: "recover agents", do: func(ctx context.Context, s *session) error {
				_,
					err := registry(s).Recover(ctx)
				return err
			}},
			{name: "repair", do: func(ctx context.Context, s *session) error {
				_,
					err := maintenance.Repair(ctx, s.db)
				return err
			}},
			{
				name: "open a runtime",
				do:   func(ctx context.Context, s *session) error { _, err := runtime(ctx, s, false); return err },
				look: func(ctx context.Context, s *session) (trace, error) {
					n := 0
					for r, err := range workers.NewRuntimes(s.db, "").All(ctx, workers.RuntimeFilter{}) {
						if err != nil {
							return "", err
						}
						if r.RuntimeID == "new" {
							n++
						}
					}
					return parts(n, 1), nil
				},
			},
		},
	}
}
