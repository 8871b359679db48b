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

// open gives a file for an example, and what removes it.
func open() (d *db.DB, done func()) {
	dir, err := os.MkdirTemp("", "agents")
	if err != nil {
		log.Fatal(err)
	}
	d, err = db.Open(context.Background(), filepath.Join(dir, "agents.db"), db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return d, func() {
		if err := errors.Join(d.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleRegistry_TryReserveThread() {
	d, done := open()
	defer done()
	registry := agents.NewRegistry(d, agents.Options{})

	pid := uint32(os.Getpid())
	build := func(id string) (agents.Entry, error) {
		return agents.Entry{
			SessionID: id, Thread: "feature/auth", BaseState: "hd-0123", StartedAt: time.Now(), Status: agents.Active,
			PID: &pid, BootID: agents.CurrentBootID(),
		}, nil
	}
	first, err := registry.TryReserveThread(context.Background(), "feature/auth", build)
	if err != nil {
		log.Fatal(err)
	}
	second, err := registry.TryReserveThread(context.Background(), "feature/auth", build)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first has it:", first.Reserved != nil)
	fmt.Println("the second is told whose it is:", second.LiveOwner.SessionID == first.Reserved.SessionID)
	// Output:
	// the first has it: true
	// the second is told whose it is: true
}

func ExampleLease() {
	d, done := open()
	defer done()
	ctx, registry := context.Background(), agents.NewRegistry(d, agents.Options{})

	lease, _, err := registry.TryLeaseThread(ctx, "feature/auth", db.LeaseTerms{TTL: time.Minute},
		func(id string) (agents.Entry, error) {
			return agents.Entry{
				SessionID: id, Thread: "feature/auth", BaseState: "hd-0123", StartedAt: time.Now(),
				Status: agents.Active,
			}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	// What is done here is done only if the lease still holds.
	err = lease.Hold(ctx, "work", func(*db.Tx) error {
		fmt.Println("working")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// An operator takes the thread away.
	if err := registry.UpdateStatus(ctx, lease.SessionID(), agents.Abandoned); err != nil {
		log.Fatal(err)
	}
	fmt.Println("lost:", errors.Is(lease.Renew(ctx), db.ErrLeaseLost))
	// Output:
	// working
	// lost: true
}

func ExampleRegistry_All() {
	d, done := open()
	defer done()
	ctx, registry := context.Background(), agents.NewRegistry(d, agents.Options{})
	for i, id := range []string{"agent-a", "agent-b"} {
		err := registry.Save(ctx, agents.Entry{
			SessionID: id, Thread: "main", BaseState: "hd-0123", StartedAt: time.Unix(int64(i), 0),
			Status: agents.Active,
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	for e, err := range registry.All(ctx, agents.Filter{Statuses: []agents.Status{agents.Active}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.SessionID, e.Thread)
	}
	// Output:
	// agent-b main
	// agent-a main
}
