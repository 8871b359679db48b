package main

import (
	"context"
	"errors"
	"fmt"

	"selvedge/checkpoints"
	"selvedge/db"
)

func paused(s *session) *checkpoints.Store {
	return checkpoints.NewStore(s.db, checkpoints.Options{})
}

// others are checkpoints of an agent in another scope: recovering them leaves the claims of the first alone.
func others(s *session) *checkpoints.Store {
	return checkpoints.NewStore(s.db, checkpoints.Options{Scope: "others", Agent: "ann"})
}

func workflow(id, prompt string) *checkpoints.PausedWorkflow {
	return &checkpoints.PausedWorkflow{
		RunID:         id,
		Workflow:      checkpoints.Workflow{ID: "torture", Name: "Torture", Start: "gate", MaxIterations: 100},
		PausedStageID: "gate", Prompt: prompt, OutputKey: "approval", CreatedAt: theClock(),
	}
}

// checkpointsScript saves, claims, renews, completes, removes and recovers.
func checkpointsScript() script {
	return script{
		name: "checkpoints",
		setup: func(ctx context.Context, s *session) error {
			for _, id := range []string{"replaced", "claimed", "completed", "renewed", "removed"} {
				if err := paused(s).Save(ctx, workflow(id, "first")); err != nil {
					return err
				}
			}
			for _, id := range []string{"a", "b"} {
				if err := others(s).Save(ctx, workflow(id, "first")); err != nil {
					return err
				}
				if _, _, err := others(s).Claim(ctx, id); err != nil {
					return err
				}
			}
			for _, id := range []string{"completed", "renewed"} {
				c, ok, err := paused(s).Claim(ctx, id)
				if err != nil || !ok {
					return fmt.Errorf("claim %s: %t, %w", id, ok, err)
				}
				s.kept[id] = c
			}
			return nil
		},
		ops: []op{
			{
				name: "save",
				do: func(ctx context.Context, s *session) error {
					return paused(s).Save(ctx,
						workflow("saved", "first"))
				},
				look: lookForCheckpoint("saved", func(list []checkpoints.Summary) bool { return len(list) == 1 }),
			},
			{
				name: "save again",
				do: func(ctx context.Context, s *session) error {
					return paused(s).Save(ctx, workflow("replaced", "second"))
				},
				look: lookForCheckpoint("replaced", func(list []checkpoints.Summary) bool {
					return len(list) == 1 &&
						list[0].Prompt == "second"
				}),
			},
			{
				name: "claim",
				do: func(ctx context.Context, s *session) error {
					_, ok, err := paused(s).Claim(ctx, "claimed")
					if err == nil && !ok {
						err = fmt.Errorf("it is taken")
					}
					return err
				},
				look: lookForCheckpoint("claimed", func(list []checkpoints.Summary) bool {
					return len(list) == 1 &&
						list[0].Claim != nil
				}),
			},
			{
				name: "complete",
				do: func(ctx context.Context, s *session) error {
					return s.kept["completed"].(*checkpoints.Claim).Complete(ctx)
				},
				look: lookForCheckpoint("completed", func(list []checkpoints.Summary) bool { return len(list) == 0 }),
			},
			{
				name: "renew",
				do: func(ctx context.Context, s *session) error {
					return s.kept["renewed"].(*checkpoints.Claim).Renew(
						ctx)
				},
			},
			{
				name: "remove",
				do:   func(ctx context.Context, s *session) error { return paused(s).Remove(ctx, "removed") },
				look: lookForCheckpoint("removed", func(list []checkpoints.Summary) bool { return len(list) == 0 }),
			},
			{
				name: "recover", gradual: true,
				do: func(ctx context.Context, s *session) error {
					_, err := others(s).RecoverOrphaned(ctx)
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					free := 0
					for _, id := range []string{"a", "b"} {
						list, err := ofRun(ctx, others(s), id)
						if err != nil {
							return "", err
						}
						if len(list) == 1 && list[0].Claim == nil {
							free++
						}
					}
					return parts(free, 2), nil
				},
			},
		},
		whole: func(ctx context.Context, s *session) error {
			if _, err := paused(s).RecoverOrphaned(ctx); err != nil {
				return err
			}
			ids, err := paused(s).List(ctx)
			if err != nil {
				return err
			}
			for _, id := range ids {
				_, first, err := paused(s).Claim(ctx, id)
				if err != nil {
					return err
				}
				_, second, err := paused(s).Claim(ctx, id)
				if err != nil || !first || second {
					return fmt.Errorf("checkpoint %s was given to the first who asked: %t, to the second: %t, %w", id,
						first, second, err)
				}
			}
			return nil
		},
	}
}

// lookForCheckpoint compares every document that is there with what was saved.
func lookForCheckpoint(id string, changed func([]checkpoints.Summary) bool) func(context.Context,
	*session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		list, err := ofRun(ctx, paused(s), id)
		if err != nil {
			return "", err
		}
		for _, c := range list {
			if c.Problem != "" {
				return trace(c.Problem), nil
			}
		}
		return there(changed(list)), nil
	}
}

// ofRun returns the checkpoints of a run, the claimed one first.
func ofRun(ctx context.Context, store *checkpoints.Store, id string) (list []checkpoints.Summary, err error) {
	for _, state := range []checkpoints.State{checkpoints.Claimed, checkpoints.Paused} {
		one, err := store.Get(ctx, checkpoints.Ref{RunID: id, State: state})
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}
