package main

import (
	"context"
	"fmt"
	"time"

	"selvedge/agents"
	"selvedge/db"
)

func registry(s *session) *agents.Registry { return agents.NewRegistry(s.db, agents.Options{}) }

func entry(id, thread string) agents.Entry {
	return agents.Entry{
		SessionID: id, Thread: thread, BaseState: "none", StartedAt: theClock(),
		Status: agents.Active,
	}
}

// agentsScript works on the registry: entries, reservations, and leases that are kept, renewed and released.
func agentsScript() script {
	return script{
		name: "agents",
		prepare: func(ctx context.Context, s *session) error {
			for _, id := range []string{"old-1", "old-2", "old-3"} {
				if err := registry(s).Save(ctx, entry(id, "old")); err != nil {
					return err
				}
			}
			return nil
		},
		setup: func(ctx context.Context, s *session) error {
			for _, name := range []string{"kept", "released"} {
				l, err := lease(ctx, s, name)
				if err != nil {
					return err
				}
				s.kept[name] = l
			}
			return nil
		},
		ops: []op{
			{
				name: "save",
				do:   func(ctx context.Context, s *session) error { return registry(s).Save(ctx, entry("new-1", "new")) },
				look: lookForAgent("new-1", func(agents.Entry) bool { return true }),
			},
			{
				name: "reserve a thread",
				do: func(ctx context.Context, s *session) error {
					_, err := registry(s).TryReserveThread(ctx, "reserved",
						func(string) (agents.Entry, error) { return entry("holder-reserved", "reserved"), nil })
					return err
				},
				look: lookForHolder("reserved"),
			},
			{
				name: "lease a thread",
				do:   func(ctx context.Context, s *session) error { _, err := lease(ctx, s, "leased"); return err },
				look: lookForHolder("leased"),
			},
			{
				name: "heartbeat",
				do:   func(ctx context.Context, s *session) error { return s.kept["kept"].(*agents.Lease).Renew(ctx) },
			},
			{
				name: "release",
				do: func(ctx context.Context, s *session) error {
					return s.kept["released"].(*agents.Lease).Release(ctx, agents.Complete)
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					_, held, err := registry(s).Reservation(ctx, "released")
					if err != nil {
						return "", err
					}
					e, ok, err := registry(s).Load(ctx, "holder-released")
					if ok && held == (e.Status == agents.Complete) {
						return trace(fmt.Sprintf("held: %t, and %s", held, e.Status)), err
					}
					return there(ok && e.Status == agents.Complete), err
				},
			},
			{
				name: "update",
				do: func(ctx context.Context, s *session) error {
					_, _, err := registry(s).UpdateEntry(ctx, "old-1", func(e *agents.Entry) { e.BaseState = "updated" })
					return err
				},
				look: lookForAgent("old-1", func(e agents.Entry) bool { return e.BaseState == "updated" }),
			},
			{
				name: "log a query",
				do: func(ctx context.Context, s *session) error {
					return registry(s).LogContextQuery(ctx, "old-2", agents.ContextQuery{})
				},
				look: lookForAgent("old-2", func(e agents.Entry) bool { return len(e.ContextQueries) == 1 }),
			},
			{
				name: "delete",
				do:   func(ctx context.Context, s *session) error { return registry(s).Delete(ctx, "old-3") },
				look: func(ctx context.Context, s *session) (trace, error) {
					_, ok, err := registry(s).Load(ctx, "old-3")
					return there(!ok), err
				},
			},
		},
		whole: func(ctx context.Context, s *session) error {
			for _, thread := range []string{"kept", "leased", "reserved", "released"} {
				if err := oneHolder(ctx, s, thread); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func lease(ctx context.Context, s *session, thread string) (*agents.Lease, error) {
	l, _, err := registry(s).TryLeaseThread(ctx, thread, db.LeaseTerms{TTL: time.Hour},
		func(string) (agents.Entry, error) {
			return entry("holder-"+thread, thread), nil
		})
	if err == nil && l == nil {
		err = fmt.Errorf("thread %s is taken", thread)
	}
	return l, err
}

func lookForHolder(thread string) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		held, ok, err := registry(s).Reservation(ctx, thread)
		if err != nil {
			return "", err
		}
		_, entered, err := registry(s).Load(ctx, "holder-"+thread)
		if ok != entered || ok && held.Holder.SessionID != "holder-"+thread {
			return trace(fmt.Sprintf("reserved: %t by %s, entered: %t", ok, held.Holder.SessionID, entered)), err
		}
		return there(ok), err
	}
}

func lookForAgent(id string, changed func(agents.Entry) bool) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		e, ok, err := registry(s).Load(ctx, id)
		return there(ok && changed(e)), err
	}
}

// oneHolder has two more callers ask for a thread: a present holder keeps it, or else the first
// of the two gets it.
func oneHolder(ctx context.Context, s *session, thread string) error {
	var got []string
	for _, id := range []string{"judge-1-" + thread, "judge-2-" + thread} {
		out, err := registry(s).TryReserveThread(ctx, thread,
			func(string) (agents.Entry, error) { return entry(id, thread), nil })
		if err != nil {
			return err
		}
		if out.Reserved != nil {
			got = append(got, id)
		}
	}
	if len(got) > 1 {
		return fmt.Errorf("thread %s was given to %q", thread, got)
	}
	return nil
}

func there(ok bool) trace {
	if ok {
		return done
	}
	return absent
}

// parts returns the trace of something of which n of all parts were found.
func parts(n, all int) trace {
	switch n {
	case 0:
		return absent
	case all:
		return done
	}
	return trace(fmt.Sprintf("%d of %d", n, all))
}
