//go:build postgres

package failover_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// enough is how often something must have been done before it counts as going on.
const enough = 5

// A trial is a cluster that is written to.
type trial struct {
	*cluster
	notes   *notes
	writers []string
	pinned  []string // writers that know only the primary that is replaced
	before  *db.DB   // open since before any fault
	fault   time.Time
	apart   time.Duration // by how much the servers' clocks are, at most
}

// begun prepares a cluster and has three processes write to it, and two follow.
func begun(t *testing.T, c *cluster) *trial { return begunWith(t, c, 0) }

// begunWith has the writers' clocks be so far apart from the next.
func begunWith(t *testing.T, c *cluster, skew time.Duration) *trial {
	t.Helper()
	x := &trial{cluster: c, notes: &notes{t: t}, writers: []string{"a", "b", "c"}}
	x.before = dbtest.OpenAt(t, c.address, db.Options{})
	x.prepare(t, x.before, "a", "b", "c", "pinned")
	for i, name := range x.writers {
		clock := fmt.Sprintf("%s=%v", aheadVariable, time.Duration(i-1)*skew)
		x.notes.listen(name, dbtest.StartUnder(t, []string{"env", clock}, "write", c.address, name, "streams",
			"holds", "claims"))
	}
	for _, name := range []string{"follower 1", "follower 2"} {
		x.notes.listen(name, dbtest.Start(t, "follow", c.address))
	}
	x.goesOn(time.Time{})
	return x
}

// pin has a process write that knows only one server, and waits until it does.
func (x *trial) pin(p *dbtest.Process) {
	x.t.Helper()
	x.pinned = append(x.pinned, "pinned")
	x.notes.listen("pinned", p)
	x.until("the pinned process writes", func() bool {
		return x.notes.count(time.Time{}, func(n note) bool {
			return n.process == "pinned" &&
				n.kind == acked
		}) >= enough
	})
}

// prepare makes the things that the writers write to.
func (x *trial) prepare(t *testing.T, d *db.DB, writers ...string) {
	t.Helper()
	rs, ls, cs := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{}),
		checkpoints.NewStore(d, checkpoints.Options{})
	err := d.Write(t.Context(), "prepare", func(tx *db.Tx) error {
		names := append([]string{shared, "keyed", "taken"}, writers...)
		for _, lane := range laneNames {
			names = append(names, logOf(lane).RunID)
		}
		for _, name := range names {
			ref := sharedRun(name)
			r, err := rs.BeginTx(tx, runs.Started{AgentID: ref.AgentID, RunID: ref.RunID}, runs.BeginOptions{})
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

// goesOn waits until every process writes, and every lane is written to, since a moment. Some may
// be left out.
func (x *trial) goesOn(since time.Time, but ...string) {
	x.t.Helper()
	var lanes []string
	for _, name := range x.writers {
		if slices.Contains(but, name) {
			continue
		}
		lanes = append(lanes, name+" runs/"+shared, name+" runs/"+name, name+" runs/keyed", name+" live/"+shared,
			name+" live/"+name, name+" workers/", name+" agents/"+name, name+" saved")
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
			x.lastOf(missing)
			x.t.Fatalf("after %v these do not go on: %q", patience, missing)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// lastOf logs the last report of each lane, in turn.
func (x *trial) lastOf(lanes []string) {
	x.t.Helper()
	for _, lane := range lanes {
		_, lane, _ = strings.Cut(lane, " ")
		said := slices.DeleteFunc(x.notes.all(), func(n note) bool {
			return !strings.Contains(n.lane, strings.TrimPrefix(lane, "held-")) || n.kind == item
		})
		for _, n := range said[max(0, len(said)-20):] {
			x.t.Logf("%s: %.1f s after the fault %s: %s %s %s", lane, n.at.Sub(x.fault).Seconds(), n.process, n.kind,
				n.text, n.rest)
		}
	}
}

// over ends the writing, waits until the followers have all of it, and judges.
func (x *trial) over() {
	x.t.Helper()
	follower := func(name string) bool { return strings.HasPrefix(name, "follower") }
	x.notes.stop(func(name string) bool { return !follower(name) })
	d := dbtest.OpenAt(x.t, x.address, db.Options{})
	w := readWorld(x.t, d, append(x.pinned, x.writers...))
	w.apart = x.apart
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

// standsBy waits until a node that led is a standby.
func (x *trial) standsBy(node int) {
	x.t.Helper()
	x.until("the old primary is a standby", func() bool {
		timeline, ok := x.ask(node, sqlTimeline)
		return ok && timeline == 0
	})
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

// Every process of the primary's node stands still, as on a machine without memory: its
// connections stay open, and nothing comes over them.
func TestFailoverOfAStoppedNode(t *testing.T) {
	x := begun(t, started(t))
	leader, _ := x.leader()
	x.fault = time.Now()
	x.do("pause", leader)
	x.replaced(leader)
	x.goesOn(time.Now())
	x.do("resume", leader)
	x.standsBy(leader)
	x.goesOn(time.Now())
	x.over()
}

// Only Patroni stands still on the primary's node, which the others replace: PostgreSQL continues
// there, as a primary that does not know it was replaced. One process knows no other server.
func TestFailoverLeavesAStalePrimary(t *testing.T) {
	x := begun(t, started(t))
	leader, _ := x.leader()
	x.pin(dbtest.Start(t, "write", x.alone(leader), "pinned", "streams"))
	x.fault = time.Now()
	x.do("pause-patroni", leader)
	x.replaced(leader)
	if timeline, ok := x.ask(leader, sqlTimeline); !ok || timeline == 0 {
		t.Error("the primary that was replaced is none any more: this shows nothing of stale ones")
	}
	x.goesOn(time.Now())
	x.do("resume", leader)
	x.standsBy(leader)
	x.over()
}

// The primary's node is cut off from the others, from etcd and from the clients, but for one that is on it.
func TestFailoverOfANodeThatIsCutOff(t *testing.T) {
	c, there := inItsNetwork(t)
	if !there {
		return
	}
	x := begun(t, c)
	leader, _ := x.leader()
	x.pin(dbtest.StartUnder(t, []string{"ip", "netns", "exec", x.space(leader)}, "write", x.alone(leader),
		"pinned", "streams"))
	x.fault = time.Now()
	x.do("cut", leader)
	x.replaced(leader)
	x.goesOn(time.Now())
	x.do("join", leader)
	x.standsBy(leader)
	x.goesOn(time.Now())
	x.over()
}

// Before maintenance a standby is had to take the primary's place: three times, each when the last is over.
func TestFailoverThatIsPlanned(t *testing.T) {
	x := begun(t, started(t))
	x.fault = time.Now()
	for range 3 {
		leader := x.whole()
		x.do("switchover", 0)
		x.replaced(leader)
		x.goesOn(time.Now())
	}
	x.over()
}

// A process that holds things stands still, and the primary is killed. When the process
// continues, others have what it held.
func TestFailoverWhileAHolderStandsStill(t *testing.T) {
	c := started(t)
	c.address += "&selvedge.owner_ttl=45s"
	x := begun(t, c)
	leader, _ := x.leader()
	x.fault = time.Now()
	x.notes.processes["c"].Signal(syscall.SIGSTOP)
	x.do("kill", leader)
	x.replaced(leader)
	x.goesOn(time.Now(), "c")
	x.notes.processes["c"].Signal(syscall.SIGCONT)
	x.goesOn(time.Now())
	x.over()
}

// Without etcd no primary remains one, and none replaces it: every process gets an error that
// nothing was changed, or that an outcome is unknown, and continues when etcd is back.
func TestFailoverWithoutEtcd(t *testing.T) {
	x := begun(t, started(t))
	x.fault = time.Now()
	x.do("pause-etcd", 0)
	x.until("there is no primary", func() bool {
		node, _ := x.leader()
		return node == 0
	})
	for _, name := range x.writers {
		x.until(name+" is told that no primary is there", func() bool {
			return x.notes.count(x.fault, func(n note) bool {
				return n.process == name &&
					(n.kind == failed || n.kind == unknown)
			}) >= enough
		})
	}
	x.do("resume-etcd", 0)
	x.goesOn(time.Now())
	x.over()
}

// The nodes' clocks are a minute and a half apart, which is more than a process may be silent,
// and the writers' clocks an hour. A hold may then end too early, or last longer by the
// difference of the clocks. But there are never two holders: the earlier one is refused.
func TestFailoverToAnotherClock(t *testing.T) {
	x := begunWith(t, started(t, "SKEW=90"), time.Hour)
	early, _ := x.ask(1, `SELECT extract(epoch FROM clock_timestamp())::int`)
	late, _ := x.ask(3, `SELECT extract(epoch FROM clock_timestamp())::int`)
	if late-early < 170 {
		t.Fatalf("the clocks are %d s apart", late-early)
	}
	x.apart = 180 * time.Second
	x.fault = time.Now()
	for range 3 {
		leader := x.whole()
		x.do("kill", leader)
		next := x.replaced(leader)
		t.Logf("node %d has taken the place of node %d, %d s ahead of it", next, leader, 90*(next-leader))
		x.goesOn(time.Now())
		x.do("begin", leader)
	}
	x.over()
}

// Of twenty packets one is lost, everywhere, and the primary is killed.
func TestFailoverOverALossyNetwork(t *testing.T) {
	c, there := inItsNetwork(t)
	if !there {
		return
	}
	x := begun(t, c)
	x.do("spoil", 5)
	x.goesOn(time.Now())
	leader, _ := x.leader()
	x.fault = time.Now()
	x.do("kill", leader)
	x.replaced(leader)
	x.goesOn(time.Now())
	x.do("spoil", 0)
	x.over()
}

// Commits that wait for no standby are lost with the primary, if only the standbys don't have them
// yet: so the judge sees losses.
func TestFailoverLosesWhatNoStandbyHas(t *testing.T) {
	x := begun(t, started(t, "SYNCHRONOUS=off"))
	leader, _ := x.leader()
	x.do("pause-receivers", 0)
	x.goesOn(time.Now())
	x.fault = time.Now()
	x.do("kill", leader)
	x.do("drop-receivers", 0)
	x.replaced(leader)
	x.notes.stop(func(string) bool { return true })
	w := readWorld(t, dbtest.OpenAt(t, x.address, db.Options{}), x.writers)
	said := x.notes.all()
	report(t, said, x.fault)
	done := 0
	for _, n := range said {
		if n.kind == acked {
			done++
		}
	}
	gone := w.losses(said)
	t.Logf("%d of %d acknowledged writes are lost", len(gone), done)
	if len(gone) == 0 {
		t.Error("nothing was lost: the judge sees nothing, or the control is none")
	}
}
