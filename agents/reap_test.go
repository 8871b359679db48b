package agents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// mixed saves agents of which every second has a process that is gone.
func mixed(t *testing.T, r *agents.Registry, n int) (dead int) {
	t.Helper()
	for i := range n {
		e := entry(fmt.Sprintf("agent-%02d", i), agents.Active)
		e.Thread, e.PID = fmt.Sprintf("t/%d", i%3), p(uint32(os.Getpid()))
		if i%2 == 0 {
			dead++
			e.PID = p(uint32(0x7fff_ffff))
		}
		save(t, r, e)
	}
	return dead
}

func TestReapingManyLetsOtherWritersIn(t *testing.T) {
	agents.InSmallTurns(t)
	writes := 0
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if o.Write && o.Why == "reap dead agents" {
			writes++
		}
	}})
	r := agents.NewRegistry(d, agents.Options{})
	dead := mixed(t, r, 9)
	if n, err := r.ReapDead(ctx); n != dead || err != nil {
		t.Errorf("reaped %d of %d, %v", n, dead, err)
	}
	if writes != dead {
		t.Errorf("%d turns of the writer for %d dead agents of one each", writes, dead)
	}
	if n, err := r.ReapDead(ctx); n != 0 || err != nil || writes != dead {
		t.Errorf("reaped %d more in %d turns, %v", n, writes-dead, err)
	}
}

func TestAReapingThatIsRunAgainCountsEachOnce(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	r := agents.NewRegistry(d, agents.Options{})
	dead := mixed(t, r, 5)
	dbtest.Again(t, d, func() {
		if n, err := r.ReapDead(ctx); n != dead || err != nil {
			t.Errorf("reaped %d of %d, %v", n, dead, err)
		}
	})
}

// An agent that ended since the read, or whose id a living one took, stays as it is.
func TestReapingJudgesAnewWhatChangedSinceItLooked(t *testing.T) {
	path := dbtest.Path(t)
	other := agents.NewRegistry(dbtest.OpenAt(t, path, db.Options{}), agents.Options{})
	looking := false
	d := dbtest.OpenAt(t, path, db.Options{Observe: func(o db.Observation) {
		if o.Write || !looking {
			return
		}
		looking = false
		alive := entry("agent-00", agents.Active)
		alive.PID = p(uint32(os.Getpid()))
		save(t, other, alive)
		if err := other.Delete(ctx, "agent-02"); err != nil {
			t.Error(err)
		}
		if err := other.UpdateStatus(ctx, "agent-04", agents.Complete); err != nil {
			t.Error(err)
		}
	}})
	r := agents.NewRegistry(d, agents.Options{})
	mixed(t, r, 7)
	looking = true
	if n, err := r.ReapDead(ctx); n != 1 || err != nil {
		t.Errorf("reaped %d, and only agent-06 is dead still: %v", n, err)
	}
}

func TestReapingAThreadGoesThroughAllItsPages(t *testing.T) {
	agents.InSmallTurns(t)
	r := newRegistry(t)
	mixed(t, r, 18)
	if n, err := r.ReapDeadForThread(ctx, "t/1"); n != 3 || err != nil {
		t.Errorf("reaped %d of 3, %v", n, err)
	}
}

func TestReap_StaysAfterContextEnds(t *testing.T) {
	agents.InSmallTurns(t)
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(ctx)
	writes := 0
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if o.Write && o.Why == "reap dead agents" {
			if writes++; writes == 2 {
				stop(stopped)
			}
		}
	}})
	r := agents.NewRegistry(d, agents.Options{})
	mixed(t, r, 9)
	if n, err := r.ReapDead(ctx); n != 2 || !errors.Is(err, stopped) {
		t.Errorf("reaped %d, %v; want 2 and the context's cause", n, err)
	}
	if n, err := r.ReapDead(t.Context()); n != 3 || err != nil {
		t.Errorf("then %d, %v; want the other 3", n, err)
	}
}

func TestRecoverTakesOnlyWhatIsCertainlyDead(t *testing.T) {
	f := newFixture(t)
	over, held := f.lease(t, "over", detached), f.lease(t, "held", db.LeaseTerms{TTL: time.Hour})
	dead, alive, imported := entry("agent-dead", agents.Active), entry("agent-alive", agents.Active),
		entry("agent-imported", agents.Active)
	dead.PID, alive.PID, imported.PID = p(gone), p(uint32(os.Getpid())), p(gone)
	save(t, f.Registry, dead, alive, imported, entry("agent-no-pid", agents.Active))
	if err := f.db.Write(ctx, "as from an import", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE agents SET pid_ns = NULL WHERE session_id = 'agent-imported'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.boot.Since += time.Minute
	for _, want := range []int{2, 0} {
		if n, err := f.Recover(ctx); n != want || err != nil {
			t.Errorf("recovered %d, %v; want %d", n, err, want)
		}
	}
	for id, want := range map[string]agents.Status{
		over.SessionID(): agents.Abandoned, "agent-dead": agents.Abandoned,
		held.SessionID(): agents.Active, "agent-alive": agents.Active, "agent-no-pid": agents.Active,
		"agent-imported": agents.Active,
	} {
		if got := load(t, f.Registry, id); got.Status != want {
			t.Errorf("%s is %s, want %s", id, got.Status, want)
		}
	}
	if n, err := f.ReapDead(ctx); n != 1 || err != nil {
		t.Errorf("reaped %d, %v; want the imported one", n, err)
	}
}

func TestRecover_ForgetsProcessesThatAreGone(t *testing.T) {
	other := startRacers(t, 1)
	d := dbtest.OpenAt(t, other.path, db.Options{})
	r := agents.NewRegistry(d, agents.Options{})
	if answer := other.tell(0, "lease agent-a main"); answer != "won agent-a" {
		t.Fatalf("it said %q", answer)
	}
	if n, err := r.Recover(ctx); n != 0 || err != nil {
		t.Errorf("while it lives: %d, %v", n, err)
	}
	other.all[0].Kill()
	if n, err := r.Recover(ctx); n != 1 || err != nil {
		t.Errorf("recovered %d, %v", n, err)
	}
	owners := -1
	err := d.Read(ctx, "count", func(rx *db.Rx) error { return rx.Get(&owners, `SELECT count(*) FROM owners`) })
	if err != nil || owners != 0 {
		t.Errorf("%d processes are registered, %v", owners, err)
	}
}

func TestReapingGoesOnAmongAgentsThatBeganTogether(t *testing.T) {
	agents.InSmallTurns(t)
	r := newRegistry(t)
	began := time.Now()
	for i := range 7 {
		e := entry(fmt.Sprint("agent-", i), agents.Active)
		e.StartedAt, e.PID = began, p(gone)
		if i == 2 || i == 3 { // a page whose end lives
			e.PID = p(uint32(os.Getpid()))
		}
		save(t, r, e)
	}
	if n, err := r.ReapDead(ctx); n != 5 || err != nil {
		t.Errorf("reaped %d of 5, %v", n, err)
	}
}

func TestAPIDThatNoProcessCanHaveIsDead(t *testing.T) {
	for pid, want := range map[uint32]agents.Liveness{
		0: agents.Dead, 1 << 31: agents.Dead, gone: agents.Dead,
		uint32(os.Getpid()): agents.Alive,
	} {
		e := entry("agent-a", agents.Active)
		e.PID = &pid
		if got := agents.LivenessFor(e); got != want {
			t.Errorf("pid %d is %s", pid, got)
		}
	}
}
