package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge"
	"selvedge/db"
	"selvedge/internal/stores"
	reading "selvedge/internal/usage"
	"selvedge/query"
)

var _ = register("Look:", 19, (*app).costCommand)

// used are the counts of a cost --json. What nobody counted is null.
type used struct{ query.Spent }

// costOfModel is what a model cost.
type costOfModel struct {
	Provider string `json:"provider"` // of the model; empty: not recorded
	Model    string `json:"model"`    // that answered, or was asked for; empty: not recorded
	used
}

// costOfDay is what a model cost an agent on a day.
type costOfDay struct {
	Day   string `json:"day"`   // as in 2026-05-04, UTC; empty: imported without a time
	Agent string `json:"agent"` // or the session of a live run without a trace
	costOfModel
}

// costAnswer is the shape of cost --json.
type costAnswer struct {
	RunID   string        `json:"run_id,omitempty"`   // the run; left out without RUN, as all to models
	AgentID string        `json:"agent_id,omitempty"` // its agent
	Own     *used         `json:"own,omitempty"`      // what the run used
	Tree    *used         `json:"tree,omitempty"`     // what it and the runs below it used; only with --tree
	Runs    int           `json:"runs,omitempty"`     // runs in the tree; only with --tree
	Models  []costOfModel `json:"models,omitempty"`   // of the run, or with --tree of the tree, dearest first
	Days    []costOfDay   `json:"days,omitempty"`     // without RUN: the latest day first
}

func usedOf(u db.Usage) used { return used{query.SpentOf(u)} }

func (u used) cells() []string {
	return []string{countWords(u.Input), countWords(u.CacheRead), countWords(u.Output), dollarWords(u.CostUSD)}
}

func countWords(n *uint64) string {
	if n == nil {
		return ""
	}
	return humanize.Comma(int64(*n))
}

func dollarWords(n *float64) string {
	if n == nil {
		return ""
	}
	return "$" + strings.TrimSuffix(strconv.FormatFloat(*n, 'f', 4, 64), "00")
}

// words formats the counts for people: 36,000 tokens in, 960 out, $0.36. It is "" if nobody counted any.
func (u used) words() string {
	var words []string
	add := func(n *uint64, what string) {
		if n != nil {
			words = append(words, humanize.Commaf(float64(*n))+what)
		}
	}
	add(u.Input, " tokens in")
	add(u.Output, " out")
	if u.CostUSD != nil {
		words = append(words, dollarWords(u.CostUSD))
	}
	return strings.Join(words, ", ")
}

// known is words, or says that nobody counted any.
func (u used) known() string { return cmp.Or(u.words(), "unknown") }

// usedBy returns what a run used, as a fact of its page: its trace, and the live run with its id.
func (a *app) usedBy(ctx context.Context, d *db.DB, runID string) (fact []string, err error) {
	sum, err := stores.Get(ctx, d.Read, "read usage", func(rx *db.Rx) (sum reading.Counts, err error) {
		scope, ok, err := rx.Store().Scope(a.scope)
		if err != nil || !ok {
			return sum, err
		}
		rows, err := reading.OfRun(rx, scope, runID)
		for _, r := range rows {
			sum.Add(r.Numbers)
		}
		return sum, err
	})
	if words := usedOf(sum.Usage()).words(); words != "" {
		fact = []string{"used", words}
	}
	return fact, err
}

func (a *app) costCommand() *cobra.Command {
	var since time.Time
	c := &cobra.Command{
		Use:   "cost [RUN] [--tree] [--since TIME]",
		Short: "Show what runs cost: tokens and dollars",
		Long: `cost shows what a run used, by model; with --tree, what it and all runs below it used. Without RUN it
shows what was used on each day (UTC), by agent and model, removed runs included. No use is counted twice, and
what nobody counted stays empty.`,
		Args: cobra.MaximumNArgs(1),
	}
	runNoun.addOwner(c)
	tree := c.Flags().Bool("tree", false, "count the runs below the run too")
	a.sinceFlag(c, &since, "without RUN: only what was used")
	c.RunE = a.on(toRead, func(ctx context.Context, d *db.DB, args []string) error {
		if len(args) == 0 {
			if *tree {
				return usage("--tree goes with a RUN")
			}
			return a.costOfDays(ctx, d, since)
		}
		if !since.IsZero() {
			return usage("choose one of RUN and --since")
		}
		t, err := runNoun.find(ctx, runNoun.open(a, d), args[0], given(c, runNoun.owner))
		if err != nil {
			return err
		}
		cost, err := a.front(d).Cost(ctx, runRef(t))
		if err != nil {
			return err
		}
		return a.costOfRun(t, cost, *tree)
	})
	return a.answering(c, costAnswer{})
}

func (a *app) costOfRun(t thing, cost selvedge.Cost, tree bool) error {
	answer := costAnswer{RunID: t.id, AgentID: t.owner, Own: new(usedOf(cost.Own))}
	facts := []string{"run", t.id, "agent", t.owner, "used", answer.Own.known()}
	models := cost.OwnByModel
	if tree {
		answer.Tree, answer.Runs, models = new(usedOf(cost.Tree)), cost.Runs, cost.ByModel
		facts = append(facts, "with the runs below", answer.Tree.known(), "runs", strconv.Itoa(cost.Runs))
	}
	g := &grid{
		header: []string{"provider", "model", "in", "cached", "out", "cost"},
		right:  []int{2, 3, 4, 5}, least: []int{3, 0},
	}
	for _, u := range models {
		m := costOfModel{value(u.Provider), value(cmp.Or(u.ResponseModel, u.RequestModel)), usedOf(u)}
		answer.Models = append(answer.Models, m)
		g.add(append([]string{m.Provider, m.Model}, m.cells()...)...)
	}
	return a.answer(answer, func() { a.printSheet(facts, g) })
}

func (a *app) costOfDays(ctx context.Context, d *db.DB, since time.Time) error {
	list, err := query.On(d, a.scope).Used(ctx, since, time.Time{})
	if err != nil {
		return err
	}
	var answer costAnswer
	g := &grid{
		header: []string{"day", "agent", "provider", "model", "in", "cached", "out", "cost"},
		right:  []int{4, 5, 6, 7}, ids: []int{1}, least: []int{5, 2},
	}
	for _, u := range list {
		used := usedOf(u.Usage)
		answer.Days = append(answer.Days, costOfDay{u.Day, u.Agent, costOfModel{u.Provider, u.Model, used}})
		g.add(append([]string{u.Day, u.Agent, u.Provider, u.Model}, used.cells()...)...)
	}
	return a.answer(answer, func() { a.printSheet(nil, g) })
}
