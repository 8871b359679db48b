package db_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// clocks are a wall clock and a boot clock that stand still until they are moved.
type clocks struct {
	wall *dbtest.Clock
	boot db.BootTime
}

func newClocks() *clocks {
	return &clocks{
		wall: dbtest.NewClock(time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)),
		boot: db.BootTime{Boot: "first", Namespace: 7, Since: time.Hour},
	}
}

func (c *clocks) open(t *testing.T) *db.DB {
	t.Helper()
	return c.openAt(t, dbtest.Path(t))
}

func (c *clocks) openAt(t *testing.T, path string) *db.DB {
	t.Helper()
	return dbtest.OpenAt(t, path, db.Options{
		Synchronous: db.SyncNormal, Now: c.wall.Now,
		BootTime: func() db.BootTime { return c.boot },
	})
}

func (c *clocks) pass(d time.Duration) {
	c.boot = c.boot.Add(d)
	c.wall.Advance(d)
}

func reserve(t *testing.T, d *db.DB, name string, o db.ReserveOptions) *db.Lease {
	t.Helper()
	l, err := d.Reserve(t.Context(), "port", name, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantTaken(t *testing.T, d *db.DB, name string) {
	t.Helper()
	l, err := d.Reserve(t.Context(), "port", name, db.ReserveOptions{})
	var taken *db.ReservedError
	if l != nil || !errors.Is(err, db.ErrConflict) || !errors.As(err, &taken) || db.Hint(err) == "" {
		t.Fatalf("port %s is not taken: %v, %v", name, l, err)
	}
}

func wantLost(t *testing.T, l *db.Lease) {
	t.Helper()
	ran := false
	for what, err := range map[string]error{
		"hold":    l.Hold(t.Context(), "work", func(*db.Tx) error { ran = true; return nil }),
		"renew":   l.Renew(t.Context()),
		"release": l.Release(t.Context()),
	} {
		if !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("%s of a lost lease: %v", what, err)
		}
	}
	if ran {
		t.Error("a stale holder worked")
	}
}

func minutes(n int, detached bool) db.ReserveOptions {
	return db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: time.Duration(n) * time.Minute, Detached: detached}}
}

func TestWhatIsReservedHasOneHolder(t *testing.T) {
	d := newClocks().open(t)
	first := reserve(t, d, "80", db.ReserveOptions{Note: "the web"})
	wantTaken(t, d, "80")
	other := reserve(t, d, "81", db.ReserveOptions{})
	if _, err := d.Reserve(t.Context(), "port", "80", db.ReserveOptions{Scope: "elsewhere"}); err != nil {
		t.Errorf("in another scope: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLost(t, first)
	if again := reserve(t, d, "80", db.ReserveOptions{}); again.Epoch() <= other.Epoch() ||
		again.Epoch() <= first.Epoch() {
		t.Errorf("epoch %d comes after %d and %d", again.Epoch(), first.Epoch(), other.Epoch())
	}
	wantLost(t, first)
}

func TestAReservationLastsForItsTimeAndNoLonger(t *testing.T) {
	c := newClocks()
	d := c.open(t)
	l := reserve(t, d, "80", minutes(1, false))
	for range 3 {
		c.pass(time.Minute - 1)
		wantTaken(t, d, "80")
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.pass(time.Minute)
	wantLost(t, l) // though nobody has it
	next := reserve(t, d, "80", minutes(1, false))
	wantLost(t, l)
	if err := next.Renew(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestARenewalWithoutATimeWritesNothing(t *testing.T) {
	c := newClocks()
	d := c.open(t)
	l := reserve(t, d, "80", db.ReserveOptions{})
	made := c.wall.Now()
	c.pass(time.Minute)
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, ok, err := d.Reservation(t.Context(), "", "port", "80"); !ok || err != nil ||
		!r.RenewedAt.Equal(made) {
		t.Errorf("it is %+v, %v", r, err)
	}
}

func TestLease_LongestTTLDoesNotWrap(t *testing.T) {
	c := newClocks()
	d := c.open(t)
	for _, ttl := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - time.Hour} {
		l := reserve(t, d, "80", db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: ttl, Detached: true}})
		c.pass(24 * time.Hour)
		wantTaken(t, d, "80")
		if err := l.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		c.boot.Boot += "+" // a restart: the wall clock decides
		c.pass(24 * time.Hour)
		wantTaken(t, d, "80")
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestTermsThatCanNotHoldAreRefused(t *testing.T) {
	d := newClocks().open(t)
	for name, o := range map[string]db.ReserveOptions{
		"negative": {LeaseTerms: db.LeaseTerms{TTL: -1}},
		"for ever": {LeaseTerms: db.LeaseTerms{Detached: true}},
	} {
		if l, err := d.Reserve(t.Context(), "port", "80", o); !errors.Is(err, db.ErrInvalid) || l != nil {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	for _, id := range [][2]string{{"", "80"}, {"port", ""}, {"port", "a\x00"}, {"p\xff", "80"}} {
		if _, err := d.Reserve(t.Context(), id[0], id[1], db.ReserveOptions{}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// An owner's lock decides where the clocks can't be compared: it is one kernel.
func TestLease_WithOwnerClockDoesNotEndIt(t *testing.T) {
	for name, other := range map[string]db.BootTime{
		"another boot id":        {Boot: "second", Namespace: 7, Since: 1000 * time.Hour},
		"another time namespace": {Boot: "first", Namespace: 8, Since: 1000 * time.Hour},
		"no boot id":             {Namespace: 7, Since: 1000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			path := dbtest.Path(t)
			own, elsewhere := newClocks(), newClocks()
			elsewhere.boot = other
			elsewhere.wall.Advance(48 * time.Hour)
			l := reserve(t, own.openAt(t, path), "80", minutes(1, false))
			wantTaken(t, elsewhere.openAt(t, path), "80")
			if err := l.Renew(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLease_WithoutOwnerWallClockDecides(t *testing.T) {
	path := dbtest.Path(t)
	own, elsewhere := newClocks(), newClocks()
	elsewhere.boot = db.BootTime{Boot: "second", Since: time.Second}
	l := reserve(t, own.openAt(t, path), "80", minutes(10, true))
	d := elsewhere.openAt(t, path)
	elsewhere.wall.Advance(10*time.Minute + txn.LeaseSkew - 1)
	wantTaken(t, d, "80")
	elsewhere.wall.Advance(1)
	reserve(t, d, "80", db.ReserveOptions{})
	wantLost(t, l)
}

func TestTheWallClockNeitherEndsNorProlongsALease(t *testing.T) {
	c := newClocks()
	d := c.open(t)
	l := reserve(t, d, "80", minutes(1, true))
	for _, jump := range []time.Duration{1000 * time.Hour, -5000 * time.Hour} {
		c.wall.Advance(jump)
		wantTaken(t, d, "80")
		if err := l.Renew(t.Context()); err != nil {
			t.Error(err)
		}
	}
	c.boot = c.boot.Add(time.Minute)
	wantLost(t, l)
}

func TestReserve_ReattachByOwnProcess(t *testing.T) {
	path := dbtest.Path(t)
	d := newClocks().openAt(t, path)
	l := reserve(t, d, "80", minutes(1, false))
	again, err := d.Reattach(t.Context(), "", "port", "80", l.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	kept, stop := again.Keep(t.Context())
	if stop(); errors.Is(context.Cause(kept), db.ErrLeaseLost) {
		t.Errorf("it is kept as if it were over: %v", context.Cause(kept))
	}
	if err := again.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	for name, id := range map[string]struct {
		name  string
		epoch int64
	}{"another epoch": {"80", l.Epoch() + 1}, "another name": {"81", l.Epoch()}} {
		if _, err := d.Reattach(t.Context(), "", "port", id.name, id.epoch); !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClose_ReleasesWhatProcessHeld(t *testing.T) {
	path := dbtest.Path(t)
	c := newClocks()
	open := func() *db.DB {
		d, err := db.Open(t.Context(), path, db.Options{BootTime: func() db.BootTime { return c.boot }})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	attached, detached := reserve(t, d, "80", minutes(1, false)), reserve(t, d, "81", minutes(1, true))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open()
	defer d.Close()
	reserve(t, d, "82", db.ReserveOptions{}) // has the process registered anew
	if _, err := d.Reattach(t.Context(), "", "port", "80", attached.Epoch()); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("what ended came back: %v", err)
	}
	l, err := d.Reattach(t.Context(), "", "port", "81", detached.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	reserve(t, d, "80", db.ReserveOptions{})
}

func TestClose_OneOfTwoHandlesReleases(t *testing.T) {
	path := dbtest.Path(t)
	d, other := dbtest.OpenAt(t, path, db.Options{}), dbtest.OpenAt(t, path, db.Options{})
	stays := reserve(t, d, "80", db.ReserveOptions{})
	reserve(t, other, "81", db.ReserveOptions{})
	if _, err := d.Reserve(t.Context(), "port", "81", db.ReserveOptions{}); !errors.Is(err, db.ErrConflict) {
		t.Errorf("while the other handle is open: %v", err)
	}
	if _, err := other.Reattach(t.Context(), "", "port", "80", stays.Epoch()); err != nil {
		t.Errorf("of another handle of this process: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	reserve(t, d, "81", db.ReserveOptions{})
	if err := stays.Renew(t.Context()); err != nil {
		t.Errorf("of the handle that stays open: %v", err)
	}
}

func TestWhoTakesFromTheDeadForgetsThem(t *testing.T) {
	path := dbtest.Path(t)
	gone, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reserve(t, gone, "80", db.ReserveOptions{})
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	d := dbtest.OpenAt(t, path, db.Options{})
	reserve(t, d, "81", db.ReserveOptions{})
	reserve(t, d, "80", db.ReserveOptions{})
	var n int
	err = d.Read(t.Context(), "count", func(rx *db.Rx) error {
		return rx.Get(&n,
			"SELECT count(*) FROM owners")
	})
	if err != nil || n != 1 {
		t.Errorf("%d owners are known, of whom one lives; %v", n, err)
	}
}

func TestLease_OtherProcessNeedsDetached(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	other, refused := startCrew(t, nil, path)
	if refused != "" {
		t.Fatal(refused)
	}
	for name, detached := range map[string]bool{"theirs": false, "anybody's": true} {
		made := other.must(order{Op: "reserve", Name: name, TTL: time.Hour, Detached: detached})
		l, err := d.Reattach(t.Context(), "", "port", name, made.Epoch)
		if detached && err != nil || !detached && !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("taking up %s gave %v", name, err)
		}
		if detached {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestALeaseOfNobodyIsUnknown(t *testing.T) {
	d := newClocks().open(t)
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		state, err := rx.Store().LeaseState(txn.LeaseColumns{})
		if state != txn.LeaseUnknown || state.Over() {
			t.Errorf("no lease at all is %s", state)
		}
		if holds, err := rx.Store().HoldsLease(txn.LeaseColumns{}); holds || err != nil {
			t.Errorf("it is held: %v, %v", holds, err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLease_MissingColumnsJudgedByTheRest(t *testing.T) {
	c := newClocks()
	d := c.open(t)
	second, start := int64(time.Second), "first"
	over, goesOn := int64(time.Hour), int64(time.Hour)+1
	var owner int64
	err := d.Write(t.Context(), "own", func(tx *db.Tx) (err error) {
		owner, err = tx.Store().Owner()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []struct {
		name  string
		lease txn.LeaseColumns
		want  txn.LeaseState
	}{
		{"no time namespace, over", txn.LeaseColumns{TTL: &second, Until: &over, Boot: &start}, txn.LeaseExpired},
		{"no time namespace", txn.LeaseColumns{TTL: &second, Until: &goesOn, Boot: &start}, txn.LeaseHeld},
		{"no end", txn.LeaseColumns{Owner: &owner, TTL: &second, Boot: &start}, txn.LeaseHeld},
		{"no start", txn.LeaseColumns{Owner: &owner, TTL: &second, Until: &over}, txn.LeaseHeld},
		{
			"no wall clock, of another start",
			txn.LeaseColumns{TTL: &second, Until: &goesOn, Boot: new("second")},
			txn.LeaseExpired,
		},
	} {
		err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
			state, err := rx.Store().LeaseState(l.lease)
			if state != l.want {
				t.Errorf("%s: it is %s, not %s", l.name, state, l.want)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", l.name, err)
		}
	}
}

func TestAnErrorOfAReservationNamesItOnce(t *testing.T) {
	d := newClocks().open(t)
	l := reserve(t, d, "80", minutes(1, false))
	write(t, d, "CREATE TRIGGER none_is_renewed BEFORE UPDATE ON leases BEGIN SELECT RAISE(ABORT, 'not "+
		"today'); END")
	write(t, d, "CREATE TRIGGER none_goes BEFORE DELETE ON leases BEGIN SELECT RAISE(ABORT, 'not today'); END")
	refused := map[string]error{"renew": l.Renew(t.Context()), "release": l.Release(t.Context())}
	write(t, d, "DROP TRIGGER none_is_renewed")
	write(t, d, "DROP TRIGGER none_goes")
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused["a lost one"] = l.Renew(t.Context())
	for what, err := range refused {
		said, ok := errors.AsType[*db.Error](err)
		if !ok || said.Entity != "port" || said.ID != "80" || strings.Count(err.Error(), "80") != 1 {
			t.Errorf("%s gave %v", what, err)
		}
	}
}

func TestARenewalIsOfOneReservation(t *testing.T) {
	c := newClocks()
	d := c.open(t)
	a, b := reserve(t, d, "a", minutes(1, false)), reserve(t, d, "b", minutes(1, false))
	c.pass(time.Second)
	if err := b.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Minute - time.Second)
	wantLost(t, a)
	if err := b.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok, err := d.Reservation(t.Context(), "", "port", "a"); !ok || err != nil {
		t.Errorf("the release of b took a: %v, %v", ok, err)
	}
	if _, ok, err := d.Reservation(t.Context(), "", "port", "b"); ok || err != nil {
		t.Errorf("b is still there: %v, %v", ok, err)
	}
	if _, ok, err := d.Reservation(t.Context(), "none", "port", "a"); ok || err != nil {
		t.Errorf("a scope that is not there has it: %v, %v", ok, err)
	}
}

func TestRenew_RowDecidesNotTheHandle(t *testing.T) {
	c := newClocks()
	d := c.open(t)
	l := reserve(t, d, "80", minutes(1, false))
	other, err := d.Reattach(t.Context(), "", "port", "80", l.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // each beyond the end that the other handle knows
		for _, one := range []*db.Lease{other, l} {
			c.pass(time.Minute - 1)
			if err := one.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.pass(time.Minute - 1)
	undone := errors.New("undone")
	err = d.Write(t.Context(), "renew", func(tx *db.Tx) error { return errors.Join(l.RenewTx(tx), undone) })
	if !errors.Is(err, undone) || errors.Is(err, db.ErrLeaseLost) {
		t.Fatal(err)
	}
	c.pass(1)
	wantLost(t, l)
}

func TestWorkUnderALeaseIsDoneWithIt(t *testing.T) {
	d := newClocks().open(t)
	l := reserve(t, d, "80", minutes(1, false))
	err := l.Hold(t.Context(), "work", func(tx *db.Tx) error {
		_, err := d.ReserveTx(tx, "port", "81", db.ReserveOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantTaken(t, d, "81")
	mine := errors.New("mine")
	if err := l.Hold(t.Context(), "work", func(*db.Tx) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("it gave %v", err)
	}
}

func TestWhoHoldsItIsSaid(t *testing.T) {
	d := newClocks().open(t)
	reserve(t, d, "80", minutes(1, false))
	reserve(t, d, "81", minutes(1, true))
	for name, want := range map[string]string{
		"80": fmt.Sprintf("process %d (", os.Getpid()),
		"81": "a holder without a process",
	} {
		_, err := d.Reserve(t.Context(), "port", name, db.ReserveOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var e *db.Error
	err := d.Write(t.Context(), "mine", func(tx *db.Tx) error {
		l, err := d.ReserveTx(tx, "port", "82", db.ReserveOptions{})
		if err == nil {
			err = l.ReleaseTx(tx)
		}
		if err == nil {
			err = l.RenewTx(tx)
		}
		return err
	})
	if !errors.As(err, &e) || e.Op != "hold reservation" || e.Entity != "port" || e.ID != "82" ||
		!errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("%v", err)
	}
}

func TestATransactionOfAnotherFileHoldsNothing(t *testing.T) {
	d, other := newClocks().open(t), newClocks().open(t)
	l := reserve(t, d, "80", db.ReserveOptions{})
	reserve(t, other, "80", db.ReserveOptions{})
	err := other.Write(t.Context(), "foreign", func(tx *db.Tx) error { return l.HoldTx(tx) })
	if !errors.Is(err, db.ErrInvalid) {
		t.Errorf("hold in another file: %v", err)
	}
}

func TestReservationsAreListedAndReleasedByAPerson(t *testing.T) {
	c := newClocks()
	d := c.open(t)
	for _, name := range []string{"c", "a", "b"} {
		reserve(t, d, name, db.ReserveOptions{Note: "for " + name})
	}
	if _, err := d.Reserve(t.Context(), "path", "/x", minutes(1, true)); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Minute)
	page := func(f db.ReservationFilter, at db.At) db.Page[db.Reservation] {
		t.Helper()
		p, err := d.Reservations(t.Context(), f, at)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := page(db.ReservationFilter{}, db.At{Limit: 3})
	rest := page(db.ReservationFilter{}, db.At{After: first.Next})
	var got []string
	for _, v := range append(first.Items, rest.Items...) {
		got = append(got, v.Kind+" "+v.Name+" "+string(v.State))
	}
	if want := []string{"path /x expired", "port a held", "port b held", "port c held"}; !equal(got, want) ||
		rest.Next != "" {
		t.Errorf("the list is %q, then %q", got, rest.Next)
	}
	ports := page(db.ReservationFilter{Kind: "port"}, db.At{Limit: 1})
	if v := ports.Items[0]; v.Name != "a" || v.PID != os.Getpid() || v.Note != "for a" || v.TTL != 0 ||
		v.Detached {
		t.Errorf("%+v", v)
	}
	a := ports.Items[0]
	if err := d.ReleaseReservation(t.Context(), "", "port", "a", a.Epoch+100); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("release of another epoch: %v", err)
	}
	if err := d.ReleaseReservation(t.Context(), "", "port", "a", a.Epoch); err != nil {
		t.Error(err)
	}
	dbtest.Again(t, d, func() {
		if n, err := d.RecoverReservations(t.Context(), db.ReservationFilter{}); n != 1 || err != nil {
			t.Errorf("run a second time it recovered %d, %v", n, err)
		}
	})
	left := page(db.ReservationFilter{}, db.At{})
	if len(left.Items) != 2 {
		t.Errorf("%+v are left", left.Items)
	}
}

func TestACursorOfReservationsBelongsToItsList(t *testing.T) {
	d := newClocks().open(t)
	for _, scope := range []string{"", "other"} {
		for _, name := range []string{"a", "b", "c"} {
			reserve(t, d, name, db.ReserveOptions{Scope: scope})
		}
	}
	page, err := d.Reservations(t.Context(), db.ReservationFilter{Kind: "port"}, db.At{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Next == "" {
		t.Fatalf("it gave %+v, %v", page, err)
	}
	for _, f := range []db.ReservationFilter{{Kind: "port"}, {}} {
		if rest, err := d.Reservations(t.Context(), f, db.At{After: page.Next}); err != nil ||
			len(rest.Items) != 1 || rest.Items[0].Name != "c" {
			t.Errorf("behind it lies %+v, %v", rest, err)
		}
	}
	for _, f := range []db.ReservationFilter{{Scope: "other"}, {Scope: "none"}, {Kind: "path"}} {
		if _, err := d.Reservations(t.Context(), f, db.At{After: page.Next}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("of %+v it gave %v", f, err)
		}
	}
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestKeepRenewsUntilTheLeaseIsLost(t *testing.T) {
	const ttl = 1500 * time.Millisecond
	renewed := make(chan struct{}, 100)
	var passed atomic.Int64 // on a clock that stands still while the machine has no time for the keeper
	d := dbtest.OpenAt(t, dbtest.Path(t), db.Options{
		BootTime: func() db.BootTime {
			return db.BootTime{
				Boot:  "first",
				Since: time.Hour + time.Duration(passed.Load()),
			}
		},
		Observe: func(o db.Observation) {
			if o.Why == "renew reservation" && o.Err == nil {
				renewed <- struct{}{}
			}
		},
	})
	l := reserve(t, d, "80", db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: ttl}})
	ctx, stop := l.Keep(t.Context())
	defer stop()
	for range 3 { // more than its TTL
		<-renewed
		passed.Add(int64(ttl / 2))
	}
	if ctx.Err() != nil {
		t.Fatalf("it ended: %v", context.Cause(ctx))
	}
	wantTaken(t, d, "80")
	if err := d.ReleaseReservation(t.Context(), "", "port", "80", l.Epoch()); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the cause is %v", err)
	}
}

func TestKeepingWhatIsOverSaysWhatItIs(t *testing.T) {
	c := newClocks()
	l := reserve(t, c.open(t), "80", minutes(1, false))
	c.pass(time.Minute)
	kept, stop := l.Keep(t.Context())
	defer stop()
	<-kept.Done()
	if err := context.Cause(kept); !errors.Is(err, db.ErrLeaseLost) ||
		!strings.Contains(err.Error(), `port "80"`) {
		t.Errorf("the cause is %v", err)
	}
}

func TestKeep_EndsIfNotRenewedInTime(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	l := reserve(t, d, "80", db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: 100 * time.Millisecond}})
	ctx, stop := l.Keep(t.Context())
	defer stop()
	if err := d.Write(t.Context(), "a long one", func(*db.Tx) error { <-ctx.Done(); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := context.Cause(ctx); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the cause is %v", err)
	}
}

func TestKeepEndsWithItsCallerAndItsFile(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := reserve(t, d, "80", minutes(60, false))
	ctx, stop := l.Keep(t.Context())
	stop()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Errorf("stopping gave it up: %v", err)
	}
	ctx, stop = l.Keep(t.Context())
	defer stop()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, db.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// leased returns the handle of a lease that begins now.
func leased(t *testing.T, d *db.DB, ttl time.Duration, of db.Leased) (h *db.Handle) {
	t.Helper()
	lasts := int64(ttl)
	if err := d.Read(t.Context(), "lease", func(rx *db.Rx) error {
		h = d.NewHandle(rx.Store(), of, rx.Store().RenewLease(txn.LeaseColumns{TTL: &lasts}))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestKeep_EndsWhileRenewalIsStuck(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	stuck := make(chan struct{})
	kept, stop := leased(t, d, 100*time.Millisecond, db.Leased{
		Key: func(*db.Rx) ([]any, error) { <-stuck; return nil, db.ErrLeaseLost },
		Named: func(_ string, err error) error {
			if err != nil {
				err = fmt.Errorf("the lease: %w", err)
			}
			return err
		},
	}).Keep(t.Context())
	dbtest.Receive(t, "the end of the context", kept.Done())
	err := context.Cause(kept)
	if !errors.Is(err, db.ErrLeaseLost) || !strings.HasPrefix(err.Error(), "the lease: ") {
		t.Errorf("the cause is %v", err)
	}
	close(stuck)
	stop()
}
