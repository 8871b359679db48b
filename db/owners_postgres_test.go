//go:build postgres

package db_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/db"
	"selvedge/internal/dbtest"
)

// soon makes a process that is silent count as dead within a second.
const soon = "&selvedge.owner_ttl=1s"

// untilTaken reserves a thing as soon as nobody has it.
func untilTaken(t *testing.T, d *db.DB, name string) *db.Lease {
	t.Helper()
	for {
		l, err := d.Reserve(t.Context(), "port", name, db.ReserveOptions{})
		if err == nil {
			return l
		}
		if !errors.Is(err, db.ErrConflict) {
			t.Fatal(err)
		}
	}
}

// It stops where it has asked whether it holds, and has yet to write.
func TestPostgresAProcessThatWasStoppedWritesNothingAsTheOneItWas(t *testing.T) {
	address := dbtest.Postgres(t) + soon
	d := dbtest.OpenAt(t, address, db.Options{})
	c, refused := startCrew(t, nil, address)
	if refused != "" {
		t.Fatal(refused)
	}
	held := c.must(order{Op: "reserve", Name: "a"})
	c.send(order{Op: "stop", Name: "a", Epoch: held.Epoch})
	c.Expect("stopping")
	l := untilTaken(t, d, "a")
	if l.Epoch() <= held.Epoch {
		t.Errorf("after epoch %d comes %d", held.Epoch, l.Epoch())
	}
	c.Signal(syscall.SIGCONT)
	if r := c.reply(); !r.Lost {
		t.Errorf("what it did when it went on: %+v", r)
	}
	if err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		if _, there, err := rx.Scope("written late"); there || err != nil {
			t.Errorf("it wrote: %v, %v", there, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for _, op := range []string{"hold", "renew", "release"} {
		if r := c.do(order{Op: op, Name: "a", Epoch: held.Epoch}); !r.Lost {
			t.Errorf("%s under the old epoch: %+v", op, r)
		}
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if r := c.must(order{Op: "reserve", Name: "a"}); r.Epoch <= l.Epoch() {
		t.Errorf("it holds again under epoch %d, after %d", r.Epoch, l.Epoch())
	}
	c.Wait()
}

// The other one lives on and does not renew: its machine's clock is of no use here, the server's is.
func TestPostgresALeaseOfAnotherHostEndsWithItsTime(t *testing.T) {
	for name, under := range elsewhere(t) {
		t.Run(name, func(t *testing.T) {
			address := dbtest.Postgres(t)
			d := dbtest.OpenAt(t, address, db.Options{})
			c, refused := startCrew(t, under, address)
			if refused != "" {
				t.Fatal(refused)
			}
			const ttl = 200 * time.Millisecond
			asked := time.Now()
			held := c.must(order{Op: "reserve", Name: "a", TTL: ttl})
			untilTaken(t, d, "a")
			if took := time.Since(asked); took < ttl {
				t.Errorf("it ended after %v", took)
			}
			if r := c.do(order{Op: "hold", Name: "a", Epoch: held.Epoch}); !r.Lost {
				t.Errorf("hold under the old epoch: %+v", r)
			}
			c.Wait()
		})
	}
}

// Its beats don't arrive, while all else does: somebody keeps the row locked.
func TestPostgresWhoCannotRenewKnowsThatItHasLost(t *testing.T) {
	address := dbtest.Postgres(t)
	d := dbtest.OpenAt(t, address+soon, db.Options{})
	l, err := d.Reserve(t.Context(), "port", "a", db.ReserveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kept, stop := l.Keep(t.Context())
	defer stop()
	keeper, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer keeper.Close(t.Context()) //nolint:errcheck // the database goes next
	if _, err := keeper.Exec(t.Context(), "BEGIN; SELECT * FROM selvedge.owner_beats FOR SHARE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	<-kept.Done()
	if err := context.Cause(kept); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("what it keeps ends with %v", err)
	}
}
