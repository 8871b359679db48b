package workers_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"selvedge/db"
	"selvedge/workers"
)

// An example for each call of the grammar (docs/grammar.md) that example_test.go does not have.
// docs/workers.md shows them. Those of a Runtime are about its workers and its log, those of
// Runtimes about the runtimes of a scope.

// building gives the runtime "build" with workers, and the runtimes of its file.
func building(n int) (*workers.Runtime, *workers.Runtimes, func()) {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{}) // or the name of a file
	if err != nil {
		log.Fatal(err)
	}
	r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "build"})
	if err != nil {
		log.Fatal(err)
	}
	for range n {
		if _, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent(
			"fix the build")}); err != nil {
			log.Fatal(err)
		}
	}
	return r, workers.NewRuntimes(d, ""), func() {
		if err := errors.Join(r.Close(), d.Close()); err != nil {
			log.Fatal(err)
		}
	}
}

// stopped gives the same with workers that have ended.
func stopped(n int) (r *workers.Runtime, all *workers.Runtimes, done func()) {
	r, all, done = building(n)
	for w, err := range r.All(context.Background(), workers.WorkerFilter{}) {
		if err == nil {
			_, err = r.StopWorker(context.Background(), w.WorkerRef, nil)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	return r, all, done
}

func ExampleRuntime_Get() {
	ctx := context.Background()
	r, _, done := building(1)
	defer done()

	w, err := r.Get(ctx, workers.NewWorkerRef("build", "worker-00000001"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.WorkerID, w.Status)

	_, err = r.Get(ctx, workers.NewWorkerRef("build", "worker-00000009"))
	fmt.Println("missing:", errors.Is(err, db.ErrNotFound))
	// Output:
	// worker-00000001 running
	// missing: true
}

func ExampleRuntimes_Get() {
	ctx := context.Background()
	_, all, done := building(2)
	defer done()

	r, err := all.Get(ctx, "build")
	fmt.Println(r.Status, r.ActiveWorkerCount, "of", r.WorkerCount, err)
	// Output: running 2 of 2 <nil>
}

func ExampleRuntime_Page() {
	ctx := context.Background()
	r, _, done := building(3)
	defer done()

	for at := (db.At{Limit: 2}); ; {
		page, err := r.Page(ctx, workers.WorkerFilter{}, at)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a page")
		for _, w := range page.Items {
			fmt.Println(w.WorkerID)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	// Output:
	// a page
	// worker-00000001
	// worker-00000002
	// a page
	// worker-00000003
}

func ExampleRuntimes_Page() {
	_, all, done := building(0)
	defer done()

	page, err := all.Page(context.Background(), workers.RuntimeFilter{Status: workers.Running}, db.At{})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range page.Items {
		fmt.Println(r.RuntimeID, r.Status)
	}
	// Output: build running
}

func ExampleRuntime_All() {
	ctx := context.Background()
	r, _, done := building(2)
	defer done()

	if _, err := r.CancelWorker(ctx, workers.NewWorkerRef("build", "worker-00000001"), nil); err != nil {
		log.Fatal(err)
	}
	for w, err := range r.All(ctx, workers.WorkerFilter{Status: workers.Running}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(w.WorkerID, w.Status)
	}
	// Output: worker-00000002 running
}

func ExampleRuntimes_All() {
	_, all, done := building(1)
	defer done()

	for r, err := range all.All(context.Background(), workers.RuntimeFilter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.RuntimeID, r.WorkerCount)
	}
	// Output: build 1
}

// What a person typed is the beginning of an id.
func ExampleRuntime_Find() {
	r, _, done := building(2)
	defer done()

	found, err := r.Find(context.Background(), "worker-", 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range found {
		fmt.Println(w.WorkerID)
	}
	// Output:
	// worker-00000001
	// worker-00000002
}

func ExampleRuntimes_Find() {
	_, all, done := building(0)
	defer done()

	found, err := all.Find(context.Background(), "bu", 10)
	fmt.Println(found, err)
	// Output: [build] <nil>
}

// What comes from the call on to the logs of whichever runtime, also of ones that don't exist yet.
func ExampleRuntimes_FollowAll() {
	ctx := context.Background()
	r, all, done := building(1)
	defer done()

	news := all.FollowAll(ctx, workers.RuntimeFilter{})
	if _, err := r.SendInput(ctx, workers.NewWorkerRef("build", "worker-00000001"),
		workers.UserInput("begin with the linter")); err != nil {
		log.Fatal(err)
	}
	for item, err := range news {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Of, item.Item.ID, item.Item.Kind)
		break // or go on, until the context ends
	}
	// Output: build 3 worker_input_accepted
}

// The last event of a log, and what is yet to come behind it.
func ExampleRuntime_CursorBefore() {
	ctx := context.Background()
	r, _, done := building(2)
	defer done()

	cursor, err := r.CursorBefore(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for item, err := range r.Follow(ctx, cursor) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Item.ID, item.Item.Kind)
		break
	}
	// Output: 3 worker_created
}

// A worker goes with its transcript; what the log tells of it stays.
func ExampleRuntime_Delete() {
	ctx := context.Background()
	r, _, done := building(1)
	defer done()

	w := workers.NewWorkerRef("build", "worker-00000001")
	fmt.Println(r.Delete(ctx, w))
	fmt.Println("missing:", errors.Is(r.Delete(ctx, w), db.ErrNotFound))
	// Output:
	// <nil>
	// missing: true
}

// A runtime goes with all that it has.
func ExampleRuntimes_Delete() {
	ctx := context.Background()
	_, all, done := building(1)
	defer done()

	fmt.Println(all.Delete(ctx, "build"))
	_, err := all.Get(ctx, "build")
	fmt.Println("gone:", errors.Is(err, db.ErrNotFound))
	// Output:
	// <nil>
	// gone: true
}

// Workers that have ended: first what would go, then the same in earnest. The newest of each runtime stays.
func ExampleRuntimes_Prune() {
	ctx := context.Background()
	_, all, done := stopped(3)
	defer done()

	policy := db.Policy{Count: 1, DryRun: true, Each: func(gone db.Gone) { fmt.Println(gone.Of, gone.ID) }}
	would, err := all.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("would remove", would.Removed)

	policy.DryRun, policy.Each = false, nil
	pruned, err := all.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed", pruned.Removed, "and", pruned.Remaining, "remains")
	// Output:
	// build worker-00000001
	// build worker-00000002
	// would remove 2
	// removed 2 and 1 remains
}

// What is pinned no limit takes, until it is unpinned.
func ExampleRuntimes_Pin() {
	ctx := context.Background()
	_, all, done := stopped(3)
	defer done()

	if err := all.Pin(ctx, workers.NewWorkerRef("build", "worker-00000002")); err != nil {
		log.Fatal(err)
	}
	pruned, err := all.Prune(ctx, db.Policy{Count: 1})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 1 2 <nil>
}

func ExampleRuntimes_Unpin() {
	ctx := context.Background()
	_, all, done := stopped(3)
	defer done()

	w := workers.NewWorkerRef("build", "worker-00000002")
	if err := all.Pin(ctx, w); err != nil {
		log.Fatal(err)
	}
	if err := all.Unpin(ctx, w); err != nil {
		log.Fatal(err)
	}
	pruned, err := all.Prune(ctx, db.Policy{Count: 1})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 2 1 <nil>
}
