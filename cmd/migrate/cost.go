package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge"
	"selvedge/db"
)

var _ = register("Look:", 19, (*app).costCommand)

// used are the counts of a cost --json. What nobody counted is null.
type used struct {
	Input      *uint64  `json:"input_tokens"`             // tokens read, those from a cache included
	CacheRead  *uint64  `json:"cache_read_input_tokens"`  // of these, read from a cache
	CacheWrite *uint64  `json:"cache_write_input_tokens"` // of these, written to a cache
	Output     *uint64  `json:"output_tokens"`            // tokens answered
	Reasoning  *uint64  `json:"reasoning_output_tokens"`  // of these, for reasoning
	CostUSD    *float64 `json:"cost_usd"`                 // US dollars
}

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

func usedOf(u db.Usage) used {
	return used{
		u.InputTokens, u.CacheReadInputTokens, u.CacheWriteInputTokens, u.OutputTokens, u.ReasoningOutputTokens,
		u.CostUSD,
	}
}

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

func (u used) words() string {
	t := tally{decimal(u.Input), decimal(u.Output), u.CostUSD}
	return cmp.Or(t.words(), "unknown")
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
	facts := []string{"run", t.id, "agent", t.owner, "used", answer.Own.words()}
	models := cost.OwnByModel
	if tree {
		answer.Tree, answer.Runs, models = new(usedOf(cost.Tree)), cost.Runs, cost.ByModel
		facts = append(facts, "with the runs below", answer.Tree.words(), "runs", strconv.Itoa(cost.Runs))
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

const sqlCostOfDays = `SELECT coalesce(substr(recorded_at, 1, 10), '') AS day,
	coalesce(agent_id, session_id, '') AS agent, coalesce(provider, '') AS provider,
	coalesce(response_model, request_model, '') AS model,
	CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
	CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
	CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
	CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
	CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
	CAST(sum(cost_nanos) AS BIGINT) AS cost_nanos
FROM v_usage WHERE scope = ?`

func (a *app) costOfDays(ctx context.Context, d *db.DB, since time.Time) error {
	type row struct {
		Day        string  `db:"day"`
		Agent      string  `db:"agent"`
		Provider   string  `db:"provider"`
		Model      string  `db:"model"`
		Input      *uint64 `db:"input_tokens"`
		CacheRead  *uint64 `db:"cache_read_input_tokens"`
		CacheWrite *uint64 `db:"cache_write_input_tokens"`
		Output     *uint64 `db:"output_tokens"`
		Reasoning  *uint64 `db:"reasoning_output_tokens"`
		Nanos      *int64  `db:"cost_nanos"`
	}
	query, args := sqlCostOfDays, []any{a.scope}
	if !since.IsZero() {
		query, args = query+` AND recorded_at_ns >= ?`, append(args, db.Nanos(since))
	}
	var rows []row
	err := d.Read(ctx, "add up what runs cost", func(rx *db.Rx) error {
		rows = nil
		return rx.Select(&rows, query+` GROUP BY 1, 2, 3, 4`, args...)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(x, y row) int {
		return cmp.Or(cmp.Compare(y.Day, x.Day), cmp.Compare(nanos(y.Nanos), nanos(x.Nanos)),
			cmp.Compare(x.Agent, y.Agent), cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Model, y.Model))
	})
	var answer costAnswer
	g := &grid{
		header: []string{"day", "agent", "provider", "model", "in", "cached", "out", "cost"},
		right:  []int{4, 5, 6, 7}, ids: []int{1}, least: []int{5, 2},
	}
	for _, r := range rows {
		u := used{r.Input, r.CacheRead, r.CacheWrite, r.Output, r.Reasoning, nil}
		if r.Nanos != nil {
			u.CostUSD = new(float64(*r.Nanos) / 1e9)
		}
		answer.Days = append(answer.Days, costOfDay{r.Day, r.Agent, costOfModel{r.Provider, r.Model, u}})
		g.add(append([]string{r.Day, r.Agent, r.Provider, r.Model}, u.cells()...)...)
	}
	return a.answer(answer, func() { a.printSheet(nil, g) })
}

// nanos is a cost for sorting: unknown comes last.
func nanos(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}
