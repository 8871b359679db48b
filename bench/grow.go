package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// growth measures whether an append costs the same in a file that holds much.
func growth(ctx context.Context, b *bench) ([]result, error) {
	empty, err := b.stage(ctx, "empty", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	full, err := b.stage(ctx, "full", db.SyncNormal)
	if err != nil {
		return nil, empty.close(err)
	}
	list, err := flatAppends(ctx, b, empty, full)
	return list, full.close(empty.close(err))
}

func flatAppends(ctx context.Context, b *bench, empty, full *stage) ([]result, error) {
	var list []result
	big := turn(0, turnBytes)
	held := 0
	for _, millions := range b.millions() {
		turns := b.n(millions * 1_000_000)
		if err := full.addTurns(ctx, turns-held); err != nil {
			return nil, err
		}
		held = turns
		add := func(s *stage) side {
			n := b.n(5000)
			return each(n, func(number, i int) error {
				id := runName("grow", millions, number)
				if i == 0 {
					if err := s.begin(ctx, id); err != nil {
						return err
					}
				}
				return s.store.AppendTurns(ctx, agent, id, []runs.Turn{at(big, i)})
			})
		}
		d, err := run(b.rounds, add(empty), add(full))
		if err != nil {
			return nil, err
		}
		list = append(list, d.atMost(fmt.Sprintf("append into a file of %s turns, against an empty one",
			count(turns)), calls(p50), flatness))
	}
	return list, nil
}

func count(n int) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%gM", float64(n)/1e6)
	}
	return fmt.Sprintf("%gk", float64(n)/1e3)
}

// retention measures GC that finds nothing, and how long GC that finds much holds the writer.
func retention(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "retention", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	const perAgent = 50 // as many as the default keeps
	n := b.n(100_000)
	if err := s.addRuns(ctx, n, shape{perAgent: perAgent, turns: 1, bytes: smallBytes}); err != nil {
		return nil, s.close(err)
	}
	rounds, err := solo(b.rounds, each(3, func(int, int) error {
		removed, err := s.store.GC(ctx)
		return expect(removed, 0, err)
	}))
	if err := s.close(err); err != nil {
		return nil, err
	}
	held, err := b.retentionHolds(ctx)
	if err != nil {
		return nil, err
	}
	flat, err := b.retentionOfMany(ctx)
	if err != nil {
		return nil, err
	}
	return []result{
		within(fmt.Sprintf("retention with nothing to do, %d runs", n), median(of(rounds, calls(p50))),
			20*time.Millisecond),
		held,
		flat,
	}, nil
}

// retentionOfMany removes one run of each of many agents: what that costs a run must not depend on
// how many there are.
func (b *bench) retentionOfMany(ctx context.Context) (result, error) {
	const few, many = 2000, 20_000
	collect := func(agents int) side {
		return func(number int) (round, error) {
			s, err := b.stage(ctx, "agents", db.SyncNormal)
			if err != nil {
				return round{}, err
			}
			s.store = runs.NewStore(s.file, runs.Options{Retention: &runs.RetentionConfig{
				MaxPerAgent: 1,
				MaxAgeDays:  30,
			}})
			if err := s.addRuns(ctx, 2*agents, shape{perAgent: 2, turns: 1, bytes: smallBytes}); err != nil {
				return round{}, s.close(err)
			}
			began := time.Now()
			removed, err := s.store.GC(ctx)
			took := time.Since(began)
			if err := s.close(expect(removed, agents, err)); err != nil {
				return round{}, err
			}
			return round{calls: make(samples, agents), block: took}, os.RemoveAll(s.dir)
		}
	}
	d, err := run(b.rounds, collect(b.n(few)), collect(b.n(many)))
	if err != nil {
		return result{}, err
	}
	row := fmt.Sprintf("retention of one run over in each of %d agents, a run, against %d", b.n(many), b.n(few))
	return d.atMost(row, round.perCall, 1.5), nil
}

// retentionHolds removes 52,000 runs with a million turns, and looks at the longest of its transactions.
func (b *bench) retentionHolds(ctx context.Context) (result, error) {
	const turnsEach = 20
	n := b.n(52_000)
	dir, err := b.path("holds")
	if err != nil {
		return result{}, err
	}
	var mu sync.Mutex
	var longest time.Duration
	d, err := db.Open(ctx, filepath.Join(dir, "selvedge.db"), db.Options{
		Synchronous: db.SyncNormal,
		Observe: func(o db.Observation) {
			mu.Lock()
			defer mu.Unlock()
			if o.Write {
				longest = max(longest, o.Run)
			}
		},
	})
	if err != nil {
		return result{}, err
	}
	store := runs.NewStore(d, runs.Options{Retention: &runs.RetentionConfig{MaxPerAgent: 0, MaxAgeDays: 30}})
	s := &stage{dir: dir, file: d, store: store}
	err = s.addRuns(ctx, n, shape{perAgent: 100, turns: turnsEach, bytes: smallBytes})
	if err != nil {
		return result{}, errors.Join(err, d.Close())
	}
	mu.Lock()
	longest = 0
	mu.Unlock()
	removed, err := store.GC(ctx)
	if err := errors.Join(expect(removed, n, err), d.Close()); err != nil {
		return result{}, err
	}
	row := fmt.Sprintf("retention of %d runs with %s turns, longest hold of the writer", n, count(n*turnsEach))
	return within(row, float64(longest), 50*time.Millisecond), nil
}
