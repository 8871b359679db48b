package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"selvedge/bench/original"
	"selvedge/db"
	"selvedge/runs"
)

const (
	turnBytes = 2048
	agent     = "agent-a"
)

// A stage is an open file with a store of runs, and the original's store beside it.
type stage struct {
	dir   string
	file  *db.DB
	store *runs.Store
	files *original.RunStore
}

func (b *bench) stage(ctx context.Context, name string, level db.Synchronous) (*stage, error) {
	dir, err := b.path(name)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, filepath.Join(dir, "selvedge.db"), db.Options{Synchronous: level})
	if err != nil {
		return nil, err
	}
	return &stage{
		dir: dir, file: d, store: runs.NewStore(d, runs.Options{}),
		files: original.NewRunStore(filepath.Join(dir, "runs")),
	}, nil
}

func (s *stage) close(failed error) error { return errors.Join(failed, s.file.Close()) }

// begin starts a run in both stores.
func (s *stage) begin(ctx context.Context, runID string) error {
	record := started(agent, runID, 0)
	line, err := lines(record)
	if err != nil {
		return err
	}
	if err := s.files.Append(agent, runID, line, original.NoSync); err != nil {
		return err
	}
	return s.store.WriteStarted(ctx, record)
}

// appendDuel measures n appends of one turn each, by one caller, into a run that is new in every round.
func (s *stage) appendDuel(ctx context.Context, b *bench, n int, sync original.Sync) (duel, error) {
	for number := range b.rounds + 1 {
		if err := s.begin(ctx, runName(number)); err != nil {
			return duel{}, err
		}
	}
	big := turn(0, turnBytes)
	return run(b.rounds,
		each(n, func(number, i int) error {
			line, err := lines(at(big, i))
			if err != nil {
				return err
			}
			return s.files.Append(agent, runName(number), line, sync)
		}),
		each(n, func(number, i int) error {
			return s.store.AppendTurns(ctx, agent, runName(number), []runs.Turn{at(big, i)})
		}))
}

func appendOne(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "append", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	d, err := s.appendDuel(ctx, b, b.n(20_000), original.NoSync)
	if err := s.close(err); err != nil {
		return nil, err
	}
	return []result{
		d.atMost("append a 2 KB turn, NORMAL, p50", calls(p50), 1.3),
		d.atMost("append a 2 KB turn, NORMAL, mean with checkpoints", calls(mean), 1.8),
	}, nil
}

func appendDurable(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "durable", db.SyncFull)
	if err != nil {
		return nil, err
	}
	err = s.fillWAL(ctx)
	var d duel
	if err == nil {
		d, err = s.appendDuel(ctx, b, b.n(1000), original.WithSync)
	}
	if err := s.close(err); err != nil {
		return nil, err
	}
	return []result{d.atMost("append a 2 KB turn, FULL, p50, against JSONL with fsync", calls(p50), 0.8)}, nil
}

// fillWAL brings the WAL to its working size, where it stays: appending to a file that grows
// costs a second write, of the disk's own tables.
func (s *stage) fillWAL(ctx context.Context) error {
	if err := s.begin(ctx, "fill"); err != nil {
		return err
	}
	batch := make([]runs.Turn, 500)
	for i := range batch {
		batch[i] = turn(uint64(i), turnBytes)
	}
	for range 40 {
		if err := s.store.AppendTurns(ctx, agent, "fill", batch); err != nil {
			return err
		}
	}
	return nil
}

const callers = 64

// together makes a side of n calls by each of some callers at once.
func together(callers, n int, fn func(round, caller, i int) error) side {
	return func(number int) (round, error) {
		all := make([]samples, callers)
		failed := make([]error, callers)
		var wg sync.WaitGroup
		began := time.Now()
		for c := range callers {
			wg.Go(func() {
				all[c], failed[c] = timed(n, func(i int) error { return fn(number, c, i) })
			})
		}
		wg.Wait()
		r := round{block: time.Since(began)}
		for _, s := range all {
			r.calls = append(r.calls, s...)
		}
		return r, errors.Join(failed...)
	}
}

// appendMany measures group commit against the same store behind a mutex: one connection, a commit
// for each call.
func appendMany(ctx context.Context, b *bench) ([]result, error) {
	var list []result
	for _, level := range []struct {
		name  string
		level db.Synchronous
		n     int
		times float64
	}{{"FULL", db.SyncFull, 60, 6}, {"NORMAL", db.SyncNormal, 400, 1.8}} {
		s, err := b.stage(ctx, "many", level.level)
		if err != nil {
			return nil, err
		}
		d, err := s.manyDuel(ctx, b, b.n(level.n))
		if err := s.close(err); err != nil {
			return nil, err
		}
		row := "append, " + level.name + ", 64 callers"
		list = append(list, d.faster(row+", calls a second", round.perCall, level.times).asRates(d))
		if level.level == db.SyncFull {
			worst := within(row+", p99", median(of(d.ours, calls(p99))), 15*time.Millisecond)
			worst.baseline = show(median(of(d.baseline, calls(p99))))
			list = append(list, worst)
		}
	}
	return list, nil
}

func (s *stage) manyDuel(ctx context.Context, b *bench, n int) (duel, error) {
	if err := s.fillWAL(ctx); err != nil {
		return duel{}, err
	}
	for c := range callers {
		if err := s.begin(ctx, runName("caller", c)); err != nil {
			return duel{}, err
		}
	}
	big := turn(0, turnBytes)
	add := func(_, c, i int) error {
		return s.store.AppendTurns(ctx, agent, runName("caller", c), []runs.Turn{at(big, i)})
	}
	var alone sync.Mutex
	return run(b.rounds,
		together(callers, n, func(number, c, i int) error {
			alone.Lock()
			defer alone.Unlock()
			return add(number, c, i)
		}),
		together(callers, n, add))
}

// atOnce is 100 turns of 200 B in one call.
const (
	atOnce     = 100
	smallBytes = 200
)

// appendBatch measures rows a second against C SQLite, which runs the statements of such a call,
// prepared, in one transaction each, on a file that our migrations made.
func appendBatch(ctx context.Context, b *bench) ([]result, error) {
	if b.csqlite == "" {
		return []result{{row: "100 x 200 B in one call", baseline: "no -csqlite", met: metUnknown}}, nil
	}
	s, err := b.stage(ctx, "batch", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	d, err := s.batchDuel(ctx, b)
	if err := s.close(err); err != nil {
		return nil, err
	}
	r := d.faster("100 x 200 B in one call, rows a second, against C SQLite", round.perCall, 0.3)
	r.baseline = perSecond(median(of(d.baseline, round.perCall)) / atOnce)
	r.ours = perSecond(median(of(d.ours, round.perCall)) / atOnce)
	r.ratio = fmt.Sprintf("%.2fx", 1/d.ratio(round.perCall))
	return []result{r}, nil
}
