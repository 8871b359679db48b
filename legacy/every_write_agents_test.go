package legacy

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/replay"
)

func oldAgents(t *testing.T, dir string) any {
	var m replay.Agents
	for path, text := range filesBelow(t, dir) {
		name, ok := strings.CutSuffix(filepath.Base(path), ".toml")
		if !ok {
			continue
		}
		entry := map[string]any{}
		if err := toml.Unmarshal([]byte(text), &entry); err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		m.Write(name, jsonOf(entry).(map[string]any), "")
	}
	out := m.Call(&replay.Call{Op: "list"}, backAt, "")
	if out.Err != nil {
		t.Fatal(*out.Err)
	}
	return bySession(jsonOf(out.OK))
}

func ourAgents(ctx context.Context, d *db.DB) (any, error) {
	list, err := registryOf(d).List(ctx)
	return bySession(jsonOf(list)), err
}

// bySession has the entries by their ids, since a folder keeps no order of those that began together.
func bySession(list any) any {
	entries := map[string]any{}
	for _, e := range list.([]any) {
		entry := e.(map[string]any)
		entries[entry["session_id"].(string)] = entry
	}
	return entries
}

func agentWrites(s *storeFile) []publicWrite {
	var lease *agents.Lease
	dead := uint32(1<<22 + 1)
	entry := func(id, thread string) agents.Entry {
		return agents.Entry{
			SessionID: id, Thread: thread, BaseState: "b", StartedAt: s.clock.Now(),
			Status: agents.Active,
		}
	}
	build := func(id string) agents.Builder {
		return func(string) (agents.Entry, error) { return entry(id, id), nil }
	}
	killed := func(id string) agents.Entry {
		e := entry(id, id)
		e.PID, e.BootID = &dead, agents.CurrentBootID()
		return e
	}
	save := func(e func() agents.Entry) func(ctx context.Context) error {
		return func(ctx context.Context) error { return registryOf(s.d).Save(ctx, e()) }
	}
	const moved = "agents/moved.toml"
	return []publicWrite{
		{name: "Save", touches: moved, do: save(func() agents.Entry { return entry("moved", "main") })},
		{name: "UpdateEntry", touches: moved, says: `base_state = "é"`, do: func(ctx context.Context) error {
			_, _, err := registryOf(s.d).UpdateEntry(ctx, "moved", func(e *agents.Entry) { e.BaseState = "é" })
			return err
		}},
		{name: "LogContextQuery", touches: moved, do: func(ctx context.Context) error {
			return registryOf(s.d).LogContextQuery(ctx, "moved",
				agents.ContextQuery{Path: "p", QueriedAt: s.clock.Now()})
		}},
		{
			name: "UpdateStatus", touches: moved, says: `status = "complete"`,
			do: func(ctx context.Context) error {
				return registryOf(s.d).UpdateStatus(ctx, "moved",
					agents.Complete)
			},
		},
		{name: "CreateGeneratedEntry", touches: "agents/made.toml", do: func(ctx context.Context) error {
			_, err := registryOf(s.d).CreateGeneratedEntry(ctx, build("made"))
			return err
		}},
		{name: "CreateGeneratedEntryForThread", touches: "agents/made-2.toml", do: func(ctx context.Context) error {
			_, err := registryOf(s.d).CreateGeneratedEntryForThread(ctx, "made-2", build("made-2"))
			return err
		}},
		{name: "FindOrCreateActiveEntry", touches: "agents/sought.toml", do: func(ctx context.Context) error {
			_, _, err := registryOf(s.d).FindOrCreateActiveEntry(ctx, func(agents.Entry) bool { return false },
				func(*agents.Entry) {}, build("sought"))
			return err
		}},
		{name: "TryReserveThread", touches: "agents/reserved.toml", do: func(ctx context.Context) error {
			_, err := registryOf(s.d).TryReserveThread(ctx, "reserved", build("reserved"))
			return err
		}},
		{name: "TryLeaseThread", touches: "agents/leased.toml", do: func(ctx context.Context) (err error) {
			lease, _, err = registryOf(s.d).TryLeaseThread(ctx, "leased", db.LeaseTerms{TTL: time.Hour},
				build("leased"))
			return err
		}},
		{
			name: "Lease.Renew", touches: "agents/leased.toml", says: `heartbeat_at = "2026-11-01T12:00:01Z"`,
			do: func(ctx context.Context) error {
				s.clock.Advance(time.Second)
				return lease.Renew(ctx)
			},
		},
		{
			name: "Lease.Update", touches: "agents/leased.toml", says: `base_state = "c"`,
			do: func(ctx context.Context) error {
				_, err := lease.Update(ctx, func(e *agents.Entry) { e.BaseState = "c" })
				return err
			},
		},
		{
			name: "Lease.LogContextQuery", touches: "agents/leased.toml", says: `path = "q"`,
			do: func(ctx context.Context) error {
				return lease.LogContextQuery(ctx, agents.ContextQuery{Path: "q", QueriedAt: s.clock.Now()})
			},
		},
		{name: "Lease.Hold", silent: nested, do: func(ctx context.Context) error {
			return lease.Hold(ctx, "look", func(*db.Tx) error { return nil })
		}},
		{
			name: "Lease.Release", touches: "agents/leased.toml", says: `status = "merged"`,
			do: func(ctx context.Context) error { return lease.Release(ctx, agents.Merged) },
		},
		{
			name: "Save of a dead one", touches: "agents/dead.toml",
			do: save(func() agents.Entry { return killed("dead") }),
		},
		{
			name: "ReapDeadForThread", touches: "agents/dead.toml",
			do: func(ctx context.Context) error { return one(registryOf(s.d).ReapDeadForThread(ctx, "dead")) },
		},
		{
			name: "Save of the next", touches: "agents/dead-2.toml",
			do: save(func() agents.Entry { return killed("dead-2") }),
		},
		{
			name: "ReapDead", touches: "agents/",
			do: func(ctx context.Context) error { return some(registryOf(s.d).ReapDead(ctx)) },
		},
		{name: "a process dies at work", touches: "agents/lost.toml", do: s.diesAtWork(Agents)},
		{
			name: "Recover", touches: "agents/lost.toml",
			do: func(ctx context.Context) error { return one(registryOf(s.d).Recover(ctx)) },
		},
		{
			name: "Delete", touches: "agents/made.toml",
			do: func(ctx context.Context) error { return registryOf(s.d).Delete(ctx, "made") },
		},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error {
			return registryOf(s.d).Pin(ctx,
				"moved")
		}},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error {
			return registryOf(s.d).Unpin(ctx,
				"moved")
		}},
		{name: "Prune", silent: aside, do: func(ctx context.Context) error {
			pruned, err := registryOf(s.d).Prune(ctx, db.Policy{Age: db.KeepNone})
			return some(pruned.Removed, err)
		}},
		{name: "Save of one that ended long ago", silent: aside, do: save(func() agents.Entry {
			e, then := entry("old", "old"), s.clock.Now().Add(-30*24*time.Hour)
			e.Status, e.StartedAt, e.CompletedAt = agents.Complete, then, &then
			return e
		})},
	}
}
