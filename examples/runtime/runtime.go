package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"selvedge"
	"selvedge/db"
	"selvedge/workers"
)

const (
	agentID = "example"
	// turns is how many a task takes.
	turns = 5
	// leaseTime is how long a task stays with a process that hangs; one that dies loses it at once.
	leaseTime = time.Minute
	// idle is how long Work waits for a task.
	idle = 2 * time.Second
)

// A Runtime does tasks, together with all other processes that have the file open.
type Runtime struct {
	file   *db.DB
	tasks  *selvedge.Store
	crew   *workers.Runtime
	worker workers.WorkerRef
	// stepDone is called with each step that is recorded.
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
		tasks: selvedge.On(d, selvedge.Options{Agent: agentID, Lease: db.LeaseTerms{TTL: leaseTime}}),
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

// Submit makes a task. One that exists, done or not, stays as it is.
func (r *Runtime) Submit(ctx context.Context, task string) error {
	_, err := r.tasks.Submit(ctx, task, selvedge.Start{Intent: "do " + task})
	return err
}

// Work does tasks, also those that processes left when they died, until none was ready for a while.
func (r *Runtime) Work(ctx context.Context) error {
	for since := time.Now(); time.Since(since) < idle; {
		task, ok, err := r.tasks.TryNext(ctx)
		switch {
		case err != nil:
			return err
		case !ok:
			<-time.After(50 * time.Millisecond)
			continue
		}
		if err := r.do(ctx, task); err != nil {
			return fmt.Errorf("task %s: %w", task.Ref().RunID, err)
		}
		since = time.Now()
	}
	return nil
}

// do does a task from where it stopped. If it can't go on, it releases the task: others need not wait
// until this process is gone.
func (r *Runtime) do(ctx context.Context, task *selvedge.Run) error {
	defer task.Leave() //nolint:errcheck // a task that is not released is taken over when this process ends
	id := task.Ref().RunID
	if _, err := r.crew.SendInput(ctx, r.worker, workers.UserInput("do "+id)); err != nil {
		return err
	}
	for step := task.TurnNumber(); step < turns; step++ {
		if err := task.Say(said(step)); err != nil {
			return err
		}
		if err := task.Turn(selvedge.Turn{Reply: selvedge.Reply{Tool: "think"}}); err != nil {
			return err
		}
		r.stepDone(id, step)
	}
	return task.End(selvedge.Succeeded("done"))
}

// said is what those who watch a task see of a step.
func said(step int) string { return fmt.Sprint("step ", step, "\n") }
