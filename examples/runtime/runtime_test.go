package main

import (
	"context"
	"fmt"
	"testing"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs"
	"selvedge/runs/live"
)

func TestMain(m *testing.M) {
	dbtest.Main(m, map[string]dbtest.Program{
		"runtime": func(args []string) error { return work(context.Background(), args[0], args[1:]) },
	})
}

func TestWhatAKilledRuntimeDidIsNeitherLostNorRepeated(t *testing.T) {
	path := dbtest.Path(t)
	args := []string{path}
	for i := range 8 {
		args = append(args, fmt.Sprint("task-", i))
	}
	said := map[string]bool{}
	for kill := 0; ; kill++ {
		p := dbtest.Start(t, "runtime", args...)
		ended := false
		for n := 0; n <= kill%7; n++ { // killed behind its first step, behind its second, …
			line, ok := p.Line()
			if !ok {
				ended = true
				break
			}
			if said[line] {
				t.Errorf("%q was done twice", line)
			}
			said[line] = true
		}
		if ended {
			p.Wait()
			break
		}
		p.Kill()
	}
	lookAt(t, dbtest.OpenAt(t, path, db.Options{}), args[1:])
}

func TestTwoRuntimesShareTheTasks(t *testing.T) {
	path := dbtest.Path(t)
	args := []string{path}
	for i := range 12 {
		args = append(args, fmt.Sprint("task-", i))
	}
	both := []*dbtest.Process{dbtest.Start(t, "runtime", args...), dbtest.Start(t, "runtime", args...)}
	said := map[string]bool{}
	for _, p := range both {
		for {
			line, ok := p.Line()
			if !ok {
				break
			}
			if said[line] {
				t.Errorf("%q was done twice", line)
			}
			said[line] = true
		}
		p.Wait()
	}
	lookAt(t, dbtest.OpenAt(t, path, db.Options{}), args[1:])
}

// lookAt checks that every task was done once, wholly, and that nothing is left of the work.
func lookAt(t *testing.T, d *db.DB, tasks []string) {
	t.Helper()
	ctx := context.Background()
	for _, task := range tasks {
		trace, found, err := runs.NewStore(d, runs.Options{}).GetRunTraceFor(ctx, agentID, task)
		if err != nil || !found {
			t.Fatalf("%s: %v, %v", task, found, err)
		}
		var turns, ends int
		for _, record := range trace {
			switch r := record.(type) {
			case runs.Turn:
				if r.Index != uint64(turns) {
					t.Errorf("%s: turn %d stands at %d", task, r.Index, turns)
				}
				turns++
			case runs.Ended:
				ends++
			}
		}
		if turns != steps || ends != 1 {
			t.Errorf("%s has %d turns and %d ends", task, turns, ends)
		}
		run, found, err := live.NewStore(d, live.Options{}).Snapshot(ctx, task)
		if err != nil || !found || run.Status != live.Completed {
			t.Errorf("%s is shown as %v (%v, %v)", task, run.Status, found, err)
		}
		if held, ok, err := agents.NewRegistry(d, agents.Options{}).Reservation(ctx, task); err != nil || ok {
			t.Errorf("%s is still held: %+v, %v", task, held, err)
		}
	}
	if left, err := checkpoints.NewStore(d, checkpoints.Options{}).List(ctx); err != nil || len(left) > 0 {
		t.Errorf("left to do: %v, %v", left, err)
	}
}
