package agents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/dbtest"
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

func TestReapingAThreadGoesThroughAllItsPages(t *testing.T) {
	agents.InSmallTurns(t)
	r := newRegistry(t)
	mixed(t, r, 18)
	if n, err := r.ReapDeadForThread(ctx, "t/1"); n != 3 || err != nil {
		t.Errorf("reaped %d of 3, %v", n, err)
	}
}

func TestWhatWasReapedBeforeTheContextEndedStaysReaped(t *testing.T) {
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
