//go:build postgres

package db_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// soon makes a process that is silent count as dead within a second. So does one that a busy
// machine leaves no time.
const soon = "&selvedge.owner_ttl=1s"

// untilTaken reserves a thing as soon as nobody has it.
func untilTaken(t *testing.T, d *db.DB, name string) (l *db.Lease) {
	t.Helper()
	dbtest.Await(t, "nobody has "+name, func() bool {
		var err error
		if l, err = d.Reserve(t.Context(), "port", name, db.ReserveOptions{}); err != nil &&
			!errors.Is(err, db.ErrConflict) {
			t.Fatal(err)
		}
		return err == nil
	})
	return l
}

// It stops where it has asked whether it holds, and has yet to write.
func TestPostgres_StoppedProcessDoesNotWriteAgain(t *testing.T) {
	address := dbtest.Postgres(t)
	d := dbtest.OpenAt(t, address, db.Options{})
	c, refused := startCrew(t, nil, address+soon)
	if refused != "" {
		t.Fatal(refused)
	}
	var held reply
	dbtest.Await(t, "it stops while it holds", func() bool {
		held = c.must(order{Op: "reserve", Name: "a"})
		c.send(order{Op: "stop", Name: "a", Epoch: held.Epoch})
		line, ok := c.Line()
		if !ok {
			t.Fatal("it is gone: ", c.Stderr())
		}
		return line == "stopping"
	})
	l := untilTaken(t, d, "a")
	if l.Epoch() <= held.Epoch {
		t.Errorf("after epoch %d comes %d", held.Epoch, l.Epoch())
	}
	c.Signal(syscall.SIGCONT)
	if r := c.reply(); !r.Lost {
		t.Errorf("what it did when it went on: %+v", r)
	}
	if err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		if _, there, err := rx.Store().Scope("written late"); there || err != nil {
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

// One host's clock is an hour ahead, and another's an hour behind. Their processes hold things, as
// one whose time is right, and each judges the others.
func TestPostgres_WrongClockNeitherKillsNorDies(t *testing.T) {
	address := dbtest.Postgres(t)
	off := []time.Duration{-time.Hour, 0, time.Hour}
	names := []string{"of one behind", "of one in time", "of one ahead"}
	var processes []*db.DB
	var leases []*db.Lease
	for i, by := range off {
		// A ttl of its own makes it a process of its own.
		d := dbtest.OpenAt(t, fmt.Sprintf("%s&selvedge.owner_ttl=%ds", address, 600+i),
			db.Options{Now: func() time.Time { return time.Now().Add(by) }})
		processes = append(processes, d)
		for kind, terms := range map[string]db.LeaseTerms{
			"": {}, " for ten minutes": {TTL: 10 * time.Minute},
			" detached": {TTL: 10 * time.Minute, Detached: true},
		} {
			l, err := d.Reserve(t.Context(), "port", names[i]+kind, db.ReserveOptions{LeaseTerms: terms})
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
	}
	if got := dbtest.PostgresExec(t, address, "SELECT owner FROM selvedge.owner_beats"); len(got) != len(off) {
		t.Fatalf("the processes are %v", got)
	}
	for _, l := range leases {
		for i, d := range processes {
			if _, err := d.Reserve(t.Context(), "port", l.Name(), db.ReserveOptions{}); !errors.Is(err,
				db.ErrConflict) {
				t.Errorf("one whose clock is off by %v takes the one %s: %v", off[i], l.Name(), err)
			}
		}
		if err := l.Renew(t.Context()); err != nil {
			t.Errorf("renew the one %s: %v", l.Name(), err)
		}
	}
	dbtest.PostgresExec(t, address, "UPDATE selvedge.owner_beats SET until = 1")
	for i, d := range processes { // each judges a process of another clock, which is dead for the server
		name := names[(i+1)%len(names)]
		if _, err := d.Reserve(t.Context(), "port", name, db.ReserveOptions{}); err != nil {
			t.Errorf("one whose clock is off by %v finds the one %s held by a dead one: %v", off[i], name, err)
		}
	}
}

// Two ask for what one held who is dead, and neither waits for the other: it would, with all that
// it has locked, until that one commits, which may wait for what is locked.
func TestPostgres_DeadsHoldingsGoToAllAskers(t *testing.T) {
	address := dbtest.Postgres(t)
	d, other := dbtest.OpenAt(t, address, db.Options{}), dbtest.OpenAt(t, address, db.Options{})
	for i, handle := range []*db.DB{d, other} {
		if _, err := handle.Reserve(t.Context(), "port", fmt.Sprint("its own, so that it has a number: ", i),
			db.ReserveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var dead []*db.DB
	for i := range 2 { // a ttl of its own makes each a process of its own
		dead = append(dead, dbtest.OpenAt(t, fmt.Sprintf("%s&selvedge.owner_ttl=%ds", address, 600+i),
			db.Options{}))
		for _, name := range []string{"a", "b"} {
			if _, err := dead[i].Reserve(t.Context(), "port", fmt.Sprint(name, i), db.ReserveOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	dbtest.PostgresExec(t, address, "UPDATE selvedge.owner_beats SET until = 1 FROM selvedge.leases WHERE "+
		"owner = owner_id AND name IN ('a0', 'a1')")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	runs := 0
	take := func(d *db.DB, order []int, name string, more func() error) error {
		return d.WriteLocked(ctx, "reserve", func(tx *db.Tx) error {
			runs++
			for _, i := range order {
				if _, err := d.ReserveTx(tx, "port", fmt.Sprint(name, i), db.ReserveOptions{}); err != nil {
					return err
				}
			}
			return more()
		})
	}
	if err := take(d, []int{0, 1}, "a", func() error {
		return take(other, []int{1, 0}, "b", func() error { return nil })
	}); err != nil || runs != 2 {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

// A thing is asked for while another reservation of it is being made: who comes second draws its
// epoch when that one is there, or undone.
func TestPostgres_EpochsGrowInOrder(t *testing.T) {
	address := dbtest.Postgres(t)
	d, other := dbtest.OpenAt(t, address, db.Options{}), dbtest.OpenAt(t, address, db.Options{})
	reserved := make(chan *db.Lease, 1)
	undone := errors.New("undone")
	if err := d.WriteLocked(t.Context(), "reserve", func(tx *db.Tx) error {
		if _, err := d.ReserveTx(tx, "port", "a", db.ReserveOptions{}); err != nil {
			return err
		}
		go func() {
			l, err := other.Reserve(t.Context(), "port", "a", db.ReserveOptions{})
			if err != nil {
				t.Error(err)
			}
			reserved <- l
		}()
		dbtest.AwaitPostgresWaits(t, d.Path(), 1)
		// of another name nobody waits
		if _, err := other.Reserve(t.Context(), "port", "b", db.ReserveOptions{}); err != nil {
			return err
		}
		return undone
	}); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	b, _, err := d.Reservation(t.Context(), "", "port", "b")
	if a := <-reserved; err != nil || a == nil || a.Epoch() <= b.Epoch {
		t.Errorf("behind %d came %v: %v", b.Epoch, a, err)
	}
}

// As a policy of row security does that lets the user read more than it may change.
func TestPostgres_UnlockableRowIsAnError(t *testing.T) {
	d := dbtest.OpenAt(t, dbtest.Postgres(t), db.Options{})
	dbtest.PostgresExec(t, d.Path(), "CREATE SEQUENCE selvedge.looks")
	if _, err := d.Reserve(t.Context(), "port", "a", db.ReserveOptions{}); err != nil {
		t.Fatal(err)
	}
	err := d.WriteLocked(t.Context(), "lock", func(tx *db.Tx) error {
		row := txn.Leases.Rows("SELECT epoch FROM leases WHERE nextval('looks') % 2 = 0")
		_, err := tx.Store().FindToChange(new(int64), row)
		return err
	})
	if !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
		t.Errorf("it is %v", err)
	}
}

// Others were told meanwhile that the lease is over.
func TestPostgres_RenewalWaitingPastEndFails(t *testing.T) {
	address := dbtest.Postgres(t)
	var since atomic.Int64
	clock := func() db.BootTime { return db.BootTime{Boot: "here", Since: time.Duration(since.Load())} }
	d, other := dbtest.OpenAt(t, address, db.Options{BootTime: clock}), dbtest.OpenAt(t, address, db.Options{})
	l, err := d.Reserve(t.Context(), "port", "a", db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	renewPastEnd(t, l, d, other, func() { since.Store(int64(time.Minute)) })
}

// renewPastEnd has a renewal wait for the row until the lease on port a is over.
func renewPastEnd(t *testing.T, l *db.Lease, d, other *db.DB, pass func()) {
	t.Helper()
	renewed := make(chan error, 1)
	if err := other.WriteLocked(t.Context(), "keep", func(tx *db.Tx) error {
		if err := tx.Store().WillChange(txn.Leases.Rows("SELECT epoch FROM leases")); err != nil {
			return err
		}
		if err := tx.Get(new(int64), "SELECT 1"); err != nil {
			return err
		}
		go func() { renewed <- l.Renew(t.Context()) }()
		dbtest.AwaitPostgresWaits(t, other.Path(), 1)
		pass()
		dbtest.Await(t, "the end of the lease", func() bool {
			r, _, err := d.Reservation(t.Context(), "", "port", "a")
			return err == nil && r.State == txn.LeaseExpired
		})
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := <-renewed; !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("it was renewed: %v", err)
	}
}

// A handle that knows its row sends one message, which judges the lease once the row is locked.
func TestPostgres_RenewalIsOneMessage(t *testing.T) {
	address, trips := dbtest.PostgresTrips(t, dbtest.Postgres(t))
	d, other := dbtest.OpenAt(t, address, db.Options{}), dbtest.OpenAt(t, address, db.Options{})
	terms := db.LeaseTerms{TTL: 2 * time.Second}
	l, err := d.Reserve(t.Context(), "port", "a", db.ReserveOptions{LeaseTerms: terms})
	if err != nil {
		t.Fatal(err)
	}
	least := int64(math.MaxInt64)
	for range 5 { // the first one on a connection prepares, and others may have a connection meanwhile
		before := trips()
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		least = min(least, trips()-before)
	}
	if least != 1 {
		t.Errorf("it took %d messages", least)
	}
	renewPastEnd(t, l, d, other, func() {})
}

// Its beats don't arrive, while all else does: somebody keeps the row locked.
func TestPostgres_FailedRenewalMeansLost(t *testing.T) {
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
	defer keeper.Close(t.Context()) //nolint:errcheck // the database is dropped next
	if _, err := keeper.Exec(t.Context(),
		"BEGIN; SELECT * FROM selvedge.owner_beats FOR SHARE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	dbtest.Receive(t, "the end of what it keeps", kept.Done())
	if err := context.Cause(kept); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("what it keeps ends with %v", err)
	}
}
