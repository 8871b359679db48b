package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"selvedge/bench/original"
	"selvedge/db"
	"selvedge/runs"
)

const (
	listed = 10_000 // runs of one agent
	// of 2 KB in each: typical runs have 24 of 1.7 KB, which the scan reads and the list does not
	listTurns = 3
	firstPage = 50
	flatUpTo  = 100_000
	traceLen  = 22
	flatness  = 1.3
	listAgent = "agent-0"
)

// lists measures the list of an agent's runs against the scan of its files.
func lists(ctx context.Context, b *bench) ([]result, error) {
	const n = listed
	of := shape{perAgent: n, turns: listTurns, bytes: turnBytes}
	s, err := b.stage(ctx, "list", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	if err := s.addRuns(ctx, n, of); err != nil {
		return nil, s.close(err)
	}
	for i := range n {
		agentID, records := of.run(i)
		line, err := lines(records...)
		if err == nil {
			err = s.files.Append(agentID, runName(i), line, original.NoSync)
		}
		if err != nil {
			return nil, s.close(err)
		}
	}
	scan := each(1, func(int, int) error {
		list, err := s.files.List(listAgent)
		return expect(len(list), n, err)
	})
	first, err := run(b.rounds, scan, each(200, func(int, int) error { return s.first(ctx) }))
	if err != nil {
		return nil, s.close(err)
	}
	all, err := run(b.rounds, scan, each(5, func(int, int) error {
		list, err := s.store.ListRuns(ctx, listAgent)
		return expect(len(list), n, err)
	}))
	if err := s.close(err); err != nil {
		return nil, err
	}
	flat, err := b.flatList(ctx)
	if err != nil {
		return nil, err
	}
	whole := all.faster(fmt.Sprintf("list all %d runs, against the same scan", n), calls(p50), 0)
	whole.target, whole.met = "", metUnknown
	return []result{
		first.faster(fmt.Sprintf("list the first %d of an agent's %d runs, against a scan by the reader "+
			"made for it", firstPage, n), calls(p50), 1000),
		flat.atMost(fmt.Sprintf("the same, %d runs against %d", b.n(flatUpTo), b.n(flatUpTo/100)), calls(p50),
			flatness),
		whole,
	}, nil
}

func expect(got, want int, err error) error {
	if err == nil && got != want {
		return fmt.Errorf("%d items, want %d", got, want)
	}
	return err
}

// first lists an agent's newest runs.
func (s *stage) first(ctx context.Context) error {
	id := listAgent
	page, err := s.store.Page(ctx, runs.Filter{Agent: &id}, db.At{Limit: firstPage})
	return expect(len(page.Items), firstPage, err)
}

// flatList measures the first page of an agent with few runs against that of one with many.
func (b *bench) flatList(ctx context.Context) (duel, error) {
	var stages [2]*stage
	for i, n := range []int{b.n(flatUpTo / 100), b.n(flatUpTo)} {
		s, err := b.stage(ctx, "flat", db.SyncNormal)
		if err != nil {
			return duel{}, err
		}
		if err := s.addRuns(ctx, n, shape{perAgent: n, turns: 1, bytes: smallBytes}); err != nil {
			return duel{}, s.close(err)
		}
		stages[i] = s
	}
	few, many := stages[0], stages[1]
	d, err := run(b.rounds,
		each(200, func(int, int) error { return few.first(ctx) }),
		each(200, func(int, int) error { return many.first(ctx) }))
	return d, many.close(few.close(err))
}

// traces measures reading a whole trace, decoded.
func traces(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "trace", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	inGo, inRust, err := s.traceDuels(ctx, b)
	if err := s.close(err); err != nil {
		return nil, err
	}
	first, err := b.firstRecord(ctx)
	if err != nil {
		return nil, err
	}
	row := fmt.Sprintf("read a trace of %d turns of 2 KB, decoded", traceLen)
	return []result{
		inGo.atMost(row+", against encoding/json", calls(p50), 0.4),
		inRust.reported(row+", against the reader made for it", calls(p50)),
		first,
	}, nil
}

// firstRecord measures the allocations of beginning a trace of large turns.
func (b *bench) firstRecord(ctx context.Context) (result, error) {
	const size, target = 4 << 20, 16 << 20
	s, err := b.stage(ctx, "large", db.SyncNormal)
	if err != nil {
		return result{}, err
	}
	large := turn(0, size)
	n := b.n(250)
	for i := range n {
		err = errors.Join(err, s.store.AppendTurns(ctx, agent, "large", []runs.Turn{at(large, i)}))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := 0
	for _, failed := range s.store.Trace(ctx, runs.RunRef{AgentID: agent, RunID: "large"}) {
		err = errors.Join(err, failed)
		found++
		break
	}
	runtime.ReadMemStats(&after)
	if err := s.close(expect(found, 1, err)); err != nil {
		return result{}, err
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	return result{
		row:    fmt.Sprintf("first record of a run of %d turns of 4 MB, bytes allocated", n),
		ours:   fmt.Sprintf("%.1f MB", float64(allocated)/1e6),
		target: fmt.Sprintf("<= %.1f MB", float64(target)/1e6), met: verdict(allocated <= target),
	}, nil
}

func (s *stage) traceDuels(ctx context.Context, b *bench) (inGo, inRust duel, err error) {
	const id = "run"
	records := []runs.Record{started(agent, id, 0)}
	for i := range traceLen {
		records = append(records, turn(uint64(i), turnBytes))
	}
	records = append(records, ended(agent, id, 0))
	line, err := lines(records...)
	if err != nil {
		return inGo, inRust, err
	}
	if err := s.files.Append(agent, id, line, original.NoSync); err != nil {
		return inGo, inRust, err
	}
	if err := s.store.AppendRecords(ctx, agent, id, records); err != nil {
		return inGo, inRust, err
	}
	n := b.n(2000)
	theirs := func(read func(agentID, runID string) ([]original.Record, error)) side {
		return each(n, func(int, int) error {
			got, err := read(agent, id)
			return expect(len(got), len(records), err)
		})
	}
	ours := each(n, func(int, int) error {
		got, _, err := s.store.GetRunTraceFor(ctx, agent, id)
		return expect(len(got), len(records), err)
	})
	if inGo, err = run(b.rounds, theirs(s.files.TraceInGo), ours); err != nil {
		return inGo, inRust, err
	}
	inRust, err = run(b.rounds, theirs(s.files.Trace), ours)
	return inGo, inRust, err
}
