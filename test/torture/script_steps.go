package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"selvedge"
	"selvedge/db"
	"selvedge/runs"
)

func front(s *session) *selvedge.Store { return selvedge.On(s.db, selvedge.Options{Agent: "agent"}) }

func named(id string) selvedge.Ref { return selvedge.Ref{AgentID: "agent", RunID: id} }

// perform stands for the world outside.
func perform(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`"sent"`), nil }

var errNotSaid = errors.New("timed out")

func mine(s *session, id string) *selvedge.Run { return s.kept[id].(*selvedge.Run) }

// stepsScript makes runs, with replies, effects, turns and questions, answers and ends them.
func stepsScript() script {
	effect := selvedge.Effect{Tool: "http", Args: json.RawMessage(`{"to":"there"}`)}
	return script{
		name: "steps",
		setup: func(ctx context.Context, s *session) error {
			for _, id := range []string{"held", "asks", "asked", "unknown", "ends", "cancelled", "left"} {
				run, err := front(s).Take(ctx, id, selvedge.Start{Intent: "torture"})
				if err != nil {
					return err
				}
				s.kept[id] = run
			}
			_, err := mine(s, "asked").Ask("gate", selvedge.Question{Prompt: "Go on?"})
			if !errors.Is(err, selvedge.ErrWaiting) {
				return fmt.Errorf("asked: %w", err)
			}
			_, err = mine(s, "unknown").Do("send", effect,
				func(context.Context, string) (json.RawMessage, error) { return nil, errNotSaid })
			if !errors.Is(err, selvedge.ErrUnknown) {
				return fmt.Errorf("unknown: %w", err)
			}
			return nil
		},
		ops: []op{
			{
				name: "submit",
				do: func(ctx context.Context, s *session) error {
					_, err := front(s).Submit(ctx, "submitted", selvedge.Start{Intent: "torture"})
					return err
				},
				look: lookForRun(named("submitted")),
			},
			{
				name: "reply",
				do: func(_ context.Context, s *session) error {
					_, err := mine(s, "held").Reply("plan", func(context.Context) (selvedge.Reply, error) {
						return selvedge.Reply{Text: "the plan", Usage: selvedge.Usage{InputTokens: new(uint64(7))}}, nil
					})
					return err
				},
				look: lookForStep("held", "plan", selvedge.StepDone),
			},
			{
				name: "do", gradual: true,
				do: func(_ context.Context, s *session) error {
					_, err := mine(s, "held").Do("send", effect, perform)
					return err
				},
				look: lookForStep("held", "send", selvedge.StepDone),
			},
			{
				name: "do a turn", gradual: true,
				do: func(_ context.Context, s *session) error {
					_, err := mine(s, "held").DoTurn("turn", effect, selvedge.Turn{Prompt: "send"}, perform)
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					step, err := lookForStep("held", "turn", selvedge.StepDone)(ctx, s)
					if err != nil {
						return "", err
					}
					run, err := traces(s).Get(ctx, named("held"))
					if (step == done) != (run.TurnCount > 0) {
						return trace(fmt.Sprintf("the step is %s, with %d turns", step, run.TurnCount)), err
					}
					return step, err
				},
			},
			{
				name: "record a turn",
				do: func(_ context.Context, s *session) error {
					if err := mine(s, "left").Say("words"); err != nil {
						return err
					}
					return mine(s, "left").Turn(selvedge.Turn{Prompt: "send"})
				},
				look: lookForTurnsOf("left", 1),
			},
			{
				name: "begin a child",
				do: func(_ context.Context, s *session) error {
					_, err := mine(s, "left").Child("other", "child", selvedge.Start{Intent: "torture"})
					return err
				},
				look: lookForRun(selvedge.Ref{AgentID: "other", RunID: "child"}),
			},
			{
				name: "leave",
				do:   func(_ context.Context, s *session) error { return mine(s, "left").Leave() },
			},
			{
				name: "fork",
				do: func(ctx context.Context, s *session) error {
					_, err := front(s).Fork(ctx, named("held"), 0, "fork")
					return err
				},
				look: lookForRun(named("fork")),
			},
			{
				name: "ask",
				do: func(_ context.Context, s *session) error {
					_, err := mine(s, "asks").Ask("gate", selvedge.Question{Prompt: "Go on?"})
					if errors.Is(err, selvedge.ErrWaiting) {
						return nil
					}
					return err
				},
				look: lookForStep("asks", "gate", selvedge.StepWaiting),
			},
			{
				name: "answer",
				do: func(ctx context.Context, s *session) error {
					return front(s).Answer(ctx, named("asked"), "gate", selvedge.Answer{Decision: "approved"})
				},
				look: lookForStep("asked", "gate", selvedge.StepDone),
			},
			{
				name: "settle",
				do: func(ctx context.Context, s *session) error {
					return front(s).Answer(ctx, named("unknown"), "send", selvedge.Answer{Decision: "give_up"})
				},
				look: lookForStep("unknown", "send", selvedge.StepGivenUp),
			},
			{
				name: "end",
				do: func(_ context.Context, s *session) error {
					return mine(s, "ends").End(selvedge.Succeeded("done"))
				},
				look: lookForEnd("ends"),
			},
			{
				name: "cancel",
				do: func(ctx context.Context, s *session) error {
					return front(s).Cancel(ctx, named("cancelled"), "torture")
				},
				look: lookForEnd("cancelled"),
			},
		},
		// Every run that has not ended and does not wait can be taken up.
		whole: func(ctx context.Context, s *session) error {
			if _, err := front(s).Submit(ctx, "last", selvedge.Start{}); err != nil {
				return err
			}
			run, err := front(s).Next(ctx)
			if err != nil {
				return err
			}
			if err := run.Leave(); err != nil {
				return err
			}
			if run, found, err := front(s).TryNext(ctx); err != nil {
				return err
			} else if found {
				if err := run.Leave(); err != nil {
					return err
				}
			}
			for _, id := range []string{"held", "asks", "asked", "unknown", "ends", "cancelled"} {
				run, err := front(s).Take(ctx, id, selvedge.Start{})
				if err == nil {
					err = run.Leave()
				}
				if err != nil && !errors.Is(err, selvedge.ErrEnded) && !errors.Is(err, selvedge.ErrWaiting) &&
					!errors.Is(err, selvedge.ErrUnknown) {
					return fmt.Errorf("take up %s: %w", id, err)
				}
			}
			return nil
		},
	}
}

func lookForRun(ref selvedge.Ref) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		_, err := traces(s).Get(ctx, ref)
		if errors.Is(err, db.ErrNotFound) {
			return absent, nil
		}
		return done, err
	}
}

func lookForTurnsOf(run string, turns int) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		r, err := traces(s).Get(ctx, named(run))
		return there(r.TurnCount == turns), err
	}
}

// lookForStep finds a step in a state. In another one it is half done, unless it was there before.
func lookForStep(run, key string, want selvedge.StepState) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		page, err := front(s).Steps(ctx, named(run), db.At{})
		for _, step := range page.Items {
			switch {
			case step.Key != key:
			case step.State == want:
				return done, nil
			case step.State == selvedge.StepOpen:
				return "intended", nil
			}
		}
		return absent, err
	}
}

func lookForEnd(run string) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		r, err := traces(s).Get(ctx, named(run))
		return there(r.Status == runs.StatusCompleted || r.Status == runs.StatusCancelled), err
	}
}
