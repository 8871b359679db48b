package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"selvedge/bench/original"
	"selvedge/db"
	"selvedge/runs"
)

// followsAll measures what an append costs beside a follower of all runs, and how late that has it.
func followsAll(ctx context.Context, b *bench) ([]result, error) {
	return b.followAllAt(ctx, "", func() (*stage, error) { return b.stage(ctx, "followall", db.SyncNormal) })
}

// followAllAt measures in databases of 1,000 to 100,000 runs. The processor time of an append is that of
// this process. Only a file is followed in another process too.
func (b *bench) followAllAt(ctx context.Context, where string, open func() (*stage, error)) (list []result,
	err error,
) {
	const few, most = 1_000, 100_000
	var first, firstOther time.Duration
	for n := few; n <= most; n *= 10 {
		s, err := open()
		if err != nil {
			return nil, err
		}
		err = s.addRuns(ctx, b.n(n), shape{perAgent: 100, turns: 1, bytes: smallBytes})
		var used, late, usedOther, lateOther time.Duration
		if err == nil {
			used, late, err = s.besideFollowAll(ctx, b.n(2000))
		}
		if err == nil && where == "" {
			usedOther, lateOther, err = s.besideProcess(ctx, b.n(2000))
		}
		var crowd duel
		if err == nil && n == most {
			crowd, err = b.crowdBesideFollowAll(ctx, s)
		}
		if err := s.close(err); err != nil {
			return nil, err
		}
		if first == 0 {
			first, firstOther = used, usedOther
		}
		row := fmt.Sprintf("%san append beside a follower of all of %s runs", where, count(b.n(n)))
		list = append(list, grown(row+", processor time", first, used),
			within(row+", until that has it, p50", float64(late), 2*time.Millisecond))
		if where == "" {
			row = fmt.Sprintf("a follower of all of %s runs in another process", count(b.n(n)))
			list = append(list, grown(row+", its processor time for a record", firstOther, usedOther),
				within(row+", until it has a record, p50", float64(lateOther), 2*time.Millisecond))
		}
		if n == most {
			list = append(list, crowd.atMost(where+"8 callers beside it, processor time of an append, against none",
				round.perCall, 1.1))
		}
	}
	return list, nil
}

// grown compares a time with that of few runs.
func grown(row string, few, many time.Duration) result {
	ratio := float64(many) / float64(few)
	return result{
		row: row, baseline: show(float64(few)), ours: show(float64(many)), ratio: fmt.Sprintf("%.2fx", ratio),
		target: "<= 1.50x", met: verdict(ratio <= 1.5),
	}
}

// followAllOnServer is followsAll on a server, each time in a scope of its own.
func (b *bench) followAllOnServer(ctx context.Context, at place) ([]result, error) {
	scope := 0
	return b.followAllAt(ctx, at.name+": ", func() (*stage, error) {
		d, err := db.Open(ctx, at.address, db.Options{Synchronous: db.SyncNormal})
		if err != nil {
			return nil, err
		}
		dir, err := b.path("followall")
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		scope++
		return &stage{
			dir: dir, file: d, store: runs.NewStore(d, runs.Options{Scope: fmt.Sprint("followall ", scope)}),
			files: original.NewRunStore(filepath.Join(dir, "runs")),
		}, nil
	})
}

// besideFollowAll appends turns to a run, each once the follower has the one before, and returns the
// processor time of an append and the median of the delays.
func (s *stage) besideFollowAll(ctx context.Context, n int) (used, late time.Duration, err error) {
	const id = "beside"
	if err := s.begin(ctx, id); err != nil {
		return 0, 0, err
	}
	heard, stop, err := s.followAll(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	var before followed
	delays, err := timed(n, func(i int) error {
		if i == n/10 {
			if before, err = now(); err != nil {
				return err
			}
		}
		if err := s.store.AppendTurns(ctx, agent, id, []runs.Turn{turn(uint64(i), smallBytes)}); err != nil {
			return err
		}
		return <-heard
	})
	if err != nil {
		return 0, 0, err
	}
	after, err := now()
	return (after.CPU - before.CPU) / time.Duration(n-n/10), time.Duration(p50(delays[n/10:])), err
}

// besideProcess is besideFollowAll for a follower in another process, and returns that one's processor
// time for a record.
func (s *stage) besideProcess(ctx context.Context, n int) (used, late time.Duration, err error) {
	const id = "beside a process"
	if err := s.begin(ctx, id); err != nil {
		return 0, 0, err
	}
	l, err := listen(ctx, listening{Address: s.file.Path(), All: true})
	if err != nil {
		return 0, 0, err
	}
	defer l.leave()
	var delays samples
	var first, last followed
	for i := range n {
		if err := s.store.AppendTurns(ctx, agent, id, []runs.Turn{turn(uint64(i), smallBytes)}); err != nil {
			return 0, 0, err
		}
		committed, err := now()
		if err == nil {
			last, err = l.next()
		}
		if err != nil {
			return 0, 0, err
		}
		if i == n/10 {
			first = last
		}
		delays = append(delays, max(time.Duration(last.At-committed.At), 0))
	}
	return (last.CPU - first.CPU) / time.Duration(n-1-n/10), time.Duration(p50(delays[n/10:])), nil
}

// followAll follows all runs, and returns a channel that gets a value for each record.
func (s *stage) followAll(ctx context.Context) (heard <-chan error, stop func(), err error) {
	within, cancel := context.WithCancel(ctx)
	records, ended := make(chan error, 1<<16), make(chan struct{})
	items := s.store.FollowAll(within, runs.Filter{})
	go func() {
		defer close(ended)
		for item, err := range items {
			if within.Err() != nil {
				return
			}
			if err != nil || item.What == db.Written {
				records <- err
			}
		}
	}()
	return records, func() { cancel(); <-ended }, nil
}

// crowdBesideFollowAll has 8 callers append to a run each, with a follower and without.
func (b *bench) crowdBesideFollowAll(ctx context.Context, s *stage) (duel, error) {
	const callers = 8
	crowd := func(follows bool) side {
		return func(number int) (round, error) {
			n := b.n(40_000) / callers
			for c := range callers {
				if err := s.begin(ctx, runName("crowd", fmt.Sprint(follows), number, c)); err != nil {
					return round{}, err
				}
			}
			if follows {
				heard, stop, err := s.followAll(ctx)
				if err != nil {
					return round{}, err
				}
				defer stop()
				go func() {
					for range heard { // until the program ends
					}
				}()
			}
			before, err := now()
			if err != nil {
				return round{}, err
			}
			failed := make(chan error, callers)
			for c := range callers {
				go func() {
					for i := range n {
						turns := []runs.Turn{turn(uint64(i), smallBytes)}
						id := runName("crowd", fmt.Sprint(follows), number, c)
						if err := s.store.AppendTurns(ctx, agent, id, turns); err != nil {
							failed <- err
							return
						}
					}
					failed <- nil
				}()
			}
			for range callers {
				if err := <-failed; err != nil {
					return round{}, err
				}
			}
			after, err := now()
			return round{calls: make(samples, n*callers), block: after.CPU - before.CPU}, err
		}
	}
	return run(b.rounds, crowd(false), crowd(true))
}
