package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/db"
	"selvedge/runs"
)

// pollEvery is how often a program looks that is not told.
const pollEvery = 50 * time.Millisecond

// followed is what a process says of each record that it has: when, in nanoseconds of the clock that all processes share,
// and the time on a processor that the process has used until then.
type followed struct {
	At  int64         `json:"at"`
	CPU time.Duration `json:"cpu"`
}

func now() (followed, error) {
	var clock unix.Timespec
	var used unix.Rusage
	err := errors.Join(unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock), unix.Getrusage(unix.RUSAGE_SELF, &used))
	return followed{At: clock.Nano(), CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano())}, err
}

// childFollow tells of each record of the run "run", from Follow or by looking every 50 ms.
func childFollow(ctx context.Context, path string, poll bool) error {
	d, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		return err
	}
	store := runs.NewStore(d, runs.Options{})
	ref := runs.RunRef{AgentID: agent, RunID: "run"}
	tell := func() error {
		at, err := now()
		if err == nil {
			err = reply(at)
		}
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	if !poll {
		for item, err := range store.Follow(ctx, ref, "") {
			if err == nil && item.What == db.Written {
				err = tell()
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	seen := 0
	for tick := time.NewTicker(pollEvery); ; <-tick.C {
		run, err := store.Get(ctx, ref)
		if err != nil {
			return err
		}
		for ; seen < run.TurnCount+1; seen++ { // its start is a record too
			if err := tell(); err != nil {
				return err
			}
		}
	}
}

// follows measures how late another process has what was written, and what it costs it to wait.
func follows(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "follow", db.SyncFull)
	if err != nil {
		return nil, err
	}
	late, idle, err := s.followDuel(ctx, b)
	if err := s.close(err); err != nil {
		return nil, err
	}
	waiting := result{
		row: "a process that follows and is told nothing, processor time in 10 s", ours: show(float64(idle)), target: "<= 10ms",
		met: verdict(idle <= 10*time.Millisecond),
	}
	return []result{late.atMost("an event to a follower in another process, p50, against polling every 50 ms", calls(p50), 0.1), waiting}, nil
}

func (s *stage) followDuel(ctx context.Context, b *bench) (d duel, idle time.Duration, err error) {
	if err := s.begin(ctx, "run"); err != nil {
		return d, 0, err
	}
	var listeners [2]*helper
	for i, part := range []string{"poll", "follow"} {
		if listeners[i], err = startChild(ctx, part, filepath.Join(s.dir, "selvedge.db")); err != nil {
			return d, 0, err
		}
		if err := listeners[i].tell("go"); err != nil {
			return d, 0, err
		}
		if _, err := listeners[i].next(); err != nil { // the start of the run
			return d, 0, err
		}
	}
	defer func() {
		for _, l := range listeners { // they end with their process
			_ = l.command.Process.Kill()
			_ = l.command.Wait()
		}
	}()
	n := b.n(40)
	sent := 0
	one := func() (waited [2]time.Duration, last followed, err error) {
		select { // at any moment between two looks
		case <-time.After(pollEvery + time.Duration(sent*7%50)*time.Millisecond):
		case <-ctx.Done():
			return waited, last, context.Cause(ctx)
		}
		if err := s.store.AppendTurns(ctx, agent, "run", []runs.Turn{turn(uint64(sent), turnBytes)}); err != nil {
			return waited, last, err
		}
		sent++
		committed, err := now()
		if err != nil {
			return waited, last, err
		}
		for i, l := range listeners {
			if last, err = l.next(); err != nil {
				return waited, last, err
			}
			waited[i] = max(time.Duration(last.At-committed.At), 0)
		}
		return waited, last, nil
	}
	for range b.rounds {
		var baseline, ours round
		for range n {
			waited, _, err := one()
			if err != nil {
				return d, 0, err
			}
			baseline.calls, ours.calls = append(baseline.calls, waited[0]), append(ours.calls, waited[1])
		}
		d.baseline, d.ours = append(d.baseline, baseline), append(d.ours, ours)
	}
	_, before, err := one()
	if err != nil {
		return d, 0, err
	}
	select {
	case <-ctx.Done():
		return d, 0, ctx.Err()
	case <-time.After(10 * time.Second):
	}
	_, after, err := one()
	return d, after.CPU - before.CPU, err
}

// next is what a listener says of the next record.
func (h *helper) next() (f followed, err error) {
	line, err := h.answer()
	if err == nil {
		err = json.Unmarshal([]byte(line), &f)
	}
	if err != nil {
		return f, fmt.Errorf("a listener: %w", err)
	}
	return f, nil
}
