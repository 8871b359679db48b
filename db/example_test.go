package db_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"selvedge/db"
)

// A program opens the file once and keeps the handle until it ends.
func Example() {
	dir, err := os.MkdirTemp("", "selvedge")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder

	ctx := context.Background()
	d, err := db.Open(ctx, filepath.Join(dir, "agents.db"), db.Options{}) // creates, migrates, checks
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // this is an example

	problems, err := d.Check(ctx)
	fmt.Println(len(problems), err)
	// Output: 0 <nil>
}

// Several changes in one transaction: all of them, or none.
func ExampleDB_Write() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // this is an example

	err = d.Write(ctx, "two scopes, or none", func(tx *db.Tx) error {
		if _, err := tx.Store().Scope("home"); err != nil {
			return err
		}
		return errors.New("the second one failed")
	})
	fmt.Println(err)

	err = d.Read(ctx, "look", func(rx *db.Rx) error {
		_, found, err := rx.Store().Scope("home")
		fmt.Println("home is there:", found)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// two scopes, or none: the second one failed
	// home is there: false
}

// An error says what was done and, to a person, what to do.
func ExampleHint() {
	_, err := db.Open(context.Background(), os.TempDir(), db.Options{})
	fmt.Println(errors.Is(err, db.ErrInvalid))

	_, err = db.Open(context.Background(), "/nowhere/agents.db", db.Options{ReadOnly: true})
	fmt.Println(db.Hint(err))
	// Output:
	// true
	// check the path; opening without MustExist and ReadOnly creates the file
}
