package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// opening measures opening a file that is up to date, and one that is not there yet.
func opening(ctx context.Context, b *bench) ([]result, error) {
	dir, err := b.path("open")
	if err != nil {
		return nil, err
	}
	n := b.n(20)
	visits := func(path func(number, i int) string) side {
		return func(number int) (round, error) {
			var r round
			for i := range n {
				began := time.Now()
				d, err := db.Open(ctx, path(number, i), db.Options{})
				if err != nil {
					return r, err
				}
				r.calls = append(r.calls, time.Since(began))
				if err := d.Close(); err != nil {
					return r, err
				}
			}
			return r, nil
		}
	}
	there := filepath.Join(dir, "there.db") // made in the round that does not count
	known, err := solo(b.rounds, visits(func(int, int) string { return there }))
	if err != nil {
		return nil, err
	}
	fresh, err := solo(b.rounds, visits(func(number, i int) string {
		return filepath.Join(dir, fmt.Sprintf("new-%d-%d.db", number, i))
	}))
	if err != nil {
		return nil, err
	}
	read, err := solo(b.rounds, firstReads(ctx, there, n))
	if err != nil {
		return nil, err
	}
	return []result{
		within("open a file and read from it, processor time", median(of(read, round.perCall)), 4*time.Millisecond),
		within("open a file that is up to date", median(of(known, calls(p50))), 3*time.Millisecond),
		within("open a new file", median(of(fresh, calls(p50))), 40*time.Millisecond),
	}, nil
}

// firstReads opens a file and reads from it, n times. Its block is the processor time.
func firstReads(ctx context.Context, path string, n int) side {
	return func(int) (round, error) {
		before, err := now()
		if err != nil {
			return round{}, err
		}
		for range n {
			d, err := db.Open(ctx, path, db.Options{})
			if err != nil {
				return round{}, err
			}
			_, err = runs.NewStore(d, runs.Options{}).Page(ctx, runs.Filter{}, db.At{})
			if err := errors.Join(err, d.Close()); err != nil {
				return round{}, err
			}
		}
		after, err := now()
		return round{calls: make(samples, n), block: after.CPU - before.CPU}, err
	}
}
