package main

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/workers"
)

func runtimes(s *session) *workers.Runtimes { return workers.NewRuntimes(s.db, "") }

// runtimesScript pins workers, prunes those that ended, and removes a runtime: pinned and living
// workers are there after every fault.
func runtimesScript() script {
	const ended, pinned, unpinned, lives = 1, 2, 3, 4
	kept := func(n int) workers.WorkerRef {
		return workers.NewWorkerRef("kept", workers.WorkerID(fmt.Sprintf("worker-%08d", n)))
	}
	fill := func(ctx context.Context, s *session, id workers.RuntimeID) (*workers.Runtime, error) {
		r, err := workers.Open(ctx, s.db, workers.RuntimeOptions{RuntimeID: id})
		for n := ended; n <= lives && err == nil; n++ {
			if _, err = r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent(
				"be tortured")}); err == nil {
				_, err = r.SendInput(ctx, at(r, n), workers.UserInput("go on"))
			}
		}
		return r, err
	}
	return script{
		name: "runtimes",
		prepare: func(ctx context.Context, s *session) error {
			if _, err := fill(ctx, s, "deleted"); err != nil {
				return err
			}
			r, err := fill(ctx, s, "kept")
			for n := ended; n < lives && err == nil; n++ {
				_, err = r.StopWorker(ctx, at(r, n), nil)
			}
			return errors.Join(err, runtimes(s).Pin(ctx, kept(unpinned)))
		},
		ops: []op{
			{
				name: "pin a worker",
				do:   func(ctx context.Context, s *session) error { return runtimes(s).Pin(ctx, kept(pinned)) },
				look: lookForPin(maintenance.StoreWorkers, string(kept(pinned).WorkerID), true),
			},
			{
				name: "prune workers", gradual: true,
				do: func(ctx context.Context, s *session) error {
					_, err := runtimes(s).Prune(ctx, db.Policy{
						Age:    db.KeepNone,
						Pinned: []string{string(kept(pinned).WorkerID), string(kept(unpinned).WorkerID)},
					})
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					r, err := runtimes(s).Get(ctx, "kept")
					return there(r.WorkerCount == lives-1), err
				},
			},
			{
				name: "unpin a worker",
				do:   func(ctx context.Context, s *session) error { return runtimes(s).Unpin(ctx, kept(unpinned)) },
				look: lookForPin(maintenance.StoreWorkers, string(kept(unpinned).WorkerID), false),
			},
			{
				name:    "delete a runtime",
				gradual: true,
				do:      func(ctx context.Context, s *session) error { return runtimes(s).Delete(ctx, "deleted") },
				look: func(ctx context.Context, s *session) (trace, error) {
					r, err := runtimes(s).Get(ctx, "deleted")
					if errors.Is(err, db.ErrNotFound) {
						return done, nil
					}
					return parts(lives-int(r.WorkerCount), lives+1), err
				},
			},
		},
		whole: func(ctx context.Context, s *session) error {
			r, err := workers.Open(ctx, s.db, workers.RuntimeOptions{RuntimeID: "kept", MustExist: true})
			if err != nil {
				return err
			}
			for n := pinned; n <= lives; n++ {
				if _, err := r.Get(ctx, at(r, n)); err != nil {
					return fmt.Errorf("worker %d, which is pinned or lives: %w", n, err)
				}
			}
			return nil
		},
	}
}
