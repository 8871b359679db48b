package agents_test

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

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// What ended stays ended.

var detached = db.LeaseTerms{TTL: time.Minute, Detached: true}

const gone = uint32(0x7fff_ffff) // no process has this pid

func wantLost(t *testing.T, l *agents.Lease) {
	t.Helper()
	ran := false
	_, update := l.Update(ctx, func(*agents.Entry) { ran = true })
	for what, err := range map[string]error{
		"heartbeat": l.Renew(ctx), "update": update, "release": l.Release(ctx, agents.Complete),
		"log context query": l.LogContextQuery(ctx, agents.ContextQuery{Path: "x"}),
		"hold":              l.Hold(ctx, "work", func(*db.Tx) error { ran = true; return nil }),
	} {
		if !errors.Is(err, db.ErrLeaseLost) || db.Hint(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if ran {
		t.Error("a stale holder worked")
	}
}

func TestNoNewProcessBringsADeadLeaseBack(t *testing.T) {
	for what, revive := range map[string]func(f *fixture, id string, change func(*agents.Entry)) error{
		"an update": func(f *fixture, id string, change func(*agents.Entry)) error {
			_, _, err := f.UpdateEntry(ctx, id, change)
			return err
		},
		"a save": func(f *fixture, id string, change func(*agents.Entry)) error {
			e, _, err := f.Load(ctx, id)
			change(&e)
			return errors.Join(err, f.Save(ctx, e))
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			lease := f.lease(t, "main", detached)
			if _, err := lease.Update(ctx, func(e *agents.Entry) { e.PID = p(gone) }); err != nil {
				t.Fatal(err)
			}
			wantLost(t, lease)
			if held, ok, err := f.Reservation(ctx, "main"); err != nil || !ok || held.Live != agents.Dead {
				t.Errorf("before: %+v, %v, %v", held, ok, err)
			}
			if err := revive(f, lease.SessionID(),
				func(e *agents.Entry) { e.PID = p(uint32(os.Getpid())) }); err != nil {
				t.Fatal(err)
			}
			wantLost(t, lease)
			if held, ok, err := f.Reservation(ctx, "main"); err != nil || ok {
				t.Errorf("then: %+v, %v, %v", held, ok, err)
			}
		})
	}
}

func TestLease_WithOwnerEntryPIDIsHint(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	for _, pid := range []*uint32{p(gone), nil, p(uint32(os.Getpid()))} {
		if _, err := lease.Update(ctx, func(e *agents.Entry) { e.PID = pid }); err != nil {
			t.Fatal(err)
		}
		if got := f.owner(t, "main"); got != lease.SessionID() {
			t.Errorf("the owner is %q", got)
		}
		if n, err := f.ReapDead(ctx); n != 0 || err != nil {
			t.Errorf("reaped %d, %v", n, err)
		}
	}
}

func TestALeaseIsItsOwnAgentsAlone(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	other, err := f.CreateGeneratedEntry(ctx, onThread("elsewhere", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	wantLost(t, agents.LeaseOf(f.Registry, other.SessionID, "main", lease.Epoch()))
	wantLost(t, agents.LeaseOf(f.Registry, lease.SessionID(), "elsewhere", lease.Epoch()))
	if got := load(t, f.Registry, other.SessionID); !got.Equal(other) {
		t.Errorf("the other agent became %s", got.TOML())
	}
	if err := lease.Renew(ctx); err != nil {
		t.Error(err)
	}
}

func TestLease_LongestTTLDoesNotWrap(t *testing.T) {
	for _, o := range []db.LeaseTerms{{TTL: math.MaxInt64}, {TTL: math.MaxInt64 - time.Hour, Detached: true}} {
		f := newFixture(t)
		lease := f.lease(t, "main", o)
		for range 2 {
			f.boot.Since += 1000 * time.Hour
			if held, ok, err := f.Reservation(ctx, "main"); err != nil || !ok || held.Live != agents.Alive {
				t.Errorf("%+v: %+v, %v, %v", o, held, ok, err)
			}
			if err := lease.Renew(ctx); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
}

func TestALeaseIsTakenUpAgain(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	again, err := f.Reattach(ctx, lease.SessionID(), "main", lease.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Renew(ctx); err != nil {
		t.Error(err)
	}
	for what, name := range map[string]struct {
		id, thread string
		epoch      int64
	}{
		"another epoch":  {lease.SessionID(), "main", lease.Epoch() + 1},
		"another thread": {lease.SessionID(), "other", lease.Epoch()},
		"another agent":  {"agent-other", "main", lease.Epoch()},
	} {
		if l, err := f.Reattach(ctx, name.id, name.thread, name.epoch); !errors.Is(err, db.ErrLeaseLost) ||
			l != nil {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
	f.boot.Since += time.Minute
	if _, err := f.Reattach(ctx, lease.SessionID(), "main", lease.Epoch()); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("one that is over: %v", err)
	}
}

func TestAClosedFileGivesItsLeasesUpForEver(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lease, _, err := agents.NewRegistry(d, agents.Options{}).TryLeaseThread(ctx, "main", minute,
		onThread("main", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	r := agents.NewRegistry(dbtest.OpenAt(t, path, db.Options{}), agents.Options{})
	// registers the process again
	if _, _, err := r.TryLeaseThread(ctx, "other", minute, onThread("other", os.Getpid())); err != nil {
		t.Fatal(err)
	}
	wantLost(t, agents.LeaseOf(r, lease.SessionID(), "main", lease.Epoch()))
	if held, ok, err := r.Reservation(ctx, "main"); err != nil || !ok || held.Live != agents.Dead {
		t.Errorf("it is %+v, %v, %v", held, ok, err)
	}
}

// The heartbeat is in time, and not committed yet when another process reads.
func TestWhatWasCalledDeadIsNotAliveAgain(t *testing.T) {
	boot := db.BootTime{Boot: "first", Since: time.Hour}
	beating, read, looked := make(chan struct{}), make(chan struct{}, 1), make(chan error)
	d := dbtest.Open(t, db.Options{
		BootTime: func() db.BootTime { return boot },
		Observe: func(o db.Observation) {
			if o.Why == "look up reservation" && !o.Write {
				read <- struct{}{}
			}
		},
	})
	r := agents.NewRegistry(d, agents.Options{})
	lease, _, err := r.TryLeaseThread(ctx, "main", minute, onThread("main", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	boot.Since += time.Minute - 1
	go func() {
		<-beating
		held, ok, err := r.Reservation(ctx, "main")
		if err == nil && (!ok || held.Live != agents.Alive) {
			err = errors.New("it is called " + string(held.Live))
		}
		looked <- err
	}()
	err = d.Write(ctx, "beat", func(tx *db.Tx) error {
		if err := lease.RenewTx(tx); err != nil {
			return err
		}
		boot.Since++
		close(beating)
		<-read // which saw the lease as it was
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-looked; err != nil {
		t.Error(err)
	}
}

func TestKeepRenewsALeaseUntilItIsLost(t *testing.T) {
	const ttl = 1500 * time.Millisecond
	beats := make(chan struct{}, 100)
	var passed atomic.Int64 // on a clock that stands still while the machine has no time for the keeper
	d := dbtest.Open(t, db.Options{
		BootTime: func() db.BootTime {
			return db.BootTime{
				Boot:  "first",
				Since: time.Hour + time.Duration(passed.Load()),
			}
		},
		Observe: func(o db.Observation) {
			if o.Why == "renew lease" && o.Err == nil {
				beats <- struct{}{}
			}
		},
	})
	r := agents.NewRegistry(d, agents.Options{})
	lease, _, err := r.TryLeaseThread(ctx, "main", db.LeaseTerms{TTL: ttl}, onThread("main", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	kept, stop := lease.Keep(t.Context())
	defer stop()
	for range 3 { // more than its TTL
		<-beats
		passed.Add(int64(ttl / 2))
	}
	if kept.Err() != nil {
		t.Fatalf("it ended: %v", context.Cause(kept))
	}
	if err := r.UpdateStatus(ctx, lease.SessionID(), agents.Abandoned); err != nil {
		t.Fatal(err)
	}
	<-kept.Done()
	if err := context.Cause(kept); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the cause is %v", err)
	}
}

func TestKeepingWhatIsOverSaysWhatItIs(t *testing.T) {
	f := newFixture(t)
	l := f.lease(t, "main", db.LeaseTerms{TTL: time.Minute})
	f.boot.Since += time.Minute
	kept, stop := l.Keep(t.Context())
	defer stop()
	<-kept.Done()
	if err := context.Cause(kept); !errors.Is(err, db.ErrLeaseLost) ||
		!strings.Contains(err.Error(), l.SessionID()) {
		t.Errorf("the cause is %v", err)
	}
}

func TestHold_ReturnsCallersErrorUnchanged(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	mine := &db.Error{Op: "mine", Err: errors.New("no")}
	before := fmt.Sprintf("%+v", *mine)
	if err := lease.Hold(ctx, "work", func(*db.Tx) error { return mine }); !errors.Is(err, mine) ||
		fmt.Sprintf("%+v", *mine) != before {
		t.Errorf("%v became %+v", err, mine)
	}
}

func TestATransactionOfAnotherFileIsRefused(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	lease := f.lease(t, "main", minute)
	other.lease(t, "main", minute)
	err := other.db.Write(ctx, "foreign", func(tx *db.Tx) error {
		_, _, update := f.UpdateEntryTx(tx, "agent-a", func(*agents.Entry) {})
		_, reserve := f.TryReserveThreadTx(tx, "x", onThread("x", 1))
		_, get := f.GetTx(&tx.Rx, "agent-a")
		_, page := f.PageTx(&tx.Rx, agents.Filter{}, db.At{})
		_, find := f.FindTx(&tx.Rx, "", 0)
		for what, err := range map[string]error{
			"hold": lease.HoldTx(tx), "heartbeat": lease.RenewTx(tx), "release": lease.ReleaseTx(tx, agents.Complete),
			"save": f.SaveTx(tx, entry("agent-a", agents.Active)), "update": update, "reserve": reserve, "get": get,
			"page": page, "find": find,
			"delete": f.DeleteTx(tx, "agent-a"), "status": f.UpdateStatusTx(tx, "agent-a", agents.Merged),
			"query": f.LogContextQueryTx(tx, "agent-a", agents.ContextQuery{}),
		} {
			if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "another file") {
				t.Errorf("%s: %v", what, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Containers: the pid is of another namespace, and its processes can't be seen here.
func TestAPIDOfAnotherNamespaceSaysNothing(t *testing.T) {
	if txn.PIDNamespace() == nil {
		t.Fatal("this system has no namespaces: run the test on Linux")
	}
	f := newFixture(t)
	e := entry("agent-a", agents.Active)
	e.Thread, e.PID, e.BootID = "main", p(gone), p("another start")
	save(t, f.Registry, e)
	err := f.db.Write(ctx, "as if from a container", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE agents SET pid_ns = pid_ns + 1`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := agents.LivenessFor(load(t, f.Registry, "agent-a")); got != agents.Unknown {
		t.Errorf("it is %s", got)
	}
	if n, err := f.ReapDead(ctx); n != 0 || err != nil {
		t.Errorf("reaped %d, %v", n, err)
	}
	if got := f.owner(t, "main"); got != "agent-a" {
		t.Errorf("the owner is %q", got)
	}
	if _, _, err := f.UpdateEntry(ctx, "agent-a", func(e *agents.Entry) { e.Model = p("m") }); err != nil {
		t.Fatal(err)
	}
	if got := agents.LivenessFor(load(t, f.Registry, "agent-a")); got != agents.Unknown {
		t.Errorf("after a change from here it is %s", got)
	}
}

// A pid that another process got since is not the agent's any more.
func TestAReusedPIDEndsADetachedLease(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", detached)
	err := f.db.Write(ctx, "as if born at another time", func(tx *db.Tx) error {
		n, err := tx.Exec(`UPDATE agent_reservations SET pid_born_at = pid_born_at - 1
			WHERE pid_born_at IS NOT NULL`)
		if err == nil && n != 1 {
			err = errors.New("nobody noted when the process was born")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantLost(t, lease)
	if got := f.owner(t, "main"); got != "" {
		t.Errorf("the owner is %q", got)
	}
}

// A heartbeat of the lease is newer than what the entry says, until somebody writes the entry.
func TestWhatIsWrittenIsReadBackBehindAHeartbeat(t *testing.T) {
	f := newFixture(t)
	lease := f.lease(t, "main", minute)
	if err := lease.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	want := f.wall.Now().Add(-time.Hour)
	if _, _, err := f.UpdateEntry(ctx, lease.SessionID(),
		func(e *agents.Entry) { e.HeartbeatAt, e.LastProgressAt = &want, nil }); err != nil {
		t.Fatal(err)
	}
	if got := load(t, f.Registry, lease.SessionID()); !got.HeartbeatAt.Equal(want) || got.LastProgressAt != nil {
		t.Errorf("it is %s", got.TOML())
	}
}
