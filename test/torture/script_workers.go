package main

import (
	"context"
	"fmt"
	"strings"

	"selvedge/workers"
)

func runtimeOf(ctx context.Context, s *session) (*workers.Runtime, error) {
	return workers.Open(ctx, s.db, workers.RuntimeOptions{RuntimeID: "torture"})
}

// stoppedRuntime is one whose workers nothing else ends.
func stoppedRuntime(ctx context.Context, s *session) (*workers.Runtime, error) {
	return workers.Open(ctx, s.db, workers.RuntimeOptions{RuntimeID: "stopped"})
}

// at returns a worker of the runtime by its number.
func at(r *workers.Runtime, n int) workers.WorkerRef {
	return workers.NewWorkerRef(r.RuntimeID(), workers.WorkerID(fmt.Sprintf("worker-%08d", n)))
}

// onWorkers runs f on the runtime.
func onWorkers(f func(context.Context, *workers.Runtime) error) func(context.Context, *session) error {
	return func(ctx context.Context, s *session) error {
		r, err := runtimeOf(ctx, s)
		if err != nil {
			return err
		}
		return f(ctx, r)
	}
}

// workersScript makes workers, speaks to them, ends them and prunes the runtime's log.
func workersScript() script {
	create := func(ctx context.Context, r *workers.Runtime) error {
		_, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent("be tortured")})
		return err
	}
	return script{
		name: "workers",
		prepare: func(ctx context.Context, s *session) error {
			r, err := runtimeOf(ctx, s)
			if err != nil {
				return err
			}
			for range 3 {
				if err := create(ctx, r); err != nil {
					return err
				}
			}
			if r, err = stoppedRuntime(ctx, s); err != nil {
				return err
			}
			return create(ctx, r)
		},
		ops: []op{
			{
				name: "create",
				do:   onWorkers(create),
				look: func(ctx context.Context, s *session) (trace, error) {
					r, err := runtimeOf(ctx, s)
					if err != nil {
						return "", err
					}
					list, err := r.ListWorkers(ctx)
					return there(len(list) == 4), err
				},
			},
			inputOp("one", 10),
			inputOp("large", 30_000),
			endWorkerOp("stop", 2, workers.Stopped, func(ctx context.Context, r *workers.Runtime) error {
				_, err := r.StopWorker(ctx, at(r, 2), nil)
				return err
			}),
			endWorkerOp("cancel", 3, workers.Cancelled, func(ctx context.Context, r *workers.Runtime) error {
				_, err := r.CancelWorker(ctx, at(r, 3), nil)
				return err
			}),
			inputOp("two", 10),
			{
				name: "prune",
				do: onWorkers(func(ctx context.Context, r *workers.Runtime) error {
					_, err := r.PruneEvents(ctx, workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: 3})
					return err
				}),
				look: func(ctx context.Context, s *session) (trace, error) {
					first, err := firstEvent(ctx, s)
					return parts(int(first)-1, 2), err
				},
			},
			{
				name: "stop a runtime",
				do: func(ctx context.Context, s *session) error {
					r, err := stoppedRuntime(ctx, s)
					if err == nil {
						_, err = r.StopRuntime(ctx)
					}
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					r, err := stoppedRuntime(ctx, s)
					if err != nil {
						return "", err
					}
					d, err := r.WorkerDetail(ctx, at(r, 1))
					return there(d.Status == workers.Stopped), err
				},
			},
		},
		whole: wholeRuntime,
	}
}

func inputOp(name string, size int) op {
	text := name + " " + strings.Repeat("x", size)
	return op{
		name: "input " + name,
		do: onWorkers(func(ctx context.Context, r *workers.Runtime) error {
			_, err := r.SendInput(ctx, at(r, 1), workers.UserInput(text))
			return err
		}),
		look: func(ctx context.Context, s *session) (trace, error) {
			r, err := runtimeOf(ctx, s)
			if err != nil {
				return "", err
			}
			n := 0
			for e, err := range r.Transcript(ctx, at(r, 1)) {
				if err != nil {
					return "", err
				}
				if e.Content == text {
					n++
				} else if strings.HasPrefix(e.Content, name) {
					return trace(fmt.Sprintf("%.40q", e.Content)), nil
				}
			}
			return parts(n, 1), nil
		},
		repeat: func(ctx context.Context, s *session, batch int64) error {
			r, err := runtimeOf(ctx, s)
			if err != nil {
				return err
			}
			input := workers.UserInput(text)
			input.Repeat = batch
			_, err = r.SendInput(ctx, at(r, 1), input)
			return err
		},
	}
}

func endWorkerOp(name string, n int, want workers.WorkerStatus,
	do func(context.Context, *workers.Runtime) error,
) op {
	return op{
		name: name,
		do:   onWorkers(do),
		look: func(ctx context.Context, s *session) (trace, error) {
			r, err := runtimeOf(ctx, s)
			if err != nil {
				return "", err
			}
			d, err := r.WorkerDetail(ctx, at(r, n))
			return there(d.Status == want), err
		},
	}
}

// events reads the runtime's log from its beginning.
func events(ctx context.Context, s *session) ([]workers.RuntimeEvent, error) {
	r, err := runtimeOf(ctx, s)
	if err != nil {
		return nil, err
	}
	from, err := r.EventCursorFromStart(ctx)
	if err != nil {
		return nil, err
	}
	batch, err := r.ReadEvents(ctx, from, 200)
	return batch.Events, err
}

func firstEvent(ctx context.Context, s *session) (uint64, error) {
	list, err := events(ctx, s)
	if err != nil || len(list) == 0 {
		return 0, fmt.Errorf("the log has %d events: %w", len(list), err)
	}
	return list[0].ID, nil
}

// wholeRuntime looks that neither the log nor a transcript has a hole, and that each entry has its event.
func wholeRuntime(ctx context.Context, s *session) error {
	list, err := events(ctx, s)
	if err != nil {
		return err
	}
	inputs := map[uint64]bool{}
	for i, e := range list {
		if i > 0 && e.ID != list[i-1].ID+1 {
			return fmt.Errorf("event %d comes after %d", e.ID, list[i-1].ID)
		}
		inputs[e.ID] = true
	}
	r, err := runtimeOf(ctx, s)
	if err != nil {
		return err
	}
	next := uint64(1)
	for e, err := range r.Transcript(ctx, at(r, 1)) {
		if err != nil {
			return err
		}
		if e.Sequence != next || !inputs[e.EventID] {
			return fmt.Errorf("transcript entry %d, with event %d, is where %d should be", e.Sequence, e.EventID, next)
		}
		next++
	}
	return nil
}
