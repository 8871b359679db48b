//go:build postgres

package failover_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// Runs of a file that is moved, and records of each.
const (
	movedRuns    = 40
	movedRecords = 100
)

// toBeMoved makes a file with a little of several stores.
func toBeMoved(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "from.db")
	d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	rs, ls, rg, cs := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{}),
		agents.NewRegistry(d, agents.Options{}), checkpoints.NewStore(d, checkpoints.Options{})
	err := d.Write(t.Context(), "fill", func(tx *db.Tx) error {
		for n := range movedRuns {
			name := fmt.Sprint("moved-", n)
			r, err := rs.BeginTx(tx, runs.Started{AgentID: "agent", RunID: name}, runs.BeginOptions{})
			if err != nil {
				return err
			}
			for i := range movedRecords {
				if err := r.AppendTx(tx, turn(fmt.Sprint(i, strings.Repeat(" word", 100)))); err != nil {
					return err
				}
			}
			if err := r.ReleaseTx(tx); err != nil {
				return err
			}
			if _, err := ls.CreateRunWithIDTx(tx, name, session, ""); err != nil {
				return err
			}
			if _, err := ls.AppendTx(tx, name, live.Batch{Events: []live.Event{
				live.TextDelta("one"),
				live.TextDelta("two"),
			}}); err != nil {
				return err
			}
			if err := rg.SaveTx(tx, agents.Entry{
				SessionID: name, Thread: name, Status: agents.Active,
				StartedAt: time.Now(),
			}); err != nil {
				return err
			}
			if err := cs.SaveTx(tx, paused(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// answersOf returns the stores' answers about the database, wherever it is.
func answersOf(t *testing.T, path string) (lines []string) {
	t.Helper()
	d, err := db.Open(t.Context(), path, db.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // opened for reading only
	rs, ls, rg, cs := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{}),
		agents.NewRegistry(d, agents.Options{}), checkpoints.NewStore(d, checkpoints.Options{})
	for n := range movedRuns {
		name := fmt.Sprint("moved-", n)
		lines = append(lines, fmt.Sprint(name, readRun(t.Context(), t, rs, sharedRun(name))),
			fmt.Sprint(name, readLive(t.Context(), t, ls, name)))
		e, err := rg.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", e.SessionID, e.Status, e.StartedAt.UTC()))
	}
	for c, err := range cs.All(t.Context(), checkpoints.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, c.RunID)
	}
	return lines
}

// A file is moved to the cluster, whose primary is killed at a step of it, and back. The same line
// is run again until it succeeds.
func TestFailoverBelowAMove(t *testing.T) {
	c := started(t)
	from := toBeMoved(t)
	want := answersOf(t, from)
	last := ""
	for _, m := range []struct {
		step string
		kill bool // or a planned switchover
		back bool // to a file
	}{
		{"copy", true, false},
		{"copy", true, true},
		{"shut", false, false},
		{"compare", true, true},
		{"compare", false, false},
		{"complete", true, true},
		{"open", true, false},
	} {
		to := filepath.Join(t.TempDir(), "to.db")
		if !m.back {
			to = fmt.Sprintf("%s&search_path=after_%s_%t", c.address, m.step, m.kill)
		}
		leader := c.whole()
		var fault sync.Once
		var during sync.WaitGroup
		ctx := db.WithProgress(t.Context(), func(p db.Progress) {
			if p.Step != m.step || p.Step == "copy" && p.Done == 0 {
				return
			}
			fault.Do(func() {
				if !m.kill {
					during.Go(func() { c.do("switchover", 0) })
					return
				}
				c.do("kill", leader)
			})
		})
		began, calls := time.Now(), 0
		var report maintenance.Moved
		c.until("the move ends", func() bool {
			var err error
			calls++
			report, err = maintenance.Move(ctx, from, to, db.Options{})
			switch {
			case err == nil:
				return true
			case !passes(err), errors.Is(err, context.Canceled):
				t.Fatalf("%s, call %d: %v", m.step, calls, err)
			}
			t.Logf("%s, call %d: %v", m.step, calls, err)
			return false
		})
		during.Wait()
		t.Logf("a fault at %q (kill: %t, back to a file: %t): %d calls, %.1f s", m.step, m.kill, m.back, calls,
			time.Since(began).Seconds())
		if leader == leaderOf(c) {
			t.Errorf("%s: nobody took the primary's place", m.step)
		}
		if report.SHA256 == "" || !report.Already && report.SHA256 != report.ToSHA256 || len(report.Differs) > 0 ||
			last != "" && report.SHA256 != last {
			t.Errorf("%s: the proof is %q and %q, before %q, and %d rows differ", m.step, report.SHA256,
				report.ToSHA256, last, len(report.Differs))
		}
		last = report.SHA256
		if got := answersOf(t, to); !slices.Equal(got, want) {
			t.Errorf("%s: what was moved does not answer as it did", m.step)
		}
		if _, err := db.Open(t.Context(), from, db.Options{}); !errors.Is(err, db.ErrMoved) {
			t.Errorf("%s: the source is open for writing: %v", m.step, err)
		}
		d, err := db.Open(t.Context(), to, db.Options{})
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			t.Errorf("%s: the target takes no work: %v", m.step, err)
		}
		if m.kill {
			c.do("begin", leader)
		}
		from = to
	}
}

// leaderOf waits for a leader, and returns it.
func leaderOf(c *cluster) (leader int) {
	c.t.Helper()
	c.until("a node leads", func() bool {
		leader, _ = c.leader()
		return leader != 0
	})
	return leader
}
