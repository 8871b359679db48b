package web

import (
	"strconv"
	"time"

	"selvedge/query"
)

// A plot shows a number for each day as bars.
type plot struct {
	Name string
	Most string // the highest, in words
	Bars []bar
}

type bar struct {
	X, Y, Height float64 // in a box of 300 by 60
	Words        string  // the day and its number
}

// A total adds up what is plotted of a day.
type total struct{ cost, tokens, runs, failed, seconds float64 }

// plotsOf returns the plots of so many days.
func plotsOf(first time.Time, days int, used []query.Used, ran []query.Day) (list []plot) {
	totals := map[string]total{}
	for _, u := range used {
		t := totals[u.Day]
		t.cost += orZero(u.Usage.CostUSD)
		t.tokens += float64(orZero(u.Usage.InputTokens)) + float64(orZero(u.Usage.OutputTokens))
		totals[u.Day] = t
	}
	for _, d := range ran {
		t := totals[d.Day]
		t.runs, t.failed, t.seconds = float64(d.Runs), float64(d.Failed), d.Seconds
		totals[d.Day] = t
	}
	whole := func(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }
	grouped := func(n float64) string { return count(new(uint64(n))) }
	for _, p := range []struct {
		name  string
		of    func(total) float64
		words func(float64) string
	}{
		{"cost", func(t total) float64 { return t.cost }, func(n float64) string { return dollars(&n) }},
		{"tokens", func(t total) float64 { return t.tokens }, grouped},
		{"runs", func(t total) float64 { return t.runs }, whole},
		{"failed", func(t total) float64 { return t.failed }, whole},
		{"mean duration", func(t total) float64 { return t.seconds }, func(n float64) string {
			return time.Duration(n * float64(time.Second)).Round(100 * time.Millisecond).String()
		}},
	} {
		numbers := make([]float64, days)
		for i := range numbers {
			numbers[i] = p.of(totals[first.AddDate(0, 0, i).Format(time.DateOnly)])
		}
		list = append(list, plotOf(p.name, first, numbers, p.words))
	}
	return list
}

func orZero[T any](n *T) (value T) {
	if n != nil {
		value = *n
	}
	return value
}

func plotOf(name string, first time.Time, numbers []float64, words func(float64) string) plot {
	const width, height = 300.0, 60.0
	most := 0.0
	for _, n := range numbers {
		most = max(most, n)
	}
	p := plot{Name: name, Most: words(most)}
	for i, n := range numbers {
		b := bar{X: float64(i) * width / float64(len(numbers)), Words: first.AddDate(0, 0,
			i).Format(time.DateOnly) +
			": " + words(n)}
		if most > 0 {
			b.Height = height * n / most
		}
		b.Y = height - b.Height
		p.Bars = append(p.Bars, b)
	}
	return p
}
