package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/db"
	"selvedge/runs"
)

// pollEvery is how often a program looks that is not told.
const pollEvery = 50 * time.Millisecond

// followed is what a process reports for each record that it received: when, in nanoseconds of
// the clock that all processes share, and the process's CPU time until then.
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

// A listening is what a process follows.
type listening struct {
	Address string `json:"address"`
	Run     string `json:"run"`
	All     bool   `json:"all"`   // every run, from the beginning of the listening
	Poll    bool   `json:"poll"`  // by looking every 50 ms, and not by Follow
	Every   int    `json:"every"` // how many records it tells of at once; 0 is each
}

// childFollow tells of the records of a run.
func childFollow(ctx context.Context, text string) error {
	var l listening
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	d, err := db.Open(ctx, l.Address, db.Options{})
	if err != nil {
		return err
	}
	store := runs.NewStore(d, runs.Options{})
	ref := runs.RunRef{AgentID: agent, RunID: l.Run}
	heard := 0
	tell := func() error {
		if heard++; heard%max(l.Every, 1) > 0 {
			return nil
		}
		at, err := now()
		if err == nil {
			err = reply(at)
		}
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	if !l.Poll {
		items := store.Follow(ctx, ref, "")
		if l.All {
			items = store.FollowAll(ctx, runs.Filter{})
			if err := tell(); err != nil { // it listens
				return err
			}
		}
		for item, err := range items {
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

// follows measures how late another process receives what was written, and what waiting costs it.
func follows(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "follow", db.SyncFull)
	if err != nil {
		return nil, err
	}
	late, idle, err := b.followDuel(ctx, s.store, filepath.Join(s.dir, "selvedge.db"), "run")
	if err := s.close(err); err != nil {
		return nil, err
	}
	return []result{late.atMost("an event to a follower in another process, p50, against polling every 50 ms",
		calls(p50), 0.1), waiting("", idle)}, nil
}

func waiting(where string, idle time.Duration) result {
	return result{
		row:  where + "a process that follows and is told nothing, processor time in 10 s",
		ours: show(float64(idle)), target: "<= 10ms",
		met: verdict(idle <= 10*time.Millisecond),
	}
}

// listen starts a process that follows, and waits until it has heard of the run, or listens to all.
func listen(ctx context.Context, l listening) (*helper, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	h, err := startChild(ctx, "follow", string(text))
	if err != nil {
		return nil, err
	}
	if err := h.send("go"); err != nil {
		return nil, err
	}
	if l.Every == 0 { // the start of the run, or of the listening
		_, err = h.next()
	}
	return h, err
}

// leave ends a process that goes on for ever.
func (h *helper) leave() {
	_ = h.command.Process.Kill()
	_ = h.command.Wait()
}

// followDuel measures how long after a commit two processes receive it: one polls every 50 ms and
// the other follows.
func (b *bench) followDuel(ctx context.Context, store *runs.Store, address, runID string) (d duel,
	idle time.Duration, err error,
) {
	if err := store.WriteStarted(ctx, started(agent, runID, 0)); err != nil {
		return d, 0, err
	}
	var listeners [2]*helper
	for i, poll := range []bool{true, false} {
		if listeners[i], err = listen(ctx, listening{Address: address, Run: runID, Poll: poll}); err != nil {
			return d, 0, err
		}
		defer listeners[i].leave()
	}
	n := b.n(40)
	sent := 0
	one := func() (waited [2]time.Duration, last followed, err error) {
		select { // at any moment between two looks
		case <-time.After(pollEvery + time.Duration(sent*7%50)*time.Millisecond):
		case <-ctx.Done():
			return waited, last, context.Cause(ctx)
		}
		if err := store.AppendTurns(ctx, agent, runID, []runs.Turn{turn(uint64(sent), turnBytes)}); err != nil {
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

// followAt measures followers at a place, and how many events a second reach one there and at another.
func (b *bench) followAt(ctx context.Context, at, other place) (list []result, err error) {
	fmt.Fprintf(os.Stderr, "  %s: follow\n", at.name)
	d, err := db.Open(ctx, at.address, db.Options{})
	if err != nil {
		return nil, err
	}
	late, idle, err := b.followDuel(ctx, runs.NewStore(d, runs.Options{}), at.address,
		runName(time.Now().UnixNano()))
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	stream, err := run(b.rounds, b.stream(ctx, other.address), b.stream(ctx, at.address))
	if err != nil {
		return nil, err
	}
	row := fmt.Sprintf("%s: %d turns in calls of %d, until a follower in another process has them, turns a "+
		"second, against %s", at.name, b.n(streamed), streamedAtOnce, other.name)
	many := stream.reported(row, round.perCall).asRates(stream)
	many.ratio = fmt.Sprintf("%.2fx", 1/stream.ratio(round.perCall))
	return []result{
		late.atMost(at.name+": an event to a follower in another process, p50, against polling every 50 ms",
			calls(p50), 0.5),
		waiting(at.name+": ", idle), many,
	}, nil
}

const (
	streamed       = 20_000 // turns that a follower is to have
	streamedAtOnce = 100
)

// stream makes a side that appends turns to a run while another process follows it.
func (b *bench) stream(ctx context.Context, address string) side {
	return func(int) (r round, err error) {
		n, runID := b.n(streamed), runName("stream", time.Now().UnixNano())
		d, err := db.Open(ctx, address, db.Options{})
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		store := runs.NewStore(d, runs.Options{})
		if err := store.WriteStarted(ctx, started(agent, runID, 0)); err != nil {
			return r, err
		}
		l, err := listen(ctx, listening{Address: address, Run: runID, Every: n + 1}) // with the start of the run
		if err != nil {
			return r, err
		}
		defer l.leave()
		began, err := now()
		for i := 0; err == nil && i < n; i += streamedAtOnce {
			turns := make([]runs.Turn, streamedAtOnce)
			for k := range turns {
				turns[k] = turn(uint64(i+k), 200)
			}
			err = store.AppendTurns(ctx, agent, runID, turns)
		}
		if err != nil {
			return r, err
		}
		heard, err := l.next()
		r.block = time.Duration(heard.At - began.At)
		r.calls = make(samples, n)
		return r, err
	}
}

// next returns a listener's report of the next record.
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
