package main

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"selvedge"
	"selvedge/db"
	"selvedge/runs"
)

var (
	_ = register("Look:", 12, (*app).needsCommand)
	_ = register("Look:", 14, (*app).answerCommand)
	_ = register("Look:", 16, (*app).failedCommand)
	_ = register("Look:", 18, func(a *app) *cobra.Command {
		return group("effects", "Look at what runs changed outside, and settle what is unknown",
			a.effectsListCommand(), a.effectsSettleCommand())
	})
	_ = register("Look:", 20, (*app).cancelCommand)
)

func (a *app) front(d *db.DB) *selvedge.Store {
	return selvedge.On(d, selvedge.Options{Scope: a.scope})
}

var stepGrid = grid{
	header: []string{"run", "agent", "key", "kind", "state", "attempt", "since", "asks"},
	right:  []int{5},
	times:  []int{6}, ids: []int{0, 1}, least: []int{5, 4, 3, 1, 7},
}

func stepCells(s selvedge.Step) []string {
	words := cmp.Or(s.Prompt, s.Tool)
	if s.Kind == selvedge.StepEffect {
		words += " " + string(s.Request)
	}
	return []string{
		s.RunID, s.AgentID, s.Key, string(s.Kind), string(s.State), strconv.Itoa(s.Attempt), instant(s.CreatedAt),
		cut(words, 60),
	}
}

func (a *app) needsCommand() *cobra.Command {
	filter := selvedge.Filter{}
	c := &cobra.Command{
		Use:   "needs [--agent ID] [--limit N] [--after CURSOR] [--all]",
		Short: "List what waits for a person: questions, and effects that may have happened",
		Long: `needs lists the questions of runs that have no answer, and the effects of which nobody knows whether
they happened, the newest first. answer answers the former, effects settle decides about the latter.`,
	}
	a.textFlag(c, &filter.Agent, "agent", "only runs of the agent `ID`")
	return list(a, c, listing[selvedge.Step]{
		noun: &runNoun,
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (db.Page[selvedge.Step], error) {
			return a.front(d).NeedsMe(ctx, filter, at)
		},
		grid: stepGrid, row: stepCells,
	})
}

// answerAnswer is the shape of answer and effects settle --json.
type answerAnswer struct {
	RunID    string `json:"run_id"`   // the run
	AgentID  string `json:"agent_id"` // its agent
	Key      string `json:"key"`      // what was answered
	Decision string `json:"decision"` // what was decided
}

// answerStep makes a command whose arguments are a run, the key of its step, and the answer.
func (a *app) answerStep(c *cobra.Command) *cobra.Command {
	var answer selvedge.Answer
	var fields string
	runNoun.addOwner(c)
	c.Args = cobra.ExactArgs(3)
	c.Flags().StringVar(&answer.By, "by", "", "the `NAME` of the person who decided")
	c.Flags().StringVar(&fields, "fields", "", "what else was answered, as `JSON`")
	c.RunE = a.on(toWrite, func(ctx context.Context, d *db.DB, args []string) error {
		t, err := runNoun.find(ctx, runNoun.open(a, d), args[0], given(c, runNoun.owner))
		if err != nil {
			return err
		}
		if answer.Decision = args[2]; fields != "" {
			answer.Fields = json.RawMessage(fields)
		}
		if err := a.front(d).Answer(ctx, runRef(t), args[1], answer); err != nil {
			return err
		}
		return a.answerLine(answerAnswer{t.id, t.owner, args[1], answer.Decision}, "%s of the %s: %s\n",
			printable(args[1]), runNoun.name(t), printable(answer.Decision))
	})
	return a.answering(c, answerAnswer{})
}

func (a *app) answerCommand() *cobra.Command {
	return a.answerStep(&cobra.Command{
		Use:   "answer RUN KEY DECISION [--by NAME] [--fields JSON]",
		Short: "Answer the question of a run",
		Long: `answer records a decision, such as approved, as the answer to the question KEY of a run. The run is
ready then: its worker goes on with it. The same answer again changes nothing; another one is refused.`,
	})
}

func (a *app) effectsSettleCommand() *cobra.Command {
	return a.answerStep(&cobra.Command{
		Use:   "settle RUN KEY done|retry|give_up [--by NAME] [--fields JSON]",
		Short: "Decide about an effect that may have happened",
		Long: `settle decides about an effect of which nobody knows whether it happened: done (it did, and --fields
is its result), retry (it did not: it is attempted again with the same idempotency key) or give_up (it is not
attempted again).`,
	})
}

func (a *app) effectsListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list RUN [--limit N] [--after CURSOR] [--all]",
		Short: "List the steps of a run: replies, effects and questions",
		Long:  "list shows what is recorded of each step of a run, by key.",
		Args:  cobra.ExactArgs(1),
	}
	runNoun.addOwner(c)
	return list(a, c, listing[selvedge.Step]{
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (db.Page[selvedge.Step], error) {
			t, err := runNoun.find(ctx, runNoun.open(a, d), a.given[0], given(c, runNoun.owner))
			if err != nil {
				return db.Page[selvedge.Step]{}, err
			}
			return a.front(d).Steps(ctx, runRef(t), at)
		},
		grid: stepGrid, row: stepCells,
	})
}

func (a *app) failedCommand() *cobra.Command {
	var since time.Time
	c := &cobra.Command{
		Use:   "failed [--since TIME] [--limit N] [--after CURSOR] [--all]",
		Short: "List the runs that did not achieve their intent, and why",
		Long: `failed lists the runs that ended with the outcome failure, timeout or give_up, that are incomplete,
or that were cancelled, by the time of their end, the last first.`,
	}
	a.sinceFlag(c, &since, "only runs that ended")
	return list(a, c, listing[runs.RunSummary]{
		noun: &runNoun,
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (db.Page[runs.RunSummary], error) {
			return a.front(d).Failed(ctx, since, at)
		},
		grid: grid{
			header: []string{"run", "agent", "ended", "took", "status", "turns", "why"},
			right:  []int{3, 5},
			times:  []int{2}, ids: []int{0, 1}, least: []int{5, 3, 1, 6},
		},
		row: func(s runs.RunSummary) []string {
			return []string{
				s.RunID, s.AgentID, instant(*s.EndedAt), duration(s), statusWords(s), strconv.Itoa(s.TurnCount),
				cut(cmp.Or(s.Summary, s.Intent), 60),
			}
		},
	})
}

// cancelAnswer is the shape of cancel --json.
type cancelAnswer struct {
	RunID   string `json:"run_id"`   // the run that is cancelled
	AgentID string `json:"agent_id"` // its agent
}

func (a *app) cancelCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel RUN [--why WORDS]",
		Short: "End a run, even one that is held",
		Long: `cancel ends a run. Its holder can write nothing more to it, and nobody can take it up again. A run
that was cancelled stays as it is; one that was completed is refused.`,
	}
	why := c.Flags().String("why", "", "the reason, in `WORDS`")
	return a.answering(a.one(runNoun, toWrite, c, func(ctx context.Context, d *db.DB, t thing) error {
		if err := a.front(d).Cancel(ctx, runRef(t), *why); err != nil {
			return err
		}
		return a.answerLine(cancelAnswer{t.id, t.owner}, "cancelled the %s\n", runNoun.name(t))
	}), cancelAnswer{})
}
