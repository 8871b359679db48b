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

// plotsOf returns the plots of so many days.
func plotsOf(first time.Time, days int, used []query.Used, ran []query.Day) (list []plot) {
	numbers := func(of func(day string) float64) (all []float64) {
		for i := range days {
			all = append(all, of(first.AddDate(0, 0, i).Format(time.DateOnly)))
		}
		return all
	}
	sum := func(of func(query.Used) float64) func(string) float64 {
		return func(day string) (sum float64) {
			for _, u := range used {
				if u.Day == day {
					sum += of(u)
				}
			}
			return sum
		}
	}
	of := func(of func(query.Day) float64) func(string) float64 {
		return func(day string) float64 {
			for _, d := range ran {
				if d.Day == day {
					return of(d)
				}
			}
			return 0
		}
	}
	whole := func(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }
	for _, p := range []struct {
		name  string
		of    func(string) float64
		words func(float64) string
	}{
		{"cost", sum(func(u query.Used) float64 {
			if u.Usage.CostUSD == nil {
				return 0
			}
			return *u.Usage.CostUSD
		}), func(n float64) string { return dollars(&n) }},
		{"tokens", sum(func(u query.Used) (n float64) {
			for _, of := range []*uint64{u.Usage.InputTokens, u.Usage.OutputTokens} {
				if of != nil {
					n += float64(*of)
				}
			}
			return n
		}), func(n float64) string { return count(new(uint64(n))) }},
		{"runs", of(func(d query.Day) float64 { return float64(d.Runs) }), whole},
		{"failed", of(func(d query.Day) float64 { return float64(d.Failed) }), whole},
		{"mean duration", of(func(d query.Day) float64 { return d.Seconds }), func(n float64) string {
			return time.Duration(n * float64(time.Second)).Round(100 * time.Millisecond).String()
		}},
	} {
		list = append(list, plotOf(p.name, first, numbers(p.of), p.words))
	}
	return list
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
