//go:build postgres

package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/test/dbtest"
)

// Each race that a transaction loses is an ERROR in the server's log.
func TestPostgres_ConcurrentWorkIsQuiet(t *testing.T) {
	ctx := t.Context()
	address := dbtest.PostgresAlone(t, "../..")
	handles := twoHandlesOf(t, address)
	turn := runs.Turn{Output: json.RawMessage(`{}`)}
	if err := runs.NewStore(handles[0], runs.Options{}).AppendTurns(ctx, "a", "shared",
		[]runs.Turn{turn}); err != nil {
		t.Fatal(err)
	}
	mixed(t, handles, func(d *db.DB, _ bool, caller, i int) error {
		return work(ctx, d, fmt.Sprintf("%d-%d", caller, i), turn)
	})
	log := dbtest.PostgresShell(t, "../..", address, "grep ERROR: log || true")
	const commits = mixedCallers * mixedEach * commitsOfWork
	if lines := strings.Count(log, "ERROR:"); lines > commits/1000 {
		t.Errorf("%d commits left %d ERROR lines:\n%.4000s", commits, lines, log)
	}
}

const commitsOfWork = 21

// work is what an agent does.
func work(ctx context.Context, d *db.DB, id string, turn runs.Turn) error {
	front := selvedge.On(d, selvedge.Options{Agent: "a"})
	run, err := front.Take(ctx, "front-"+id, selvedge.Start{Intent: "work"})
	if err != nil {
		return err
	}
	_, err = run.Reply("plan", func(context.Context) (r selvedge.Reply, err error) { return r, nil })
	if err == nil {
		_, err = run.Do("push", selvedge.Effect{Tool: "git"},
			func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
	}
	if err == nil {
		_, err = run.Ask("gate", selvedge.Question{Prompt: "go on?"})
	}
	if !errors.Is(err, selvedge.ErrWaiting) {
		return fmt.Errorf("ask: %w", err)
	}
	if err := front.Answer(ctx, run.Ref(), "gate", selvedge.Answer{Decision: "approved"}); err != nil {
		return err
	}
	if run, err = front.Take(ctx, "front-"+id, selvedge.Start{}); err != nil {
		return err
	}
	traces := runs.NewStore(d, runs.Options{})
	held, errBegin := traces.Begin(ctx, runs.Started{AgentID: "a", RunID: "held-" + id, StartedAt: time.Now()},
		runs.BeginOptions{})
	if err := errors.Join(run.End(selvedge.Succeeded("done")), errBegin); err != nil {
		return err
	}
	watched := live.NewStore(d, live.Options{})
	_, errCreate := watched.CreateRunWithID(ctx, "live-"+id, "s", "")
	_, errEvent := watched.Append(ctx, "live-"+id, live.Batch{Events: []live.Event{live.AgentEnd("x")}})
	paused := checkpoints.NewStore(d, checkpoints.Options{})
	errSave := paused.Save(ctx, &checkpoints.PausedWorkflow{RunID: id, CreatedAt: time.Now()})
	claim, ok, errClaim := paused.Claim(ctx, id)
	if err := errors.Join(errCreate, errEvent, errSave, errClaim); err != nil || !ok {
		return fmt.Errorf("claim %s: %t, %w", id, ok, err)
	}
	_, errSet := state.NewStore(d, state.Options{}).Set(ctx, state.Ref{Key: "k"}, json.RawMessage(`1`))
	return errors.Join(held.Append(ctx, turn), held.Release(ctx), claim.Complete(ctx), errSet,
		traces.AppendTurns(ctx, "a", "shared", []runs.Turn{turn}),
		traces.Delete(ctx, runs.RunRef{AgentID: "a", RunID: "front-" + id}), watched.Delete(ctx, "live-"+id))
}

func TestPostgres_OneOfManyBegins(t *testing.T) {
	ctx := t.Context()
	handles := twoHandles(t)
	for name, begin := range map[string]func(d *db.DB, id string) error{
		"runs.Begin": func(d *db.DB, id string) error {
			_, err := runs.NewStore(d, runs.Options{}).Begin(ctx, runs.Started{AgentID: "a", RunID: id},
				runs.BeginOptions{})
			return err
		},
		"live.Begin": func(d *db.DB, id string) error {
			_, err := live.NewStore(d, live.Options{}).Begin(ctx, live.Start{ID: id})
			return err
		},
		"Take": func(d *db.DB, id string) error {
			_, err := selvedge.On(d, selvedge.Options{Agent: "b"}).Take(ctx, "taken-"+id, selvedge.Start{})
			return err
		},
	} {
		var won [mixedEach]atomic.Int64
		mixed(t, handles, func(d *db.DB, _ bool, _, i int) error {
			err := begin(d, fmt.Sprint("run-", i))
			if err == nil {
				won[i].Add(1)
			}
			if errors.Is(err, db.ErrConflict) {
				return nil
			}
			return err
		})
		for i := range won {
			if n := won[i].Load(); n != 1 {
				t.Errorf("%s: run %d had %d winners", name, i, n)
			}
		}
	}
	lines := 0
	taken := runs.RunRef{AgentID: "b", RunID: "taken-run-0"}
	for _, err := range runs.NewStore(handles[0], runs.Options{}).Trace(ctx, taken) {
		if lines++; err != nil {
			t.Fatal(err)
		}
	}
	if lines != 1 {
		t.Errorf("the trace of a run that was taken once has %d lines", lines)
	}
}
