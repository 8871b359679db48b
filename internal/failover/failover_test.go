//go:build postgres

package failover_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// enough is how often something must have been done before it counts as going on.
const enough = 5

// A trial is a cluster that is written to.
type trial struct {
	*cluster
	notes   *notes
	writers []string
	before  *db.DB // open since before any fault
	fault   time.Time
}

// begun prepares a cluster and has three processes write to it, and two follow.
func begun(t *testing.T, c *cluster) *trial {
	t.Helper()
	x := &trial{cluster: c, notes: &notes{t: t}, writers: []string{"a", "b", "c"}}
	x.before = dbtest.OpenAt(t, c.address, db.Options{})
	x.prepare(t, x.before, "a", "b", "c", "pinned")
	for _, name := range x.writers {
		x.notes.listen(name, dbtest.Start(t, "write", c.address, name, "streams", "holds", "claims"))
	}
	for _, name := range []string{"follower 1", "follower 2"} {
		x.notes.listen(name, dbtest.Start(t, "follow", c.address))
	}
	x.goesOn(time.Time{})
	return x
}

// prepare makes what the writers write to.
func (x *trial) prepare(t *testing.T, d *db.DB, writers ...string) {
	t.Helper()
	rs, ls, cs := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{}), checkpoints.NewStore(d, checkpoints.Options{})
	err := d.Write(t.Context(), "prepare", func(tx *db.Tx) error {
		names := append([]string{shared, "keyed", "taken"}, writers...)
		for _, lane := range laneNames {
			names = append(names, logOf(lane).RunID)
		}
		for _, name := range names {
			ref := sharedRun(name)
			r, err := rs.BeginTx(tx, runs.Started{AgentID: ref.AgentID, RunID: ref.RunID})
			if err != nil {
				return err
			}
			if err := r.ReleaseTx(tx); err != nil {
				return err
			}
		}
		for _, id := range []string{shared, "taken"} {
			if _, err := ls.CreateRunWithIDTx(tx, id, session, ""); err != nil {
				return err
			}
		}
		if _, err := workers.OpenTx(tx, d, workers.RuntimeOptions{RuntimeID: shared}); err != nil {
			return err
		}
		return cs.SaveTx(tx, paused(shared))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goesOn waits until every process writes, and every lane is written to, since a moment.
func (x *trial) goesOn(since time.Time) {
	x.t.Helper()
	var lanes []string
	for _, name := range x.writers {
		lanes = append(lanes, name+" runs/"+shared, name+" runs/"+name, name+" runs/keyed", name+" live/"+shared, name+" live/"+name, name+" workers/", name+" agents/"+name, name+" saved")
	}
	for _, lane := range laneNames {
		lanes = append(lanes, " held-"+lane)
	}
	lanes = append(lanes, " completed")
	var missing []string
	end := time.Now().Add(patience)
	for {
		counts := map[string]int{}
		for _, n := range x.notes.all() {
			if n.kind == acked && n.at.After(since) {
				lane := n.lane
				if strings.HasPrefix(lane, "workers/") {
					lane = "workers/"
				}
				counts[n.process+" "+lane]++
				counts[" "+lane]++
			}
		}
		missing = missing[:0]
		for _, lane := range lanes {
			if counts[lane] < enough {
				missing = append(missing, lane)
			}
		}
		if len(missing) == 0 {
			return
		}
		if time.Now().After(end) {
			report(x.t, x.notes.all(), x.fault)
			x.t.Fatalf("after %v these do not go on: %q", patience, missing)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// over ends the writing, waits until the followers have all of it, and judges.
func (x *trial) over() {
	x.t.Helper()
	follower := func(name string) bool { return strings.HasPrefix(name, "follower") }
	x.notes.stop(func(name string) bool { return !follower(name) })
	d := dbtest.OpenAt(x.t, x.address, db.Options{})
	w := readWorld(x.t, d, x.writers)
	x.until("the followers have everything", func() bool {
		last := map[string]string{}
		for _, n := range x.notes.all() {
			if n.kind == item {
				last[n.process+" "+n.lane] = n.rest
			}
		}
		for name := range x.notes.processes {
			for _, lane := range followedLanes() {
				all := w.streams[lane]
				if last[name+" "+lane] != fmt.Sprint(all[len(all)-1].sequence) {
					return false
				}
			}
		}
		return true
	})
	x.notes.stop(follower)
	said := x.notes.all()
	report(x.t, said, x.fault)
	w.judge(x.t, said)
	problems, err := d.Check(x.t.Context())
	if err != nil {
		x.t.Error(err)
	}
	for _, p := range problems {
		x.t.Errorf("check: %v", p)
	}
}

func followedLanes() []string {
	lanes := []string{"runs/" + shared, "live/" + shared, "workers"}
	for _, lane := range laneNames {
		lanes = append(lanes, "held-"+lane)
	}
	return lanes
}

func TestFailoverOfAKilledLeader(t *testing.T) {
	x := begun(t, started(t))
	leader, _ := x.leader()
	x.fault = time.Now()
	x.do("kill", leader)
	x.replaced(leader)
	x.goesOn(time.Now())
	x.over()
}
