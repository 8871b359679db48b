package soak_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"text/template"
	"time"
)

// A figure is measured again and again while the soak lasts.
type figure struct {
	Name    string
	unit    float64 // what Samples are shown in
	swings  bool    // it grows and begins again: its median says nothing
	slack   float64 // that it may grow all the same
	Samples []float64
}

// How much the median and the ninth decile of the last quarter may be above those of the second. The
// first quarter is the warm-up. The maximum is one moment, and not judged.
const (
	mostMedian = 1.10
	mostDecile = 1.25
)

// quarter returns the samples of the quarter n, from 0, in ascending order.
func (f *figure) quarter(n int) []float64 {
	return slices.Sorted(slices.Values(f.Samples[n*len(f.Samples)/4 : (n+1)*len(f.Samples)/4]))
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

func decile(sorted []float64) float64 { return sorted[len(sorted)*9/10] }

// flat reports whether the figure did not grow.
func (f *figure) flat() bool {
	second, last := f.quarter(1), f.quarter(3)
	steady := f.swings || median(last) <= mostMedian*median(second)+f.slack
	return steady && decile(last) <= mostDecile*decile(second)+f.slack
}

// Words describes the second quarter and the last.
func (f *figure) Words() string {
	second, last := f.quarter(1), f.quarter(3)
	return fmt.Sprintf("%s: median %.4g, then %.4g; ninth decile %.4g, then %.4g; maximum %.4g, then %.4g",
		f.Name, median(second)/f.unit, median(last)/f.unit, decile(second)/f.unit, decile(last)/f.unit,
		slices.Max(second)/f.unit, slices.Max(last)/f.unit)
}

// Line is the points of the figure in a box of 600 by 60.
func (f *figure) Line() (points string) {
	most := max(slices.Max(f.Samples), 1)
	for i, n := range f.Samples {
		points += fmt.Sprintf("%.1f,%.1f ", 600*float64(i)/float64(len(f.Samples)-1), 60-60*n/most)
	}
	return points
}

var page = template.Must(template.New("").Funcs(template.FuncMap{"y": func(i int) int { return 24 + 96*i }}).
	Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {{y (len .Figures)}}" role="img"
  font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="20" y="18">{{.Title}}</text>
{{range $i, $f := .Figures}}<g transform="translate(20 {{y $i}})"><text y="16">{{.Words}}</text>
<g transform="translate(0 24)"><path d="M150 0V60M300 0V60M450 0V60" stroke="#ddd"/>
<path d="M0 60H600" stroke="#888"/>
<polyline points="{{.Line}}" fill="none" stroke="#06c"/></g></g>
{{end}}</svg>
`))

// plot draws figures below each other, each from 0 to its maximum.
func plot(title string, figures []*figure) ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, struct {
		Title   string
		Figures []*figure
	}{title, figures})
	return out.Bytes(), err
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
		f := &figure{Name: "f", unit: 1}
		for i := range 240 {
			f.Samples = append(f.Samples, 1000+by*float64(i)/240+float64(i%7))
		}
		return f
	}
	if f := grows(0); !f.flat() {
		t.Errorf("not flat: %s", f.Words())
	}
	if f := grows(300); f.flat() {
		t.Errorf("flat: %s", f.Words())
	}
	peaks := grows(0)
	for i := 180; i < 240; i += 8 {
		peaks.Samples[i] = 1300
	}
	if peaks.flat() {
		t.Errorf("flat: %s", peaks.Words())
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
