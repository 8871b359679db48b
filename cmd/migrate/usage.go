package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"selvedge/db"
	reading "selvedge/internal/usage"
)

// A tally adds up what records used: input tokens, output tokens, and US dollars. A sum is nil if
// no record counts it.
type tally [3]*float64

func (t *tally) add(u db.Usage) {
	for i, n := range []*float64{decimal(u.InputTokens), decimal(u.OutputTokens), u.CostUSD} {
		switch {
		case n == nil:
		case t[i] == nil:
			t[i] = new(*n)
		default:
			*t[i] += *n
		}
	}
}

func decimal(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// usedBy returns what a run used, as a fact of its page: its trace, and the live run with its id.
func (a *app) usedBy(ctx context.Context, d *db.DB, runID string) (fact []string, err error) {
	var t tally
	err = d.Read(ctx, "read usage", func(rx *db.Rx) error {
		scope, ok, err := rx.Store().Scope(a.scope)
		if err != nil || !ok {
			return err
		}
		rows, err := reading.OfRun(rx, scope, runID)
		var sum reading.Counts
		for _, r := range rows {
			sum.Add(r.Numbers)
		}
		t = tally{}
		t.add(sum.Usage())
		return err
	})
	if t.counted() {
		fact = []string{"used", t.words()}
	}
	return fact, err
}

func (t *tally) counted() bool { return *t != tally{} }

// words formats a tally for people: 36,000 tokens in, 960 out, $0.36.
func (t *tally) words() string {
	var words []string
	if t[0] != nil {
		words = append(words, humanize.Commaf(*t[0])+" tokens in")
	}
	if t[1] != nil {
		words = append(words, humanize.Commaf(*t[1])+" out")
	}
	if t[2] != nil {
		words = append(words, "$"+strings.TrimSuffix(fmt.Sprintf("%.4f", *t[2]), "00"))
	}
	return strings.Join(words, ", ")
}
