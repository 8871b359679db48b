package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// A result is one line of the table.
type result struct {
	row      string
	baseline string
	ours     string
	ratio    string
	target   string
	met      string
}

const (
	metYes     = "met"
	metNo      = "MISSED"
	metUnknown = "-"
)

func verdict(ok bool) string {
	if ok {
		return metYes
	}
	return metNo
}

// atMost is a line for a ratio that must not be above the target.
func (d duel) atMost(row string, number func(round) float64, target float64) result {
	ratio := d.ratio(number)
	return result{
		row: row, baseline: show(median(of(d.baseline, number))), ours: show(median(of(d.ours, number))),
		ratio: fmt.Sprintf("%.2fx", ratio), target: fmt.Sprintf("<= %.2fx", target), met: verdict(ratio <= target),
	}
}

// reported is a line for a ratio without a target.
func (d duel) reported(row string, number func(round) float64) result {
	r := d.atMost(row, number, 0)
	r.target, r.met = "", metUnknown
	return r
}

// faster is a line for how many times as fast ours must be.
func (d duel) faster(row string, number func(round) float64, target float64) result {
	times := 1 / d.ratio(number)
	format := "%.1fx"
	if times >= 100 {
		format = "%.0fx"
	}
	return result{
		row: row, baseline: show(median(of(d.baseline, number))), ours: show(median(of(d.ours, number))),
		ratio: fmt.Sprintf(format+" faster", times), target: fmt.Sprintf(">= %gx", target),
		met: verdict(times >= target),
	}
}

// within is a line for a time that must not be longer than the target. It holds on an idle machine.
func within(row string, nanos float64, target time.Duration) result {
	return result{
		row: row, ours: show(nanos), target: "<= " + target.String(),
		met: verdict(nanos <= float64(target)),
	}
}

// show is a time in the unit that suits it.
func show(nanos float64) string {
	switch {
	case nanos < 1e6:
		return fmt.Sprintf("%.1f µs", nanos/1e3)
	case nanos < 1e9:
		return fmt.Sprintf("%.2f ms", nanos/1e6)
	}
	return fmt.Sprintf("%.2f s", nanos/1e9)
}

func perSecond(nanos float64) string { return fmt.Sprintf("%.0f/s", 1e9/nanos) }

// asRates shows a line's times as calls a second.
func (r result) asRates(d duel) result {
	r.baseline = perSecond(median(of(d.baseline, round.perCall)))
	r.ours = perSecond(median(of(d.ours, round.perCall)))
	return r
}

func printTable(w io.Writer, list []result) error {
	var lines strings.Builder
	lines.WriteString("work\tbaseline\tours\tratio\tmust reach\t\n")
	for _, r := range list {
		fmt.Fprintf(&lines, "%s\t%s\t%s\t%s\t%s\t%s\n", r.row, r.baseline, r.ours, r.ratio, r.target, r.met)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, lines.String()); err != nil {
		return err
	}
	return t.Flush()
}
