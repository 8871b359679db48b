package main

import (
	"cmp"
	"slices"
	"time"
)

// samples are the times of single calls, or of whole blocks.
type samples []time.Duration

// A statistic is one number about samples, in nanoseconds.
type statistic func(samples) float64

func percentile(p float64) statistic {
	return func(s samples) float64 {
		sorted := slices.Sorted(slices.Values(s))
		return float64(sorted[min(int(p*float64(len(sorted))), len(sorted)-1)])
	}
}

var (
	p50 = percentile(0.50)
	p99 = percentile(0.99)
)

func mean(s samples) float64 {
	var sum time.Duration
	for _, d := range s {
		sum += d
	}
	return float64(sum) / float64(len(s))
}

func median[T cmp.Ordered](list []T) T {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// timed calls fn n times and keeps the time of each call.
func timed(n int, fn func(i int) error) (samples, error) {
	s := make(samples, n)
	for i := range s {
		began := time.Now()
		if err := fn(i); err != nil {
			return nil, err
		}
		s[i] = time.Since(began)
	}
	return s, nil
}

// A round is what one side measured in one go. block is the time of all of it together, where calls
// ran side by side.
type round struct {
	calls samples
	block time.Duration
}

// perCall is the time that one call took of the block, on average: its inverse is the throughput.
func (r round) perCall() float64 { return float64(r.block) / float64(len(r.calls)) }

// A side measures one round.
type side func(number int) (round, error)

// each makes a side of calls that follow one another.
func each(n int, fn func(round, i int) error) side {
	return func(number int) (round, error) {
		began := time.Now()
		s, err := timed(n, func(i int) error { return fn(number, i) })
		return round{calls: s, block: time.Since(began)}, err
	}
}

// A duel is the rounds of two sides.
type duel struct{ baseline, ours []round }

// run lets two sides measure in turns. The first round of each warms caches, files and the WAL, and
// does not count.
func run(rounds int, baseline, ours side) (duel, error) {
	var d duel
	for number := range rounds + 1 {
		sides := []struct {
			side side
			into *[]round
		}{{baseline, &d.baseline}, {ours, &d.ours}}
		if number%2 == 1 {
			slices.Reverse(sides)
		}
		for _, s := range sides {
			r, err := s.side(number)
			if err != nil {
				return d, err
			}
			if number > 0 {
				*s.into = append(*s.into, r)
			}
		}
	}
	return d, nil
}

// solo lets one side measure by itself.
func solo(rounds int, ours side) ([]round, error) {
	var list []round
	for number := range rounds + 1 {
		r, err := ours(number)
		if err != nil {
			return nil, err
		}
		if number > 0 {
			list = append(list, r)
		}
	}
	return list, nil
}

// of applies a number of a round to all rounds.
func of(rounds []round, number func(round) float64) []float64 {
	var list []float64
	for _, r := range rounds {
		list = append(list, number(r))
	}
	return list
}

func calls(s statistic) func(round) float64 { return func(r round) float64 { return s(r.calls) } }

// ratio is ours by the baseline, the median of the rounds.
func (d duel) ratio(number func(round) float64) float64 {
	var list []float64
	for i := range d.ours {
		list = append(list, number(d.ours[i])/number(d.baseline[i]))
	}
	return median(list)
}
