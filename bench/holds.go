package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
)

// writerHeld is the longest that a call may keep the writer from others.
const writerHeld = 50 * time.Millisecond

// A hold is a call after which there is less, or other, in a file of many things; fill puts n of them there.
type hold struct {
	row  string
	fill func(ctx context.Context, d *db.DB, n int) error
	call func(ctx context.Context, d *db.DB, n int) error
}

var holdsOfMany = []hold{
	{"reap %d dead agents", fillAgents, func(ctx context.Context, d *db.DB, n int) error {
		reaped, err := agents.NewRegistry(d, agents.Options{}).ReapDead(ctx)
		return expect(reaped, n, err)
	}},
	{"recover %d orphaned claims", fillClaims, func(ctx context.Context, d *db.DB, n int) error {
		recovered, err := checkpoints.NewStore(d, checkpoints.Options{}).RecoverOrphaned(ctx)
		return expect(recovered, n, err)
	}},
	{"bring a live run of %d events under a cap", fillEvents, capEvents},
	{"remove a run with %d append keys", fillKeys, func(ctx context.Context, d *db.DB, _ int) error {
		return runs.NewStore(d, runs.Options{}).Delete(ctx, runs.RunRef{AgentID: agent, RunID: "keyed"})
	}},
	{"replace %d live events by as many", fillEvents, func(ctx context.Context, d *db.DB, _ int) error {
		s := live.NewStore(d, live.Options{})
		records, err := s.Records(ctx)
		if err != nil {
			return err
		}
		records[0].Snapshot.ID += "-new"
		return s.ReplaceRecords(ctx, records)
	}},
}

// holds looks at the longest transaction of each.
func holds(ctx context.Context, b *bench) ([]result, error) {
	var list []result
	for _, h := range holdsOfMany {
		n := b.n(100_000)
		longest, err := b.longestHold(ctx,
			func(d *db.DB) error { return h.fill(ctx, d, n) },
			func(d *db.DB) error { return h.call(ctx, d, n) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fmt.Sprintf(h.row, n), err)
		}
		list = append(list, within(fmt.Sprintf(h.row, n)+", longest hold of the writer", float64(longest),
			writerHeld))
	}
	return list, nil
}

// longestHold is the time of the longest transaction that a call makes.
func (b *bench) longestHold(ctx context.Context, fill, call func(*db.DB) error) (longest time.Duration,
	err error,
) {
	dir, err := b.path("holds")
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
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
		return 0, err
	}
	err = fill(d)
	mu.Lock()
	longest = 0
	mu.Unlock()
	if err == nil {
		err = call(d)
	}
	return longest, errors.Join(err, d.Close())
}

// inParts runs fn for each of n things, some in a transaction.
func inParts(ctx context.Context, d *db.DB, n int, fn func(tx *db.Tx, i int) error) error {
	const part = 1000
	for from := 0; from < n; from += part {
		err := d.Write(ctx, "fill", func(tx *db.Tx) error {
			for i := from; i < min(from+part, n); i++ {
				if err := fn(tx, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func fillAgents(ctx context.Context, d *db.DB, n int) error {
	r := agents.NewRegistry(d, agents.Options{})
	const nobody = 1 << 31 // no system counts its processes so far
	return inParts(ctx, d, n, func(tx *db.Tx, i int) error {
		e := entry(fmt.Sprint("agent-", i), fmt.Sprint("thread-", i))
		pid := uint32(nobody)
		e.PID, e.HeartbeatAt = &pid, nil
		return r.SaveTx(tx, e)
	})
}

func fillClaims(ctx context.Context, d *db.DB, n int) error {
	s := checkpoints.NewStore(d, checkpoints.Options{})
	return inParts(ctx, d, n, func(tx *db.Tx, i int) error {
		id := fmt.Sprint("run-", i)
		if err := s.SaveTx(tx, &checkpoints.PausedWorkflow{RunID: id, CreatedAt: epoch}); err != nil {
			return err
		}
		_, _, err := s.ClaimTx(tx, id)
		return err
	})
}

func fillEvents(ctx context.Context, d *db.DB, n int) error {
	_, err := (&stage{file: d}).session(ctx, "", 1, n)
	return err
}

// capEvents adds events to the run until its cap holds.
func capEvents(ctx context.Context, d *db.DB, n int) error {
	const kept = 100
	s := live.NewStore(d, live.Options{MaxEventsPerRun: new(uint64(kept))})
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	for range n/1000 + 1 {
		if _, _, err := s.RecordEvent(ctx, list[0].ID, live.TextDelta(answer)); err != nil {
			return err
		}
	}
	return nil
}

func fillKeys(ctx context.Context, d *db.DB, n int) error {
	s := runs.NewStore(d, runs.Options{})
	ref := runs.RunRef{AgentID: agent, RunID: "keyed"}
	if err := s.WriteStarted(ctx, started(agent, ref.RunID, 0)); err != nil {
		return err
	}
	err := inParts(ctx, d, n, func(tx *db.Tx, i int) error {
		_, err := s.AppendTx(tx, runs.Batch{
			AgentID: ref.AgentID, RunID: ref.RunID, Key: fmt.Sprint("key-", i),
			Records: []runs.Record{turn(uint64(i), smallBytes)},
		})
		return err
	})
	if err != nil {
		return err
	}
	return s.WriteEnded(ctx, runs.Ended{AgentID: ref.AgentID, RunID: ref.RunID})
}
