package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"selvedge"
	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/plot"
	"selvedge/workers"
)

// plotted is where sizes draws its figures, from the root of the project.
const plotted = "docs/growth.svg"

// A curve is the time of a call, p50, in files of each size.
type curve struct {
	name  string
	times []float64 // nanoseconds
}

func (c curve) words() string {
	words := make([]string, len(c.times))
	for i, t := range c.times {
		words[i] = show(t)
	}
	return strings.Join(words, ", ")
}

// A sized is a file that grows: it has as many ended runs, each with a record of usage, as active agents,
// paused runs and inputs of workers.
type sized struct {
	*stage
	held    int
	agents  *agents.Registry
	paused  *checkpoints.Store
	front   *selvedge.Store
	workers *roster
}

// sizes measures calls in a file of 1,000 to 100,000 of everything, or to 1,000,000. In full it draws them.
func sizes(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "sizes", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	list, err := (&sized{
		stage: s, agents: agents.NewRegistry(s.file, agents.Options{}),
		paused: checkpoints.NewStore(s.file, checkpoints.Options{}),
		front:  selvedge.On(s.file, selvedge.Options{Agent: agent}),
	}).grow(ctx, b)
	return list, s.close(err)
}

func (s *sized) grow(ctx context.Context, b *bench) (list []result, err error) {
	if s.workers, err = s.roster(ctx, "runtime-1", crowd{workers: 100}); err != nil {
		return nil, err
	}
	var curves []curve
	var counts []string
	most := 100_000
	if b.huge {
		most *= 10
	}
	for n := b.n(1_000); n <= b.n(most); n *= 10 {
		counts = append(counts, count(n))
		fmt.Fprintf(os.Stderr, "  %s of everything\n", count(n))
		if err := s.fillTo(ctx, n); err != nil {
			return nil, err
		}
		times, err := s.measure(ctx, b, n)
		if err != nil {
			return nil, err
		}
		for i, c := range times {
			if i == len(curves) {
				curves = append(curves, curve{name: c.name})
			}
			curves[i].times = append(curves[i].times, c.times...)
		}
	}
	var drawn []plot.Curve
	for _, c := range curves {
		drawn = append(drawn, plot.Curve{Words: c.name + ": " + c.words(), Points: c.times})
		list = append(list, result{
			row: c.name + ", among " + strings.Join(counts, ", "), ours: c.words(),
			ratio: fmt.Sprintf("%.2fx", c.times[len(c.times)-1]/c.times[0]), met: metUnknown,
		})
	}
	if b.quick {
		return list, nil
	}
	svg, err := plot.Draw("The time of a call, p50, NORMAL, in a file of "+strings.Join(counts, ", ")+
		" runs, agents, pauses and inputs; "+time.Now().UTC().Format("2 January 2006"), len(counts)-1, drawn)
	return list, errors.Join(err, os.WriteFile(plotted, svg, 0o600))
}

// fillTo adds things until there are n of each kind.
func (s *sized) fillTo(ctx context.Context, n int) error {
	from := s.held
	s.held = n
	if err := s.addBills(ctx, from, n); err != nil {
		return err
	}
	return inParts(ctx, s.file, n-from, func(tx *db.Tx, i int) error {
		i += from
		name := fmt.Sprint("size-", i)
		_, err := s.workers.runtime.SendInputTx(tx, s.workers.refs[i%len(s.workers.refs)],
			workers.UserInput("go on"))
		return errors.Join(err, s.agents.SaveTx(tx, entry(name, "thread-"+name)),
			s.paused.SaveTx(tx, &checkpoints.PausedWorkflow{RunID: name, CreatedAt: epoch}))
	})
}

// perSize is how many calls a round has.
const perSize = 100

// measure returns what each call takes in a file of n of everything.
func (s *sized) measure(ctx context.Context, b *bench, n int) (list []curve, err error) {
	r, err := s.front.Take(ctx, runName("front", n), selvedge.Start{Intent: "deploy"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Leave()) }()
	ctx, stop := context.WithCancel(ctx) // ends the follower
	defer stop()
	for _, c := range s.calls(ctx, n, r) {
		if err := c.prepare(b.rounds); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		rounds, err := solo(b.rounds, each(perSize, c.call))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		list = append(list, curve{name: c.name, times: []float64{median(of(rounds, calls(p50)))}})
	}
	return list, nil
}

// A sizedCall is measured in files of each size.
type sizedCall struct {
	name    string
	prepare func(rounds int) error
	call    func(number, i int) error
}

// calls are all of them, that of a follower last: it follows until ctx ends.
func (s *sized) calls(ctx context.Context, n int, r *selvedge.Run) []sizedCall {
	name := func(number, i int) string { return fmt.Sprintf("new-%d-%d-%d", n, number, i) }
	appended, bill := runName("appended", n), runName("billed", n)
	nothing := func(int) error { return nil }
	add := func(number, i int) error {
		turn := turn(uint64(number*perSize+i), turnBytes)
		return s.store.AppendTurns(ctx, agent, appended, []runs.Turn{turn})
	}
	var heard <-chan error
	return []sizedCall{
		{"append a 2 KB turn", func(int) error { return s.begin(ctx, appended) }, add},
		{"reserve a thread", nothing, func(number, i int) error {
			id := name(number, i)
			out, err := s.agents.TryReserveThread(ctx, id,
				func(string) (agents.Entry, error) { return entry(id, id), nil })
			if err == nil && out.Reserved == nil {
				err = fmt.Errorf("thread %s is held", id)
			}
			return err
		}},
		{"claim a pause", func(rounds int) error {
			for i := range (rounds + 1) * perSize {
				paused := &checkpoints.PausedWorkflow{RunID: name(i/perSize, i%perSize), CreatedAt: epoch}
				if err := s.paused.Save(ctx, paused); err != nil {
					return err
				}
			}
			return nil
		}, func(number, i int) error {
			_, ok, err := s.paused.Claim(ctx, name(number, i))
			if err == nil && !ok {
				err = fmt.Errorf("run %s is not paused", name(number, i))
			}
			return err
		}},
		{"send an input", nothing, func(_, i int) error {
			_, err := s.workers.send(ctx, i)
			return err
		}},
		{"list the first 50 runs", nothing, func(int, int) error {
			page, err := s.store.Page(ctx, runs.Filter{}, db.At{Limit: firstPage})
			return expect(len(page.Items), firstPage, err)
		}},
		{"a turn of package selvedge with its effect", nothing, func(number, i int) error {
			return effectTurn(r, name(number, i), turn(0, turnBytes).Output)
		}},
		{
			"what one run cost", func(int) error { return s.addBill(ctx, bill) },
			func(int, int) error { return costOf(ctx, s.front, bill) },
		},
		{"append until a follower of all runs has it", func(int) (err error) {
			heard, _, err = s.followAll(ctx)
			return err
		}, func(number, i int) error {
			if err := add(number, i); err != nil {
				return err
			}
			return <-heard
		}},
	}
}
