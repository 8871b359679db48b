package db_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"selvedge/db"
)

type requestID struct{}

// Every transaction can be traced: whose it was, what it waited for and who shared its commit.
func ExampleOptions_observe() {
	dir, err := os.MkdirTemp("", "observe")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.WithValue(context.Background(), requestID{}, "request 7")
	d, err := db.Open(ctx, filepath.Join(dir, "agents.db"), db.Options{Observe: func(o db.Observation) {
		if o.Write && o.Wait < time.Minute && o.Commit <= o.Run {
			fmt.Printf("%v: %s, a commit for %d: %v\n", o.Context.Value(requestID{}), o.Why, o.Group, o.Err)
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	err = d.Write(ctx, "make a scope", func(tx *db.Tx) error {
		_, err := tx.Store().Scope("work")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// request 7: make a scope, a commit for 1: <nil>
}

// What a program exports as its metrics.
func ExampleDB_Work() {
	d, err := db.Open(context.Background(), ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	for _, scope := range []string{"home", "work"} {
		err := d.Write(context.Background(), "make a scope", func(tx *db.Tx) error {
			_, err := tx.Store().Scope(scope)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	w := d.Work()
	fmt.Println(w.Writes, "writes,", w.Commits,
		"commits, the longest waited for less than a minute:", w.LongestWait < time.Minute)
	fmt.Println(w.Followers, "followers,", w.Checkpoints, "checkpoints,", w.CheckpointsFailed, "failed")
	// Output:
	// 2 writes, 2 commits, the longest waited for less than a minute: true
	// 0 followers, 0 checkpoints, 0 failed
}

// What the file holds and what room it takes, with the handle's work.
func ExampleDB_Stats() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	err = d.Write(ctx, "make a scope", func(tx *db.Tx) error {
		_, err := tx.Store().Scope("work")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := d.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range s.Tables {
		if t.Name == "scopes" {
			fmt.Println(t.Name, t.Rows)
		}
	}
	fmt.Println(d.Work().Writes, "write, pages of", s.PageSize, "bytes")
	// Output:
	// scopes 2
	// 1 write, pages of 4096 bytes
}

// How the file is doing at the moment: what a monitor asks now and then.
func ExampleDB_Health() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	err = d.Read(ctx, "count slowly", func(*db.Rx) error {
		w := d.Work() // touches no file, so that it may be asked inside too
		fmt.Printf("reading: %q\n", w.OldestRead)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	h, err := d.Health(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("writing: %q, waiting: %d, full: %v\n", h.Writing, h.Waiting, h.Full)
	// Output:
	// reading: "count slowly"
	// writing: "", waiting: 0, full: false
}

// In a log an error is its parts, and what to do about it.
func ExampleError_LogValue() {
	logger := slog.New(slog.NewTextHandler(os.Stdout,
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	_, err := db.Open(context.Background(), "/nowhere/agents.db", db.Options{ReadOnly: true})
	logger.Error("no file", "err", err)
	// Output:
	// level=ERROR msg="no file" err.op=open err.entity=file err.id=/nowhere/agents.db err.hint="check the path; opening without MustExist and ReadOnly creates the file" err.error="not found: there is no such file"
}
