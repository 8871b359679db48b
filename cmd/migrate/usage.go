package main

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"selvedge/db"
	reading "selvedge/internal/usage"
)

// usedBy is what a record says that a model used.
func usedBy(text []byte) db.Usage { return reading.Of(text) }

// A tally adds up what records used.
type tally struct {
	input, output, cost *float64 // tokens, and US dollars; nil: no record counts them
}

func (t *tally) add(u db.Usage) {
	more := func(sum **float64, n float64) {
		if *sum == nil {
			*sum = new(float64)
		}
		**sum += n
	}
	if u.InputTokens != nil {
		more(&t.input, float64(*u.InputTokens))
	}
	if u.OutputTokens != nil {
		more(&t.output, float64(*u.OutputTokens))
	}
	if u.CostUSD != nil {
		more(&t.cost, *u.CostUSD)
	}
}

// atLeast makes of each sum that of another tally where that is more.
func (t *tally) atLeast(o tally) {
	for _, c := range []struct {
		sum   **float64
		other *float64
	}{{&t.input, o.input}, {&t.output, o.output}, {&t.cost, o.cost}} {
		if c.other != nil && (*c.sum == nil || *c.other > **c.sum) {
			*c.sum = c.other
		}
	}
}

func (t *tally) counted() bool { return t.input != nil || t.output != nil || t.cost != nil }

// words are for people: 36,000 tokens in, 960 out, $0.36.
func (t *tally) words() string {
	var words []string
	if t.input != nil {
		words = append(words, humanize.Commaf(*t.input)+" tokens in")
	}
	if t.output != nil {
		words = append(words, humanize.Commaf(*t.output)+" out")
	}
	if t.cost != nil {
		words = append(words, "$"+strings.TrimSuffix(fmt.Sprintf("%.4f", *t.cost), "00"))
	}
	return strings.Join(words, ", ")
}
