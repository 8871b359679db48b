package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

const (
	agentID = "example"
	// turns is how many a task takes.
	turns = 5
	// leaseTime is how long a thread stays with a process that hangs; one that dies loses it at once.
	leaseTime = time.Minute
)

// A Runtime does tasks, together with all other processes that have the file open.
type Runtime struct {
	file   *db.DB
	traces *runs.Store
	agents *agents.Registry
	paused *checkpoints.Store
	live   *live.Store
	crew   *workers.Runtime
	worker workers.WorkerRef
	// stepDone is told about each step once it can't be lost any more.
	stepDone func(task string, step int)
}

// Open opens the file and registers a worker for this process.
func Open(ctx context.Context, path string, stepDone func(task string, step int)) (*Runtime, error) {
	d, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		file: d, stepDone: stepDone,
		traces: runs.NewStore(d, runs.Options{}),
		agents: agents.NewRegistry(d, agents.Options{}),
		paused: checkpoints.NewStore(d, checkpoints.Options{}),
		live:   live.NewStore(d, live.Options{}),
	}
	if err := r.join(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return r, nil
}

// join makes the crew, or joins it, with a worker for this process.
func (r *Runtime) join(ctx context.Context) (err error) {
	if r.crew, err = workers.Open(ctx, r.file, workers.RuntimeOptions{RuntimeID: "example-crew"}); err != nil {
		return err
	}
	worker, err := r.crew.CreateWorker(ctx,
		workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{}))
	r.worker = worker.WorkerRef
	return err
}

// Close closes the file.
func (r *Runtime) Close() error { return errors.Join(r.crew.Close(), r.file.Close()) }

// Submit makes a task. One that is there already, done or not, stays as it is.
func (r *Runtime) Submit(ctx context.Context, task string) error {
	if _, err := r.traces.Get(ctx, runs.RunRef{AgentID: agentID, RunID: task}); !errors.Is(err, db.ErrNotFound) {
		return err
	}
	err := r.file.Write(ctx, "submit task", func(tx *db.Tx) error {
		started := runs.Started{RunID: task, AgentID: agentID, Intent: "do " + task, StartedAt: tx.Now()}
		_, err := r.traces.AppendTx(tx, runs.Batch{
			AgentID: agentID, RunID: task, Records: []runs.Record{started},
			Key: "submit",
		})
		if err != nil {
			return err
		}
		return r.paused.SaveTx(tx, &checkpoints.PausedWorkflow{
			RunID: task, PausedStageID: "start", Prompt: "a worker for " + task, OutputKey: "worker",
			CreatedAt: tx.Now(),
			Workflow:  checkpoints.Workflow{ID: "example", Name: "Example", Start: "start", MaxIterations: 100},
			WFState:   map[string]json.RawMessage{},
		})
	})
	if errors.Is(err, db.ErrConflict) {
		return nil // another process submitted it at this moment, under the same key and with a time of its own
	}
	return err
}

// Work does what there is to do, and what processes that died have left, and returns when nothing is.
func (r *Runtime) Work(ctx context.Context) error {
	if _, err := maintenance.Recover(ctx, r.file); err != nil {
		return err
	}
	tasks, err := r.paused.List(ctx)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		claim, ok, err := r.paused.Claim(ctx, task)
		if err != nil {
			return err
		}
		if !ok {
			continue // somebody was faster
		}
		if err := r.do(ctx, task, claim); err != nil {
			return fmt.Errorf("task %s: %w", task, err)
		}
	}
	return nil
}

// do does a task from where its trace ends. Where it can't go on, it gives the task back: others
// need not wait until this process is gone.
func (r *Runtime) do(ctx context.Context, task string, claim *checkpoints.Claim) error {
	lease, err := r.reserve(ctx, task)
	if err == nil {
		if err = r.steps(ctx, task, claim, lease); err != nil {
			err = errors.Join(err, held(lease.Release(context.WithoutCancel(ctx), agents.Abandoned)))
		}
	}
	if err != nil {
		err = errors.Join(err, r.pause(context.WithoutCancel(ctx), claim))
	}
	return err
}

// pause lets the task wait again, for whoever claims it next.
func (r *Runtime) pause(ctx context.Context, claim *checkpoints.Claim) error {
	paused, err := claim.Paused()
	if err != nil {
		return err
	}
	return held(r.file.Write(ctx, "give task back", func(tx *db.Tx) error {
		if err := claim.CompleteTx(tx); err != nil {
			return err
		}
		return r.paused.SaveTx(tx, paused)
	}))
}

// held leaves out that something is no longer ours: then there is nothing to give back.
func held(err error) error {
	if errors.Is(err, db.ErrLeaseLost) {
		return nil
	}
	return err
}

// reserve leases the task's thread.
func (r *Runtime) reserve(ctx context.Context, task string) (*agents.Lease, error) {
	lease, reserved, err := r.agents.TryLeaseThread(ctx, task, db.LeaseTerms{TTL: leaseTime},
		func(id string) (agents.Entry, error) {
			return agents.Entry{
				SessionID: id, Thread: task, BaseState: "none", StartedAt: time.Now(),
				Status: agents.Active,
			}, nil
		})
	if err != nil {
		return nil, err
	}
	if lease == nil {
		return nil, fmt.Errorf("the thread belongs to %s", reserved.LiveOwner.SessionID)
	}
	return lease, nil
}

func (r *Runtime) steps(ctx context.Context, task string, claim *checkpoints.Claim,
	lease *agents.Lease,
) error {
	if _, err := r.crew.SendInput(ctx, r.worker, workers.UserInput("do "+task)); err != nil {
		return err
	}
	if _, err := r.live.ReserveRunWithID(ctx, task, agentID, "do "+task); err != nil {
		return err
	}
	summary, err := r.traces.Get(ctx, runs.RunRef{AgentID: agentID, RunID: task})
	if err != nil {
		return err
	}
	for step := summary.TurnCount; step < turns; step++ {
		if err := r.step(ctx, task, lease, step); err != nil {
			return err
		}
	}
	return lease.Hold(ctx, "end task", func(tx *db.Tx) error {
		outcome := runs.AgentOutcome{Status: runs.OutcomeSuccess, Summary: "done", Timestamp: tx.Now()}
		ended := runs.Ended{
			RunID: task, AgentID: agentID, EndedAt: tx.Now(),
			Termination: runs.Termination{Outcome: &outcome},
		}
		if _, err := r.traces.AppendTx(tx, runs.Batch{
			AgentID: agentID, RunID: task,
			Records: []runs.Record{ended},
		}); err != nil {
			return err
		}
		if _, err := r.live.AppendTx(tx, task,
			live.Batch{Events: []live.Event{live.AgentEnd("done")}}); err != nil {
			return err
		}
		if err := claim.CompleteTx(tx); err != nil {
			return err
		}
		return lease.ReleaseTx(tx, agents.Complete)
	})
}

// step does one step, under the lease: a holder that was stopped too long writes nothing. The turn
// and what the live run shows of it are one transaction, so that no kill parts them. Both have a
// key, so that a step whose acknowledgement was lost is not written twice.
func (r *Runtime) step(ctx context.Context, task string, lease *agents.Lease, step int) error {
	tool, key := "think", fmt.Sprint("step ", step)
	turn := runs.Turn{Index: uint64(step), Tool: &tool}
	err := lease.Hold(ctx, "step", func(tx *db.Tx) error {
		_, err := r.traces.AppendTx(tx, runs.Batch{
			AgentID: agentID, RunID: task, Records: []runs.Record{turn},
			Key: key,
		})
		if err != nil {
			return err
		}
		_, err = r.live.AppendTx(tx, task, live.Batch{Events: []live.Event{live.TextDelta(said(step))}, Key: key})
		return err
	})
	if err == nil {
		r.stepDone(task, step)
	}
	return err
}

// said is what a live run shows of a step.
func said(step int) string { return fmt.Sprint("step ", step, "\n") }
