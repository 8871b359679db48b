package live_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"selvedge/db"
	"selvedge/runs/live"
)

// An example for each call of the grammar (docs/grammar.md) that example_test.go does not have.
// docs/live.md shows them.

// completedRuns gives a store over a file with runs of session-1 that have ended: run-1, run-2 and so on.
func completedRuns(n int) (store *live.Store, done func()) {
	store, done = emptyStore()
	for i := 1; i <= n; i++ {
		id := fmt.Sprint("run-", i)
		if _, err := store.CreateRunWithID(context.Background(), id, "session-1", "fix tests"); err != nil {
			log.Fatal(err)
		}
		if _, _, err := store.RecordEvent(context.Background(), id, live.AgentStart("fix tests"),
			live.AgentEnd("done")); err != nil {
			log.Fatal(err)
		}
	}
	return store, done
}

// emptyStore gives a store over a file in memory. One on disk is opened the same way: db.Open(ctx,
// "agents.db", db.Options{}).
func emptyStore() (store *live.Store, done func()) {
	d, err := db.Open(context.Background(), ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return live.NewStore(d, live.Options{}), func() {
		if err := d.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleStore_Get() {
	ctx := context.Background()
	store, done := completedRuns(1)
	defer done()

	run, err := store.Get(ctx, "run-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.SessionID, run.Status, *run.ResultText, run.EventCount)

	_, err = store.Get(ctx, "run-9")
	fmt.Println("missing:", errors.Is(err, db.ErrNotFound))
	// Output:
	// session-1 completed done 2
	// missing: true
}

func ExampleStore_Page() {
	ctx := context.Background()
	store, done := completedRuns(3)
	defer done()

	for at := (db.At{Limit: 2}); ; {
		page, err := store.Page(ctx, live.Filter{}, at)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a page")
		for _, run := range page.Items {
			fmt.Println(run.ID)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	// Output:
	// a page
	// run-1
	// run-2
	// a page
	// run-3
}

func ExampleStore_All() {
	ctx := context.Background()
	store, done := completedRuns(2)
	defer done()

	session := "session-1"
	for run, err := range store.All(ctx,
		live.Filter{Session: &session, Statuses: []live.RunStatus{live.Completed}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(run.ID, run.Status)
	}
	// Output:
	// run-1 completed
	// run-2 completed
}

// What a person typed is the beginning of an id.
func ExampleStore_Find() {
	store, done := completedRuns(2)
	defer done()

	found, err := store.Find(context.Background(), "run-", 10)
	fmt.Println(found, err)
	// Output: [run-1 run-2] <nil>
}

// What comes from the call on, to whichever run, also to ones that don't exist yet.
func ExampleStore_FollowAll() {
	ctx := context.Background()
	store, done := completedRuns(1)
	defer done()

	news := store.FollowAll(ctx, live.Filter{})
	if _, err := store.CreateRunWithID(ctx, "run-2", "session-2", "write docs"); err != nil {
		log.Fatal(err)
	}
	if _, _, err := store.RecordEvent(ctx, "run-2", live.AgentStart("write docs")); err != nil {
		log.Fatal(err)
	}
	for item, err := range news {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Of, item.Item.Event.Type())
		break // or go on, until the context ends
	}
	// Output: run-2 agent_start
}

// The last event of a run, and what is yet to come behind it.
func ExampleStore_CursorBefore() {
	ctx := context.Background()
	store, done := completedRuns(1)
	defer done()

	cursor, err := store.CursorBefore(ctx, "run-1", 1)
	if err != nil {
		log.Fatal(err)
	}
	for item, err := range store.Follow(ctx, "run-1", cursor) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Item.Sequence, item.Item.Event.Type())
		break
	}
	// Output: 1 agent_end
}

func ExampleStore_Delete() {
	ctx := context.Background()
	store, done := completedRuns(1)
	defer done()

	fmt.Println(store.Delete(ctx, "run-1"))
	fmt.Println("missing:", errors.Is(store.Delete(ctx, "run-1"), db.ErrNotFound))
	// Output:
	// <nil>
	// missing: true
}

// First what would go, then the same in earnest. The newest run of each session stays.
func ExampleStore_Prune() {
	ctx := context.Background()
	store, done := completedRuns(3)
	defer done()

	policy := db.Policy{Count: 1, DryRun: true, Each: func(gone db.Gone) { fmt.Println(gone.Of, gone.ID) }}
	would, err := store.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("would remove", would.Removed)

	policy.DryRun, policy.Each = false, nil
	pruned, err := store.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed", pruned.Removed, "and", pruned.Remaining, "remains")
	// Output:
	// session-1 run-1
	// session-1 run-2
	// would remove 2
	// removed 2 and 1 remains
}

// What is pinned no limit takes, until it is unpinned.
func ExampleStore_Pin() {
	ctx := context.Background()
	store, done := completedRuns(3)
	defer done()

	if err := store.Pin(ctx, "run-1"); err != nil {
		log.Fatal(err)
	}
	pruned, err := store.Prune(ctx, db.Policy{Bytes: 1})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 2 1 <nil>
}

func ExampleStore_Unpin() {
	ctx := context.Background()
	store, done := completedRuns(1)
	defer done()

	if err := store.Pin(ctx, "run-1"); err != nil {
		log.Fatal(err)
	}
	if err := store.Unpin(ctx, "run-1"); err != nil {
		log.Fatal(err)
	}
	pruned, err := store.Prune(ctx, db.Policy{Bytes: 1})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 1 0 <nil>
}

// A program died while it held a run. Whoever comes next gives that back, and nothing of those that live.
func ExampleStore_Recover() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "live")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // this is an example
	leave(filepath.Join(dir, "agents.db"))

	d, err := db.Open(ctx, filepath.Join(dir, "agents.db"), db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // this is an example
	store := live.NewStore(d, live.Options{})
	freed, err := store.Recover(ctx)
	if err != nil {
		log.Fatal(err)
	}
	run, err := store.Resume(ctx, "run-1")
	fmt.Println(freed, run.ID(), err)
	// Output: 1 run-1 <nil>
}

// leave holds a run, and closes the file before the run has ended: to others that is as if the
// process were gone.
func leave(path string) {
	d, err := db.Open(context.Background(), path, db.Options{})
	if err == nil {
		_, err = live.NewStore(d, live.Options{}).Begin(context.Background(),
			live.Start{ID: "run-1", SessionID: "session-1"})
	}
	if err := errors.Join(err, d.Close()); err != nil {
		log.Fatal(err)
	}
}

// A run that is held: nobody else can hold it, and what is written under a lease that was lost is refused.
func ExampleStore_Begin() {
	ctx := context.Background()
	store, done := emptyStore()
	defer done()

	run, err := store.Begin(ctx, live.Start{ID: "run-1", SessionID: "session-1", Prompt: "fix tests"})
	if err != nil {
		log.Fatal(err)
	}
	work, stop := run.Keep(ctx) // renews the lease; work ends once it is lost
	defer stop()
	appended, err := run.Append(work, live.AgentStart("fix tests"), live.TextDelta("on it"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = store.Begin(ctx, live.Start{ID: "run-1", SessionID: "session-1"})
	fmt.Println("taken:", errors.Is(err, db.ErrConflict))
	fmt.Println(appended.First, appended.Status)
	fmt.Println("ended:", run.End(ctx, live.AgentEnd("done")))
	// Output:
	// taken: true
	// 0 executing
	// ended: <nil>
}

// One process leaves a run open, and another goes on with it.
func ExampleStore_Resume() {
	ctx := context.Background()
	store, done := emptyStore()
	defer done()
	first, err := store.Begin(ctx, live.Start{ID: "run-1", SessionID: "session-1"})
	if err != nil {
		log.Fatal(err)
	}
	if err := first.Release(ctx); err != nil {
		log.Fatal(err)
	}

	second, err := store.Resume(ctx, "run-1")
	if err != nil {
		log.Fatal(err)
	}
	_, err = first.Append(ctx, live.TextDelta("still here"))
	fmt.Println("the first has lost it:", errors.Is(err, db.ErrLeaseLost))
	_, err = second.Append(ctx, live.TextDelta("going on"))
	fmt.Println("the second writes:", err)
	// Output:
	// the first has lost it: true
	// the second writes: <nil>
}

// The epoch is what a program has to remember of a run that it holds.
func ExampleStore_Reattach() {
	ctx := context.Background()
	store, done := emptyStore()
	defer done()
	run, err := store.Begin(ctx, live.Start{ID: "run-1", SessionID: "session-1"})
	if err != nil {
		log.Fatal(err)
	}

	again, err := store.Reattach(ctx, run.ID(), run.Epoch())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Release(ctx))

	_, err = store.Reattach(ctx, run.ID(), run.Epoch())
	fmt.Println("released:", errors.Is(err, db.ErrLeaseLost))
	// Output:
	// <nil>
	// released: true
}
