package checkpoints_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"selvedge/checkpoints"
	"selvedge/db"
)

// An example for each call of the grammar (docs/grammar.md). docs/checkpoints.md shows them.

// waiting gives a store in which runs wait for a person: deploy-1, deploy-2 and so on.
func waiting(n int) (store *checkpoints.Store, done func()) {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{}) // or the name of a file
	if err != nil {
		log.Fatal(err)
	}
	store = checkpoints.NewStore(d, checkpoints.Options{})
	for i := 1; i <= n; i++ {
		if err := store.Save(ctx, sample(fmt.Sprint("deploy-", i))); err != nil {
			log.Fatal(err)
		}
	}
	return store, func() {
		if err := d.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

// completed gives a store in which runs waited, were claimed and completed.
func completed(n int) (store *checkpoints.Store, done func()) {
	store, done = waiting(n)
	for i := 1; i <= n; i++ {
		claim := claimOf(store, fmt.Sprint("deploy-", i))
		if err := claim.Complete(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	return store, done
}

func claimOf(store *checkpoints.Store, run string) *checkpoints.Claim {
	claim, ok, err := store.Claim(context.Background(), run)
	if err != nil || !ok {
		log.Fatal(ok, err)
	}
	return claim
}

func ExampleStore_Get() {
	ctx := context.Background()
	store, done := waiting(1)
	defer done()

	paused, err := store.Get(ctx, checkpoints.Ref{RunID: "deploy-1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(paused.State, paused.PausedStageID, paused.Prompt)

	_, err = store.Get(ctx, checkpoints.Ref{RunID: "deploy-9"})
	fmt.Println("missing:", errors.Is(err, db.ErrNotFound))
	// Output:
	// paused gate approve?
	// missing: true
}

func ExampleStore_Page() {
	ctx := context.Background()
	store, done := waiting(3)
	defer done()

	for at := (db.At{Limit: 2}); ; {
		page, err := store.Page(ctx, checkpoints.Filter{}, at)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a page")
		for _, paused := range page.Items {
			fmt.Println(paused.RunID)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	// Output:
	// a page
	// deploy-1
	// deploy-2
	// a page
	// deploy-3
}

func ExampleStore_All() {
	store, done := waiting(2)
	defer done()

	claimOf(store, "deploy-1")
	for paused, err := range store.All(context.Background(), checkpoints.Filter{State: checkpoints.Paused}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(paused.RunID, paused.State)
	}
	// Output: deploy-2 paused
}

// What a person typed is the beginning of an id.
func ExampleStore_Find() {
	store, done := waiting(2)
	defer done()

	found, err := store.Find(context.Background(), "deploy-", 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, ref := range found {
		fmt.Println(ref.RunID, ref.State)
	}
	// Output:
	// deploy-1 paused
	// deploy-2 paused
}

// How a checkpoint stands, and then each change.
func ExampleStore_Follow() {
	store, done := waiting(1)
	defer done()

	for item, err := range store.Follow(context.Background(), checkpoints.Ref{RunID: "deploy-1"}, "") {
		if err != nil {
			log.Fatal(err)
		}
		if item.What == db.StatusChanged {
			fmt.Println("now", item.Status)
			continue
		}
		fmt.Println(item.Of, item.Item.State)
		if item.Item.State == checkpoints.Claimed {
			break
		}
		claimOf(store, "deploy-1") // by whichever process
	}
	// Output:
	// deploy-1 paused
	// deploy-1 claimed
}

// What comes from the call on, to whichever run, also to ones that don't wait yet.
func ExampleStore_FollowAll() {
	ctx := context.Background()
	store, done := waiting(1)
	defer done()

	news := store.FollowAll(ctx, checkpoints.Filter{})
	if err := store.Save(ctx, sample("deploy-2")); err != nil {
		log.Fatal(err)
	}
	for item, err := range news {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Of, item.Item.State)
		break // or go on, until the context ends
	}
	// Output: deploy-2 paused
}

// From the present state on, which comes first; for 0 instead of 1, only what is yet to come.
func ExampleStore_CursorBefore() {
	ctx := context.Background()
	store, done := waiting(1)
	defer done()

	ref := checkpoints.Ref{RunID: "deploy-1"}
	cursor, err := store.CursorBefore(ctx, ref, 1)
	if err != nil {
		log.Fatal(err)
	}
	for item, err := range store.Follow(ctx, ref, cursor) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Of, item.Item.State)
		break
	}
	// Output: deploy-1 paused
}

func ExampleStore_Delete() {
	ctx := context.Background()
	store, done := waiting(1)
	defer done()

	ref := checkpoints.Ref{RunID: "deploy-1"}
	fmt.Println(store.Delete(ctx, ref))
	fmt.Println("missing:", errors.Is(store.Delete(ctx, ref), db.ErrNotFound))
	// Output:
	// <nil>
	// missing: true
}

// The history of claims that are over: first what would go of it, then the same in earnest. What
// waits or is claimed stays.
func ExampleStore_Prune() {
	ctx := context.Background()
	store, done := completed(2)
	defer done()

	policy := db.Policy{Bytes: 1, DryRun: true}
	would, err := store.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("would remove", would.Removed)

	policy.DryRun = false
	pruned, err := store.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed", pruned.Removed, "and", pruned.Remaining, "remain")
	// Output:
	// would remove 2
	// removed 2 and 0 remain
}

// What is pinned no limit takes, until it is unpinned.
func ExampleStore_Pin() {
	ctx := context.Background()
	store, done := completed(3)
	defer done()

	if err := store.Pin(ctx, "deploy-1"); err != nil {
		log.Fatal(err)
	}
	pruned, err := store.Prune(ctx, db.Policy{Bytes: 1})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 2 1 <nil>
}

func ExampleStore_Unpin() {
	ctx := context.Background()
	store, done := completed(1)
	defer done()

	if err := store.Pin(ctx, "deploy-1"); err != nil {
		log.Fatal(err)
	}
	if err := store.Unpin(ctx, "deploy-1"); err != nil {
		log.Fatal(err)
	}
	pruned, err := store.Prune(ctx, db.Policy{Bytes: 1})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 1 0 <nil>
}

// A program died with a claim. The next one makes the run wait again, and none whose holder lives.
func ExampleStore_Recover() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "checkpoints")
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
	store := checkpoints.NewStore(d, checkpoints.Options{})
	rearmed, err := store.Recover(ctx)
	if err != nil {
		log.Fatal(err)
	}
	paused, err := store.Get(ctx, checkpoints.Ref{RunID: "deploy-1"})
	fmt.Println(rearmed, paused.State, err)
	// Output: 1 paused <nil>
}

// leave claims a run, and closes the file without completing it: to others that is as if the
// process were gone.
func leave(path string) {
	d, err := db.Open(context.Background(), path, db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	store := checkpoints.NewStore(d, checkpoints.Options{})
	if err := store.Save(context.Background(), sample("deploy-1")); err != nil {
		log.Fatal(err)
	}
	claimOf(store, "deploy-1")
	if err := d.Close(); err != nil {
		log.Fatal(err)
	}
}

// The answer to a claim was lost on its way; the program goes on under it by its epoch.
func ExampleStore_Reattach() {
	ctx := context.Background()
	store, done := waiting(1)
	defer done()
	claim := claimOf(store, "deploy-1")

	again, err := store.Reattach(ctx, "deploy-1", claim.Epoch())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Complete(ctx))

	_, err = store.Reattach(ctx, "deploy-1", claim.Epoch())
	fmt.Println("completed:", errors.Is(err, db.ErrLeaseLost))
	// Output:
	// <nil>
	// completed: true
}
