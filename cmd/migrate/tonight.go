package main

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"selvedge"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/query"
)

// tonightAnswer is the shape of tonight --json. Each list has at most 50 items.
type tonightAnswer struct {
	Needs    []selvedge.Step       `json:"needs"`     // as in needs
	Paused   []checkpoints.Summary `json:"paused"`    // as in checkpoints list
	Running  []costedRun           `json:"running"`   // open runs, newest first
	Failed   []costedRun           `json:"failed"`    // that ended since the time, the last first
	Week     used                  `json:"week"`      // used in the last seven days
	LastWeek used                  `json:"last_week"` // used in the seven days before
}

// costedRun is a run with what it used without the runs below it.
type costedRun struct {
	query.Run
	used
}

func costed(list []query.Run) []costedRun {
	return each(list, func(r query.Run) costedRun { return costedRun{r, usedOf(r.Usage)} })
}

var _ = register("Look:", 10, func(a *app) *cobra.Command {
	var since time.Time
	c := &cobra.Command{
		Use:   "tonight [--since TIME]",
		Short: "Show what needs a person, what runs, what failed and why, and what it cost",
		Long: `tonight shows what waits for a person, the open runs, those that failed in the last 12 hours or since
--since, and the cost of this week and the last. An open run is stalled if it waits for nobody and nothing was
written to it for 15 minutes.`,
	}
	a.sinceFlag(c, &since, "only failed runs that ended")
	c.RunE = a.on(toRead, func(ctx context.Context, d *db.DB, _ []string) error {
		if since.IsZero() {
			since = time.Now().Add(-12 * time.Hour)
		}
		q := query.On(d, a.scope)
		o, err := q.Overview(ctx, since)
		if err != nil {
			return err
		}
		week, lastWeek, err := q.Weeks(ctx)
		if err != nil {
			return err
		}
		answer := tonightAnswer{
			Needs: orEmpty(o.Needs.Items), Paused: orEmpty(o.Paused.Items), Running: orEmpty(costed(o.Running.Items)),
			Failed: orEmpty(costed(o.Failed.Items)), Week: usedOf(week), LastWeek: usedOf(lastWeek),
		}
		return a.answer(answer, func() { a.printTonight(o, answer) })
	})
	return a.answering(c, tonightAnswer{})
})

func (a *app) printTonight(o query.Overview, answer tonightAnswer) {
	facts := []string{
		"needs you", more(len(o.Needs.Items)+len(o.Paused.Items), o.Needs.Next+o.Paused.Next),
		"running", more(len(o.Running.Items), o.Running.Next), "failed", more(len(o.Failed.Items), o.Failed.Next),
		"this week", answer.Week.known(), "last week", answer.LastWeek.known(),
	}
	var tables []*grid
	needs := stepGrid
	for _, s := range o.Needs.Items {
		needs.add(stepCells(s)...)
	}
	for _, c := range o.Paused.Items {
		needs.add(c.RunID, c.AgentID, c.PausedStageID, "checkpoint", string(c.State), "", instant(c.CreatedAt),
			cut(c.Prompt, 60))
	}
	running := grid{
		header: []string{"running", "agent", "started", "last written", "status", "turns", "cost", "intent"},
		right:  []int{5, 6}, times: []int{2, 3}, ids: []int{0, 1}, least: []int{5, 2, 6, 1},
	}
	for _, r := range o.Running.Items {
		status := string(r.Status)
		if r.Stalled {
			status = "stalled"
		}
		running.add(r.RunID, r.AgentID, instant(r.StartedAt), instant(r.LastAt), status, strconv.Itoa(r.Turns),
			dollarWords(r.Usage.CostUSD), cut(r.Intent, 60))
	}
	failed := grid{
		header: []string{"failed", "agent", "ended", "status", "turns", "cost", "why"},
		right:  []int{4, 5}, times: []int{2}, ids: []int{0, 1}, least: []int{4, 5, 1},
	}
	for _, r := range o.Failed.Items {
		failed.add(r.RunID, r.AgentID, instant(*r.EndedAt), cmp.Or(string(r.Outcome), string(r.Status)),
			strconv.Itoa(r.Turns), dollarWords(r.Usage.CostUSD), cut(cmp.Or(r.Why, r.Intent), 60))
	}
	for _, g := range []*grid{&needs, &running, &failed} {
		if len(g.rows) > 0 {
			tables = append(tables, g)
		}
	}
	a.printSheet(facts, tables...)
}

// more formats the number of a page's items; next is not empty if there are more.
func more(n int, next string) string {
	if next != "" {
		return strconv.Itoa(n) + " and more"
	}
	return strconv.Itoa(n)
}
