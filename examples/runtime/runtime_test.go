package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func TestMain(m *testing.M) {
	dbtest.Main(m, map[string]dbtest.Program{
		"runtime": func(args []string) error { return work(context.Background(), args[0], args[1:]) },
	})
}

func TestRuntime_KilledLosesAndRepeatsNothing(t *testing.T) {
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

func TestATaskThatFailsIsGivenBackAtOnce(t *testing.T) {
	path := dbtest.Path(t)
	ctx, cancel := context.WithCancel(t.Context())
	stuck, err := Open(ctx, path, func(_ string, step int) {
		if step == 2 {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close() // alive until the end: nothing is free because its process is gone
	if err := stuck.Submit(ctx, "task"); err != nil {
		t.Fatal(err)
	}
	if err := stuck.Work(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
	next := dbtest.Start(t, "runtime", path)
	for step := 3; step < turns; step++ {
		next.Expect(fmt.Sprint("task ", step))
	}
	next.Wait()
	lookAt(t, stuck.file, []string{"task"})
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
		var made, ends int
		for _, record := range trace {
			switch r := record.(type) {
			case runs.Turn:
				if r.Index != uint64(made) {
					t.Errorf("%s: turn %d stands at %d", task, r.Index, made)
				}
				made++
			case runs.Ended:
				ends++
			}
		}
		if made != turns || ends != 1 {
			t.Errorf("%s has %d turns and %d ends", task, made, ends)
		}
		run, found, err := live.NewStore(d, live.Options{}).Snapshot(ctx, task)
		if err != nil || !found || run.Status != live.Completed {
			t.Errorf("%s is shown as %v (%v, %v)", task, run.Status, found, err)
		}
		events, err := live.NewStore(d, live.Options{}).Events(ctx, task)
		if err != nil {
			t.Fatal(err)
		}
		words := false
		for _, e := range events {
			switch turn, attempt, ok := e.Event.Turn(); {
			case ok:
				words = true
				want := live.TextDelta(said(int(turn))).In(turn, attempt)
				if string(e.Event.JSON()) != string(want.JSON()) {
					t.Errorf("%s: %s", task, e.Event.JSON())
				}
			case e.Event.Type() == "turn_end" && !words:
				t.Errorf("%s: a turn without words", task)
			case e.Event.Type() == "turn_end":
				words = false
			}
		}
	}
	if held, err := d.Reservations(ctx, db.ReservationFilter{}, db.At{}); err != nil || len(held.Items) > 0 {
		t.Errorf("still held: %v, %v", held.Items, err)
	}
}
