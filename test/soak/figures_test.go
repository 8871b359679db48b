package soak_test

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A figure is measured again and again while the soak lasts.
type figure struct {
	name    string
	unit    float64 // what the samples are shown in
	swings  bool    // it grows and begins again: its median says nothing
	slack   float64 // that it may grow all the same
	samples []float64
}

// How much the median and the ninth decile of the last quarter may be above those of the second. The
// first quarter is the warm-up. The maximum is one moment, and not judged.
const (
	mostMedian = 1.10
	mostDecile = 1.25
)

// quarter returns the samples of the quarter n, from 0, in ascending order.
func (f *figure) quarter(n int) []float64 {
	return slices.Sorted(slices.Values(f.samples[n*len(f.samples)/4 : (n+1)*len(f.samples)/4]))
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

func decile(sorted []float64) float64 { return sorted[len(sorted)*9/10] }

// flat reports whether the figure did not grow.
func (f *figure) flat() bool {
	second, last := f.quarter(1), f.quarter(3)
	steady := f.swings || median(last) <= mostMedian*median(second)+f.slack
	return steady && decile(last) <= mostDecile*decile(second)+f.slack
}

// words describes the second quarter and the last.
func (f *figure) words() string {
	second, last := f.quarter(1), f.quarter(3)
	return fmt.Sprintf("%s: median %.4g, then %.4g; ninth decile %.4g, then %.4g; maximum %.4g, then %.4g",
		f.name, median(second)/f.unit, median(last)/f.unit, decile(second)/f.unit, decile(last)/f.unit,
		slices.Max(second)/f.unit, slices.Max(last)/f.unit)
}

// Times counts durations by their logarithm, in room that does not grow.
type times [1200]atomic.Uint32

const step = 1.025 // from a bucket to the next

func (t *times) add(d time.Duration) {
	at := int(math.Log(float64(max(d, 1))) / math.Log(step))
	t[min(at, len(t)-1)].Add(1)
}

func (t *times) count() (n uint32) {
	for i := range t {
		n += t[i].Load()
	}
	return n
}

// percentile returns a duration that the share of all does not exceed, up to 2.5 % too high.
func (t *times) percentile(share float64) time.Duration {
	rest := float64(t.count()) * share
	for i := range t {
		if rest -= float64(t[i].Load()); rest <= 0 {
			return time.Duration(math.Pow(step, float64(i+1)))
		}
	}
	return math.MaxInt64
}

func TestFlat_NoticesGrowth(t *testing.T) {
	grows := func(by float64) *figure {
		f := &figure{name: "f", unit: 1}
		for i := range 240 {
			f.samples = append(f.samples, 1000+by*float64(i)/240+float64(i%7))
		}
		return f
	}
	if f := grows(0); !f.flat() {
		t.Errorf("not flat: %s", f.words())
	}
	if f := grows(300); f.flat() {
		t.Errorf("flat: %s", f.words())
	}
	peaks := grows(0)
	for i := 180; i < 240; i += 8 {
		peaks.samples[i] = 1300
	}
	if peaks.flat() {
		t.Errorf("flat: %s", peaks.words())
	}
}

func TestTimes_PercentilesAreClose(t *testing.T) {
	var all times
	for i := range 1000 {
		all.add(time.Duration(i+1) * time.Microsecond)
	}
	for share, want := range map[float64]time.Duration{
		0.5: 500 * time.Microsecond, 0.999: 999 * time.Microsecond,
	} {
		if got := all.percentile(share); got < want || got > want*103/100 {
			t.Errorf("%v of all take %v, not %v", share, got, want)
		}
	}
}
