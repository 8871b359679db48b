package main

import (
	"context"
	"errors"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

const bulk = "bulk" // the run whose removal frees pages

// givingBack measures how long a busy writer waits while the pages that a removal freed are
// returned to the disk, against the same writer in the same file with nothing to return.
func givingBack(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "space", db.SyncFull)
	if err != nil {
		return nil, err
	}
	d, err := s.spaceDuel(ctx, b.rounds, b.n(5000), b.n(30_000))
	if err := s.close(err); err != nil {
		return nil, err
	}
	return []result{
		d.atMost("append a 2 KB turn, FULL, p99, while freed pages are given back, against without", calls(p99), 2),
		d.reported("the same, p50", calls(p50)),
	}, nil
}

// spaceDuel measures n appends a round, and has as many turns removed before ours.
func (s *stage) spaceDuel(ctx context.Context, rounds, n, freed int) (duel, error) {
	if err := errors.Join(s.fillWAL(ctx), s.addBulk(ctx, freed)); err != nil {
		return duel{}, err
	}
	big := turn(0, turnBytes)
	appends := func(kind string) side {
		return func(number int) (round, error) {
			id := runName(kind, number)
			if err := s.begin(ctx, id); err != nil {
				return round{}, err
			}
			return each(n, func(_, i int) error {
				return s.store.AppendTurns(ctx, agent, id, []runs.Turn{at(big, i)})
			})(number)
		}
	}
	beside := appends("beside")
	return run(rounds, appends("alone"), func(number int) (round, error) {
		err := s.store.Delete(ctx, runs.RunRef{AgentID: agent, RunID: bulk})
		if err == nil {
			err = s.awaitFree(ctx, func(now, most int64) bool { return now < most })
		}
		if err != nil {
			return round{}, err
		}
		r, err := beside(number)
		if err == nil {
			err = s.addBulk(ctx, freed) // into the pages that are left
		}
		if err == nil {
			const few = 1000
			err = s.awaitFree(ctx, func(now, _ int64) bool { return now < few })
		}
		return r, err
	})
}

// awaitFree waits until enough returns true for the present and the highest number of free pages.
func (s *stage) awaitFree(ctx context.Context, enough func(now, most int64) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("freed pages were not given back"))
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for most := int64(0); ; {
		h, err := s.file.Health(ctx)
		if err != nil {
			return err
		}
		most = max(most, h.FreePages)
		if enough(h.FreePages, most) {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// addBulk adds a run that is over, of so many turns.
func (s *stage) addBulk(ctx context.Context, turns int) error {
	if err := s.store.WriteStarted(ctx, started(agent, bulk, 0)); err != nil {
		return err
	}
	batch := make([]runs.Turn, 500)
	for from := 0; from < turns; from += len(batch) {
		for i := range batch {
			batch[i] = turn(uint64(from+i), turnBytes)
		}
		if err := s.store.AppendTurns(ctx, agent, bulk, batch); err != nil {
			return err
		}
	}
	return s.store.WriteEnded(ctx, runs.Ended{AgentID: agent, RunID: bulk})
}
