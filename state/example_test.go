package state_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"selvedge/db"
	"selvedge/state"
)

// An example for each call of the store. docs/state.md shows them.

// opened returns a store with the values of an application and of two users.
func opened() (store *state.Store, done func()) {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{}) // or the name of a file
	if err != nil {
		log.Fatal(err)
	}
	store = state.NewStore(d, state.Options{})
	for _, ref := range []state.Ref{{Key: "model"}, {Owner: "ada", Key: "theme"}, {Owner: "bob", Key: "theme"}} {
		if _, err := store.Set(ctx, ref, []byte(`"first"`)); err != nil {
			log.Fatal(err)
		}
	}
	return store, func() {
		if err := d.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleStore_Set() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	ref := state.Ref{Owner: "ada", Key: "theme"}
	version, err := store.Set(ctx, ref, []byte(`{"name": "dark", "size": 12}`))
	if err != nil {
		log.Fatal(err)
	}
	item, err := store.Get(ctx, ref)
	fmt.Println(string(item.Value), item.Version == version, err)
	// Output: {"name": "dark", "size": 12} true <nil>
}

// Two writers read the same version. The second to write has to read again.
func ExampleStore_SetIf() {
	ctx := context.Background()
	store, done := opened()
	defer done()
	ref := state.Ref{Owner: "ada", Key: "theme"}

	item, err := store.Get(ctx, ref)
	if err != nil {
		log.Fatal(err)
	}
	_, err = store.SetIf(ctx, ref, []byte(`"dark"`), item.Version)
	fmt.Println(err)
	_, err = store.SetIf(ctx, ref, []byte(`"light"`), item.Version)
	fmt.Println("written meanwhile:", errors.Is(err, db.ErrConflict))
	_, err = store.SetIf(ctx, ref, []byte(`"light"`), "") // only if there is none
	fmt.Println("there is one:", errors.Is(err, db.ErrConflict))
	// Output:
	// <nil>
	// written meanwhile: true
	// there is one: true
}

func ExampleStore_Get() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	item, err := store.Get(ctx, state.Ref{Owner: "ada", Key: "theme"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(item.Owner, item.Key, string(item.Value))

	_, err = store.Get(ctx, state.Ref{Owner: "ada", Key: "size"})
	fmt.Println("missing:", errors.Is(err, db.ErrNotFound))
	// Output:
	// ada theme "first"
	// missing: true
}

func ExampleStore_Page() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	for at := (db.At{Limit: 2}); ; {
		page, err := store.Page(ctx, state.Filter{}, at)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a page")
		for _, item := range page.Items {
			fmt.Printf("%q %s\n", item.Owner, item.Key)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	// Output:
	// a page
	// "" model
	// "ada" theme
	// a page
	// "bob" theme
}

func ExampleStore_All() {
	store, done := opened()
	defer done()

	for item, err := range store.All(context.Background(), state.Filter{Owner: new("ada")}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Key, string(item.Value))
	}
	// Output: theme "first"
}

// The same key of several owners.
func ExampleStore_Find() {
	store, done := opened()
	defer done()

	found, err := store.Find(context.Background(), "the", 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, ref := range found {
		fmt.Println(ref.Key, ref.Owner)
	}
	// Output:
	// theme ada
	// theme bob
}

// The value, and then each later one.
func ExampleStore_Follow() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	ref := state.Ref{Owner: "ada", Key: "theme"}
	for item, err := range store.Follow(ctx, ref, "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(item.Item.Value))
		if string(item.Item.Value) != `"first"` {
			break
		}
		if _, err := store.Set(ctx, ref, []byte(`"second"`)); err != nil { // by whichever process
			log.Fatal(err)
		}
	}
	// Output:
	// "first"
	// "second"
}

// What is written from the call on.
func ExampleStore_FollowAll() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	news := store.FollowAll(ctx, state.Filter{Owner: new("ada")})
	if _, err := store.Set(ctx, state.Ref{Owner: "ada", Key: "size"}, []byte(`12`)); err != nil {
		log.Fatal(err)
	}
	for item, err := range news {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Of.Key, string(item.Item.Value))
		break // or go on, until the context ends
	}
	// Output: size 12
}

// Only what is yet to come; for 1 instead of 0, the present value first.
func ExampleStore_CursorBefore() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	ref := state.Ref{Owner: "ada", Key: "theme"}
	cursor, err := store.CursorBefore(ctx, ref, 0)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := store.Set(ctx, ref, []byte(`"second"`)); err != nil {
		log.Fatal(err)
	}
	for item, err := range store.Follow(ctx, ref, cursor) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(item.Item.Value))
		break
	}
	// Output: "second"
}

func ExampleStore_Delete() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	ref := state.Ref{Owner: "ada", Key: "theme"}
	fmt.Println(store.Delete(ctx, ref))
	fmt.Println("missing:", errors.Is(store.Delete(ctx, ref), db.ErrNotFound))
	// Output:
	// <nil>
	// missing: true
}

// A dry run counts the values that nobody has written for a year.
func ExampleStore_Prune() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	policy := db.Policy{Age: 365 * 24 * time.Hour, DryRun: true}
	would, err := store.Prune(ctx, policy)
	fmt.Println(would.Removed, would.Remaining, err)
	// Output: 0 3 <nil>
}

// A pinned value stays, whatever the limits are.
func ExampleStore_Pin() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	err := store.Pin(ctx, state.Ref{Key: "model"})
	if err != nil {
		log.Fatal(err)
	}
	pruned, err := store.Prune(ctx, db.Policy{Age: db.KeepNone})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 2 1 <nil>
}

func ExampleStore_Unpin() {
	ctx := context.Background()
	store, done := opened()
	defer done()

	ref := state.Ref{Key: "model"}
	if err := store.Pin(ctx, ref); err != nil {
		log.Fatal(err)
	}
	fmt.Println(store.Unpin(ctx, ref))
	pruned, err := store.Prune(ctx, db.Policy{Age: db.KeepNone})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output:
	// <nil>
	// 3 0 <nil>
}
