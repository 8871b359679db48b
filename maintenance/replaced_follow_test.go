package maintenance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// teller appends the turn of each number that it reads to the run "followed", and says so.
func teller(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		n, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err == nil {
			err = runs.NewStore(d, runs.Options{}).AppendTurns(context.Background(), "a", "followed",
				[]runs.Turn{{Index: n}})
		}
		if err != nil {
			return err
		}
		fmt.Println("told")
	}
	return d.Close()
}

// TestFollowAll_OutlivesReplacements has an operation want the file that another process writes to,
// and a follower has open: it is refused, and the follower goes on. Once all is closed, it is done,
// and followers of what is there then go on from the cursor, or the cursor has expired.
func TestFollowAll_OutlivesReplacements(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(path, backup, to string, o db.Options) error
		moves   bool // followers go on at the other path
		expires bool // the cursor
	}{
		"restore": {replace: func(path, backup, _ string, o db.Options) error {
			_, err := maintenance.Restore(t.Context(), backup, path, o)
			return err
		}, expires: true},
		"compact": {replace: func(path, _, _ string, o db.Options) error {
			_, err := maintenance.Compact(t.Context(), path, o)
			return err
		}},
		"move": {replace: func(path, _, to string, o db.Options) error {
			_, err := maintenance.Move(t.Context(), path, to, o)
			return err
		}, moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			ok := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			path, to := dbtest.Path(t), dbtest.Path(t)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			d := dbtest.OpenAt(t, path, db.Options{})
			ok(started(ctx, d, "followed"))
			backup := filepath.Join(t.TempDir(), "backup.db")
			ok(d.Backup(ctx, backup))
			all := dbtest.Listen(t, runs.NewStore(d, runs.Options{}).FollowAll(ctx, runs.Filter{}), itemOfTrace)
			writer := dbtest.Start(t, "teller", path)
			tell := func(n int) { writer.Send(fmt.Sprint(n)); writer.Expect("told") }
			tell(0)
			all.Hears("2")
			refused := make(chan error, 1)
			go func() {
				refused <- c.replace(path, backup, to, db.Options{LockTimeout: 500 * time.Millisecond})
			}()
			tell(1)
			all.Hears("3")
			if err := dbtest.Receive(t, "an answer", refused); !errors.Is(err, db.ErrBusy) {
				t.Fatalf("beneath a follower: %v", err)
			}
			tell(2)
			all.Hears("4")
			writer.Wait()
			ok(d.Close())
			all.EndsWith(db.ErrClosed)

			ok(c.replace(path, backup, to, db.Options{}))
			next := "5"
			if c.moves {
				path = to
			}
			if c.expires {
				next = "2"
			}
			store := runs.NewStore(dbtest.OpenAt(t, path, db.Options{}), runs.Options{})
			again := dbtest.Listen(t, store.FollowAll(ctx, runs.Filter{}), itemOfTrace)
			one := dbtest.Listen(t, store.Follow(ctx, runs.RunRef{AgentID: "a", RunID: "followed"}, all.Cursor),
				itemOfTrace)
			writer = dbtest.Start(t, "teller", path)
			tell(3)
			again.Hears(next)
			if c.expires {
				one.EndsWith(db.ErrCursorExpired)
			} else {
				one.Hears(next)
			}
			writer.Wait()
		})
	}
}
