package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A campaign is a run of this program: points of many scripts, and the count of the findings.
type campaign struct {
	*runner
	out    io.Writer
	only   string // scripts, separated by commas; "" is all
	modes  string // the same
	seed   uint64
	jobs   int
	budget time.Duration
	began  time.Time

	mu     sync.Mutex
	totals map[string]*total // by script and mode
	order  []string
}

type total struct{ points, failed int }

// A job is a process, or the record of one, and the points that are judged of it.
type job struct {
	point
	record *record // of a process that has run
	images int     // how many images are made of the record; without one, of a process that runs for the job
	draw   uint64
}

const (
	// always is how often a fault happens that stays, such as a disk that is full from now on.
	always = 1 << 20
	// imagesOfMoment is how many images are made of each moment of a record; the first lost all that it could.
	imagesOfMoment = 5
	// imagesOfFault is how many images are made of a process in which a call failed.
	imagesOfFault = 8
)

// run goes through every point, or draws points for as long as it may.
func (c *campaign) run(ctx context.Context) error {
	c.printf("seed %d\n", c.seed)
	var queues [][]job // of a script and a mode each
	for i := range scripts {
		if !chosen(c.only, scripts[i].name) {
			continue
		}
		list, err := c.list(ctx, &scripts[i])
		if err != nil {
			return err
		}
		queues = append(queues, list...)
	}
	if len(queues) == 0 {
		return fmt.Errorf("no script is called %q, or no mode %q", c.only, c.modes)
	}
	all := 0
	for _, q := range queues {
		all += len(q)
	}
	did, err := c.work(ctx, queues)
	if err != nil {
		return err
	}
	c.printf("%d of %d processes and moments\n", did, all)
	return c.report()
}

func chosen(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// list is what can happen in a script: a queue for each mode.
func (c *campaign) list(ctx context.Context, sc *script) (queues [][]job, err error) {
	if err := c.prepare(ctx, sc); err != nil {
		return nil, err
	}
	free := point{script: sc, end: closing}
	e, rec, problems, err := c.census(&free)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", sc.name, err)
	}
	c.note(&free, problems)
	draw := rand.New(rand.NewPCG(c.seed, 0)) //nolint:gosec // a draw that can be repeated
	var kills, faults, killed, cuts, cutAfter []job
	for i, call := range e.calls {
		if call.class.changes() {
			kills = append(kills, job{point: point{script: sc, at: i + 1, fault: kill, times: 1, end: closing}})
		}
		all := call.class.faults()
		p := point{script: sc, at: i + 1, times: 1}
		for _, p.fault = range all {
			p.end = []ending{closing, dying}[draw.IntN(2)]
			faults = append(faults, job{point: p})
		}
		p.fault, p.times = all[draw.IntN(len(all))], []int{2, 3, always}[draw.IntN(3)]
		if p.fault.interrupts() {
			p.times = 2 // a call that is always interrupted may retry for ever
		}
		faults = append(faults, job{point: p})
		p.killAt = 1 + draw.IntN(60)
		killed = append(killed, job{point: p})
		if call.class == writes || call.class == syncs || call.class == resizes {
			p.killAt, p.end, p.cut = 0, dying, &cut{}
			cutAfter = append(cutAfter, job{point: p, images: imagesOfFault, draw: draw.Uint64()})
		}
	}
	for at := rec.armed(); at <= len(rec.events); at++ {
		p := free
		p.cut = &cut{at: at}
		cuts = append(cuts, job{point: p, record: rec, images: imagesOfMoment, draw: draw.Uint64()})
	}
	for _, queue := range [][]job{kills, faults, killed, cuts, cutAfter} {
		if len(queue) == 0 || !chosen(c.modes, queue[0].mode()) {
			continue
		}
		if c.budget > 0 {
			draw.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		}
		queues = append(queues, queue)
	}
	return queues, nil
}

// work does the jobs, a job of each queue in turn, until there are none or the time is over, and
// returns their number.
func (c *campaign) work(ctx context.Context, queues [][]job) (did int, err error) {
	next := make(chan job)
	stop := make(chan struct{})
	listed := make(chan struct{})
	go func() {
		defer close(listed)
		defer close(next)
		for i := 0; slices.ContainsFunc(queues, func(q []job) bool { return i < len(q) }); i++ {
			for _, q := range queues {
				if ctx.Err() != nil || c.budget > 0 && time.Since(c.began) > c.budget {
					return // earlier findings are reported
				}
				if i < len(q) {
					select {
					case next <- q[i]:
						did++
					case <-stop:
						return
					}
				}
			}
		}
	}()
	workers := c.jobs
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	failed := make(chan error, workers)
	for range workers {
		go func() {
			for j := range next {
				if err := c.do(j); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range workers {
		if e := <-failed; e != nil && err == nil {
			err = e
			close(stop)
		}
	}
	<-listed
	return did, err
}

// do does one job.
func (c *campaign) do(j job) error {
	p := j.point
	if j.images == 0 {
		_, problems, err := c.try(&p)
		c.note(&p, problems)
		return err
	}
	anywhere := j.record == nil
	if anywhere {
		var err error
		var problems []string
		if _, j.record, problems, err = c.faulty(&p); err != nil {
			return fmt.Errorf("%s: %w", &p, err)
		}
		p.cut = nil
		c.note(&p, problems)
	}
	draw := rand.New(rand.NewPCG(j.draw, 0)) //nolint:gosec // a draw that can be repeated
	for i := range j.images {
		p := p
		at := cut{at: j.cut.at, draw: uint64(draw.Uint32()) | 1}
		if anywhere {
			// a process with another end makes fewer calls, and may not be hit
			from := max(j.record.hit, j.record.armed())
			at.at = from + draw.IntN(len(j.record.events)-from+1)
		}
		if i == 0 {
			at.draw = 0
		}
		p.cut = &at
		problems, err := c.powerCut(&p, j.record)
		if err != nil {
			return fmt.Errorf("%s: %w", &p, err)
		}
		c.note(&p, problems)
	}
	return nil
}

// repeat does one point again and tells how it went.
func (c *campaign) repeat(ctx context.Context, p *point) (err error) {
	if err := c.prepare(ctx, p.script); err != nil {
		return err
	}
	var e episode
	var rec *record
	var wrong, problems []string
	if p.cut == nil {
		e, problems, err = c.try(p)
	} else if e, rec, wrong, err = c.faulty(p); err == nil {
		problems, err = c.powerCut(p, rec)
	}
	if err != nil {
		return err
	}
	for i, call := range e.calls {
		if e.hit != nil && i >= p.at-4 && i < p.at+4 {
			c.printf("%6d %-10s %-40s %d bytes at %d\n", i+1, call.name, filepath.Base(call.path), call.size,
				call.offset)
		}
	}
	for i, o := range p.script.ops {
		c.printf("%6d %-10s %s %s\n", i, e.story.answers[i], o.name, e.story.errors[i])
	}
	if e.notes != "" {
		c.printf("the process wrote:\n%s\n", e.notes)
	}
	c.note(p, append(wrong, problems...))
	return c.report()
}

// shown bounds the failures of a script and mode that are printed in full.
const shown = 10

func (c *campaign) note(p *point, problems []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%-14s %-16s", p.script.name, p.mode())
	t := c.totals[key]
	if t == nil {
		t = &total{}
		c.totals[key] = t
		c.order = append(c.order, key)
	}
	t.points++
	if len(problems) == 0 {
		return
	}
	t.failed++
	if t.failed > shown {
		return
	}
	c.printf("FAILED %s: go run ./test/torture %s\n", p.mode(), p)
	for _, problem := range problems[:min(len(problems), shown)] {
		c.printf("    %s\n", problem)
	}
}

func (c *campaign) report() error {
	points, failed := 0, 0
	for _, key := range c.order {
		t := c.totals[key]
		points, failed = points+t.points, failed+t.failed
		c.printf("%s %7d points, %d failed\n", key, t.points, t.failed)
	}
	c.printf("%d points in %v\n", points, time.Since(c.began).Round(time.Second))
	if failed > 0 {
		return fmt.Errorf("%d of %d points failed", failed, points)
	}
	return nil
}

func (c *campaign) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.out, format, args...) // a report that can't be written has no reader
}
