package agents_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"selvedge/agents"
	"selvedge/db"
)

// An example for each call of the grammar (docs/grammar.md) that example_test.go does not have.
// docs/agents.md shows them.

var nine = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

// atWork gives a registry with active agents on threads of their own: agent-a since nine o'clock,
// agent-b an hour later, and so on.
func atWork(n int) (registry *agents.Registry, done func()) {
	d, done := open()
	registry = agents.NewRegistry(d, agents.Options{})
	for i := range n {
		e := agents.Entry{
			SessionID: fmt.Sprintf("agent-%c", 'a'+i), Thread: fmt.Sprintf("feature/%c", 'a'+i), BaseState: "hd-0123",
			StartedAt: nine.Add(time.Duration(i) * time.Hour), Status: agents.Active,
		}
		if err := registry.Save(context.Background(), e); err != nil {
			log.Fatal(err)
		}
	}
	return registry, done
}

// ended gives a registry with agents that completed their work long ago.
func ended(n int) (registry *agents.Registry, done func()) {
	registry, done = atWork(n)
	for i := range n {
		_, _, err := registry.UpdateEntry(context.Background(), fmt.Sprintf("agent-%c", 'a'+i),
			func(e *agents.Entry) {
				at := e.StartedAt.Add(time.Minute)
				e.Status, e.CompletedAt = agents.Complete, &at
			})
		if err != nil {
			log.Fatal(err)
		}
	}
	return registry, done
}

func ExampleRegistry_Get() {
	ctx := context.Background()
	registry, done := atWork(1)
	defer done()

	agent, err := registry.Get(ctx, "agent-a")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(agent.Thread, agent.Status, agent.StartedAt.Format("15:04"))

	_, err = registry.Get(ctx, "agent-z")
	fmt.Println("missing:", errors.Is(err, db.ErrNotFound))
	// Output:
	// feature/a active 09:00
	// missing: true
}

func ExampleRegistry_Page() {
	ctx := context.Background()
	registry, done := atWork(3)
	defer done()

	for at := (db.At{Limit: 2}); ; {
		page, err := registry.Page(ctx, agents.Filter{}, at)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a page")
		for _, agent := range page.Items {
			fmt.Println(agent.SessionID)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	// Output:
	// a page
	// agent-c
	// agent-b
	// a page
	// agent-a
}

// What a person typed is the beginning of an id.
func ExampleRegistry_Find() {
	registry, done := atWork(2)
	defer done()

	found, err := registry.Find(context.Background(), "agent-", 10)
	fmt.Println(found, err)
	// Output: [agent-a agent-b] <nil>
}

// An agent as it stands, and then each time that its entry is written, until somebody has had enough.
func ExampleRegistry_Follow() {
	ctx := context.Background()
	registry, done := atWork(1)
	defer done()
	if err := registry.UpdateStatus(ctx, "agent-a", agents.Complete); err != nil {
		log.Fatal(err)
	}

	for item, err := range registry.Follow(ctx, "agent-a", "") {
		if err != nil {
			log.Fatal(err)
		}
		if item.What == db.StatusChanged {
			fmt.Println("now", item.Status)
			break
		}
		fmt.Println(item.Item.Entry.SessionID, item.Item.Entry.Thread)
	}
	// Output:
	// agent-a feature/a
	// now complete
}

// What comes from the call on, to whichever agent, also to ones that don't exist yet.
func ExampleRegistry_FollowAll() {
	ctx := context.Background()
	registry, done := atWork(2)
	defer done()

	news := registry.FollowAll(ctx, agents.Filter{})
	if err := registry.UpdateStatus(ctx, "agent-b", agents.Abandoned); err != nil {
		log.Fatal(err)
	}
	for item, err := range news {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Of, item.Item.Entry.Status)
		break // or go on, until the context ends
	}
	// Output: agent-b abandoned
}

// From the present state on, which comes first; for 0 instead of 1, only what is yet to come.
func ExampleRegistry_CursorBefore() {
	ctx := context.Background()
	registry, done := atWork(1)
	defer done()

	cursor, err := registry.CursorBefore(ctx, "agent-a", 1)
	if err != nil {
		log.Fatal(err)
	}
	for item, err := range registry.Follow(ctx, "agent-a", cursor) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Of, item.Item.Entry.Status)
		break
	}
	// Output: agent-a active
}

// A missing agent is fine, as it was to the old registry.
func ExampleRegistry_Delete() {
	ctx := context.Background()
	registry, done := atWork(1)
	defer done()

	fmt.Println(registry.Delete(ctx, "agent-a"), registry.Delete(ctx, "agent-a"))
	// Output: <nil> <nil>
}

// Agents leave the registry seven days after their end. First what would go then, and then the same
// in earnest.
func ExampleRegistry_Prune() {
	ctx := context.Background()
	registry, done := ended(3)
	defer done()

	policy := db.Policy{
		Age: 30 * 24 * time.Hour, DryRun: true,
		Each: func(gone db.Gone) { fmt.Println(gone.Of, gone.ID) },
	}
	would, err := registry.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("would remove", would.Removed)

	policy.DryRun, policy.Each = false, nil
	pruned, err := registry.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed", pruned.Removed, "and", pruned.Remaining, "remain")
	// Output:
	// feature/a agent-a
	// feature/b agent-b
	// feature/c agent-c
	// would remove 3
	// removed 3 and 0 remain
}

// What is pinned no limit takes, until it is unpinned.
func ExampleRegistry_Pin() {
	ctx := context.Background()
	registry, done := ended(3)
	defer done()

	if err := registry.Pin(ctx, "agent-a"); err != nil {
		log.Fatal(err)
	}
	pruned, err := registry.Prune(ctx, db.Policy{Bytes: 1})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 2 1 <nil>
}

func ExampleRegistry_Unpin() {
	ctx := context.Background()
	registry, done := ended(1)
	defer done()

	if err := registry.Pin(ctx, "agent-a"); err != nil {
		log.Fatal(err)
	}
	if err := registry.Unpin(ctx, "agent-a"); err != nil {
		log.Fatal(err)
	}
	pruned, err := registry.Prune(ctx, db.Policy{Bytes: 1})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 1 0 <nil>
}

func leaseOf(ctx context.Context, registry *agents.Registry, o db.LeaseTerms) *agents.Lease {
	lease, _, err := registry.TryLeaseThread(ctx, "feature/auth", o, func(id string) (agents.Entry, error) {
		return agents.Entry{
			SessionID: id, Thread: "feature/auth", BaseState: "hd-0123", StartedAt: nine,
			Status: agents.Active,
		}, nil
	})
	if err != nil || lease == nil {
		log.Fatal(lease, err)
	}
	return lease
}

// A program died while it had a thread. The next one abandons its agent, and none of those that live.
func ExampleRegistry_Recover() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "agents")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // this is an example
	path := filepath.Join(dir, "agents.db")
	leave(path)

	d, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // this is an example
	registry := agents.NewRegistry(d, agents.Options{})
	abandoned, err := registry.Recover(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, held, err := registry.Reservation(ctx, "feature/auth")
	fmt.Println(abandoned, held, err)
	// Output: 1 false <nil>
}

// leave takes a thread, and closes the file without giving it back: to others that is as if the
// process were gone.
func leave(path string) {
	d, err := db.Open(context.Background(), path, db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	leaseOf(context.Background(), agents.NewRegistry(d, agents.Options{}), db.LeaseTerms{TTL: time.Hour})
	if err := d.Close(); err != nil {
		log.Fatal(err)
	}
}

// One program takes a thread for another and leaves; the other goes on under the lease by its epoch.
func ExampleRegistry_Reattach() {
	ctx := context.Background()
	registry, done := atWork(0)
	defer done()
	lease := leaseOf(ctx, registry, db.LeaseTerms{TTL: time.Hour, Detached: true})

	again, err := registry.Reattach(ctx, lease.SessionID(), lease.Thread(), lease.Epoch())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Renew(ctx))
	fmt.Println(again.Release(ctx, agents.Complete))

	_, err = registry.Reattach(ctx, lease.SessionID(), lease.Thread(), lease.Epoch())
	fmt.Println("released:", errors.Is(err, db.ErrLeaseLost))
	// Output:
	// <nil>
	// <nil>
	// released: true
}
