package agents_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// A fixture is a registry whose two clocks stand still until they are moved.
type fixture struct {
	*agents.Registry
	db   *db.DB
	wall *dbtest.Clock
	boot *db.BootTime
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{
		wall: dbtest.NewClock(time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)),
		boot: &db.BootTime{Boot: "first", Since: time.Hour},
	}
	f.db = dbtest.Open(t, db.Options{Now: f.wall.Now, BootTime: func() db.BootTime { return *f.boot }})
	f.Registry = agents.NewRegistry(f.db, agents.Options{})
	return f
}

// lease takes a thread and fails the test if somebody has it.
func (f *fixture) lease(t *testing.T, thread string, o db.LeaseTerms) *agents.Lease {
	t.Helper()
	lease, out, err := f.TryLeaseThread(ctx, thread, o, onThread(thread, os.Getpid()))
	if err != nil || lease == nil {
		t.Fatalf("lease %s: %+v, %v", thread, out, err)
	}
	return lease
}

// owner names the agent that has the thread: "" when the caller could have it, which is undone.
func (f *fixture) owner(t *testing.T, thread string) string {
	t.Helper()
	declined := errors.New("declined")
	_, out, err := f.TryLeaseThread(ctx, thread, minute,
		func(string) (agents.Entry, error) { return agents.Entry{}, declined })
	if errors.Is(err, declined) {
		return ""
	}
	if err != nil || out.LiveOwner == nil {
		t.Fatalf("ask for %s: %+v, %v", thread, out, err)
	}
	return out.LiveOwner.SessionID
}

var minute = db.LeaseTerms{TTL: time.Minute}

func TestLease_ExpiresAndHeartbeatExtendsIt(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	for range 3 {
		f.boot.Since += time.Minute - 1
		if got := f.owner(t, "main"); got != lease.SessionID() {
			t.Fatalf("within its time the owner is %q", got)
		}
		if err := lease.Renew(ctx); err != nil {
			t.Fatal(err)
		}
	}
	f.boot.Since += time.Minute
	if err := lease.Renew(ctx); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("a heartbeat after its time: %v", err)
	}
	if got := f.owner(t, "main"); got != "" {
		t.Errorf("after its time the owner is %q", got)
	}
}

func TestAHeartbeatProlongsOneLease(t *testing.T) {
	f := newFixture(t)
	first, other := f.lease(t, "main", minute), f.lease(t, "other", minute) // at the same moment
	f.boot.Since += time.Minute - 1
	if err := first.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	f.boot.Since++
	if got := f.owner(t, "main"); got != first.SessionID() {
		t.Errorf("the owner of its thread is %q", got)
	}
	if err := other.Renew(ctx); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the other goes on too: %v", err)
	}
}

func TestALeaseWithoutAnEntryIsNone(t *testing.T) {
	f, broken := newFixture(t), errors.New("no entry")
	for how, try := range map[string]func(agents.Builder) (*agents.Lease, error){
		"by itself": func(build agents.Builder) (*agents.Lease, error) {
			l, _, err := f.TryLeaseThread(ctx, "main", minute, build)
			return l, err
		},
		"in a transaction": func(build agents.Builder) (l *agents.Lease, err error) {
			err = f.db.Write(ctx, "lease", func(tx *db.Tx) error {
				l, _, err = f.TryLeaseThreadTx(tx, "main", minute, build)
				return err
			})
			return l, err
		},
	} {
		if l, err := try(func(string) (agents.Entry, error) { return agents.Entry{}, broken }); l != nil ||
			!errors.Is(err, broken) {
			t.Errorf("%s it gave %v, %v", how, l, err)
		}
	}
}

func TestTheWallClockNeitherEndsNorProlongsALease(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	for _, jump := range []time.Duration{1000 * time.Hour, -5000 * time.Hour} {
		f.wall.Advance(jump)
		if err := lease.Renew(ctx); err != nil {
			t.Fatalf("after a jump of %v: %v", jump, err)
		}
		if got := f.owner(t, "main"); got != lease.SessionID() {
			t.Fatalf("after a jump of %v the owner is %q", jump, got)
		}
	}
	f.wall.Advance(-1000 * time.Hour)
	f.boot.Since += time.Minute
	if got := f.owner(t, "main"); got != "" {
		t.Errorf("the lease is over, and the owner is %q", got)
	}
}

func TestAfterARestartTheWallClockEndsADetachedLease(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", db.LeaseTerms{TTL: time.Hour, Detached: true})
	*f.boot = db.BootTime{Boot: "second", Since: time.Second}
	f.wall.Advance(time.Hour - 1)
	if err := lease.Renew(ctx); err != nil {
		t.Errorf("within its time by the wall clock: %v", err)
	}
	*f.boot = db.BootTime{Boot: "third", Since: time.Second}
	f.wall.Advance(time.Hour + txn.LeaseSkew)
	if err := lease.Renew(ctx); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("a heartbeat after the restart: %v", err)
	}
	if got := f.owner(t, "main"); got != "" {
		t.Errorf("after the restart the owner is %q", got)
	}
}

func TestEveryWriteUnderALostLeaseIsRefused(t *testing.T) {
	f := newFixture(t)
	lost := f.lease(t, "main", minute)
	f.boot.Since += time.Minute
	holder := f.lease(t, "main", minute)
	if holder.Epoch() <= lost.Epoch() {
		t.Errorf("epoch %d comes after %d", holder.Epoch(), lost.Epoch())
	}
	before := load(t, f.Registry, lost.SessionID())
	wrote := false
	for what, call := range map[string]func() error{
		"heartbeat": func() error { return lost.Renew(ctx) },
		"release":   func() error { return lost.Release(ctx, agents.Complete) },
		"log context query": func() error {
			return lost.LogContextQuery(ctx, agents.ContextQuery{Path: "x", QueriedAt: f.wall.Now()})
		},
		"update": func() error {
			_, err := lost.Update(ctx, func(e *agents.Entry) { e.Model = p("m") })
			return err
		},
		"hold": func() error {
			return lost.Hold(ctx, "work", func(*db.Tx) error { wrote = true; return nil })
		},
		"a handle made of names": func() error {
			return agents.LeaseOf(f.Registry, lost.SessionID(), "main", lost.Epoch()).Renew(ctx)
		},
	} {
		if err := call(); !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := load(t, f.Registry, lost.SessionID()); wrote || !after.Equal(before) ||
		after.Status != agents.Abandoned {
		t.Errorf("the lost one wrote: %v, %s", wrote, after.TOML())
	}
	if err := holder.Renew(ctx); err != nil {
		t.Errorf("the holder's heartbeat: %v", err)
	}
}

func TestLease_HolderUpdatesEntryAndReleases(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	f.wall.Advance(time.Second)
	if err := lease.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	e, err := lease.Update(ctx, func(e *agents.Entry) { e.Model = p("gpt-5") })
	if err != nil || !e.HeartbeatAt.Equal(f.wall.Now()) || !e.LastProgressAt.Equal(f.wall.Now()) {
		t.Fatalf("after a heartbeat the entry is %s, %v", e.TOML(), err)
	}
	if err := lease.LogContextQuery(ctx,
		agents.ContextQuery{Path: "a.go", QueriedAt: f.wall.Now()}); err != nil {
		t.Fatal(err)
	}
	held, ok, err := f.Reservation(ctx, "main")
	if err != nil || !ok || held.Holder.SessionID != lease.SessionID() || held.Epoch != lease.Epoch() ||
		!held.Leased || held.Live != agents.Alive {
		t.Errorf("the reservation is %+v, %v, %v", held, ok, err)
	}
	if err := lease.Release(ctx, agents.Active); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
		t.Errorf("a release that ends nothing: %v", err)
	}
	if err := lease.Release(ctx, agents.Complete); err != nil {
		t.Fatal(err)
	}
	got := load(t, f.Registry, lease.SessionID())
	if got.Status != agents.Complete || *got.Model != "gpt-5" || len(got.ContextQueries) != 1 ||
		!got.CompletedAt.Equal(f.wall.Now()) {
		t.Errorf("after the release the entry is %s", got.TOML())
	}
	if _, ok, err := f.Reservation(ctx, "main"); ok || err != nil {
		t.Errorf("the thread is still reserved: %v", err)
	}
	if err := lease.Release(ctx, agents.Complete); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("a second release: %v", err)
	}
}

func TestAnOperatorTakesALeaseAway(t *testing.T) {
	for what, take := range map[string]func(f *fixture, id string) error{
		"status": func(f *fixture, id string) error { return f.UpdateStatus(ctx, id, agents.Abandoned) },
		"thread": func(f *fixture, id string) error {
			_, _, err := f.UpdateEntry(ctx, id, func(e *agents.Entry) { e.Thread = "other" })
			return err
		},
		"delete": func(f *fixture, id string) error { return f.Delete(ctx, id) },
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			lease := f.lease(t, "main", minute)
			if err := take(f, lease.SessionID()); err != nil {
				t.Fatal(err)
			}
			if err := lease.Renew(ctx); !errors.Is(err, db.ErrLeaseLost) {
				t.Errorf("heartbeat: %v", err)
			}
			if got := f.owner(t, "main"); got != "" {
				t.Errorf("the owner is %q", got)
			}
		})
	}
}

func TestADetachedLeaseFollowsTheProcessOfItsEntry(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", db.LeaseTerms{TTL: time.Minute, Detached: true}) // of this process
	for _, pid := range []*uint32{p(uint32(1)), nil, p(uint32(os.Getpid()))} {
		if _, err := lease.Update(ctx, func(e *agents.Entry) { e.PID = pid }); err != nil {
			t.Fatal(err)
		}
		if got := f.owner(t, "main"); got != lease.SessionID() {
			t.Errorf("handed to a process that lives, the owner is %q", got)
		}
	}
	if _, err := lease.Update(ctx, func(e *agents.Entry) { e.PID = p(uint32(0x7fff_ffff)) }); err != nil {
		t.Fatal(err)
	}
	if got := f.owner(t, "main"); got != "" {
		t.Errorf("handed to one that does not, the owner is %q", got)
	}
}

func TestADetachedLeaseMayGetItsProcessLater(t *testing.T) {
	f := newFixture(t)
	lease, _, err := f.TryLeaseThread(ctx, "main", detached, func(id string) (agents.Entry, error) {
		e, err := onThread("main", 0)(id)
		e.PID = nil
		return e, err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []*uint32{nil, p(uint32(os.Getpid()))} {
		if _, err := lease.Update(ctx, func(e *agents.Entry) { e.PID = pid }); err != nil {
			t.Fatal(err)
		}
		if got := f.owner(t, "main"); got != lease.SessionID() {
			t.Errorf("the owner is %q", got)
		}
	}
}

func TestLease_NeedsTTLAndActiveEntry(t *testing.T) {
	f := newFixture(t)
	if _, _, err := f.TryLeaseThread(ctx, "main", db.LeaseTerms{}, onThread("main", 1)); !errors.Is(err,
		db.ErrInvalid) {
		t.Errorf("without a time: %v", err)
	}
	if _, _, err := f.TryLeaseThread(ctx, "main", minute, onThread("other", 1)); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("on another thread: %v", err)
	}
	if list, err := f.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("refused leases left %v, %v", list, err)
	}
}

func TestReserve_SharesTransactionWithWork(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	failed := errors.New("the work failed")
	err := lease.Hold(ctx, "work and release", func(tx *db.Tx) error {
		if err := lease.ReleaseTx(tx, agents.Complete); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if err := lease.Renew(ctx); err != nil {
		t.Errorf("the release was undone, but: %v", err)
	}
}

func TestScopesHaveThreadsOfTheirOwn(t *testing.T) {
	f := newFixture(t)
	for i, scope := range []string{"", "a", "b"} {
		r := agents.NewRegistry(f.db, agents.Options{Scope: scope})
		if out, err := r.TryReserveThread(ctx, "main", onThread("main", os.Getpid())); err != nil ||
			out.Reserved == nil {
			t.Fatalf("scope %q: %+v, %v", scope, out, err)
		}
		save(t, r, entry(fmt.Sprintf("agent-%d", i), agents.Active))
		if list, err := r.List(ctx); err != nil || len(list) != 2 {
			t.Errorf("scope %q has %d entries, %v", scope, len(list), err)
		}
	}
}
