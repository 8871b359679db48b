package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"selvedge/bench/original"
	"selvedge/db"
	"selvedge/runs/live"
)

const (
	sessionID   = "session-1"
	sessionRuns = 10
	liveEvents  = 1000 // of each run
	manyEvents  = 10_000
	fewEvents   = 10
	liveCallers = 8
)

// answer is a piece of a model's answer. Its event has the size of typical ones.
var answer = prose(90)

// A session is a scope of live runs.
type session struct {
	store *live.Store
	runs  []string
}

// session makes a scope with some runs of so many events each.
func (s *stage) session(ctx context.Context, scope string, runs, events int) (*session, error) {
	made := &session{store: live.NewStore(s.file, live.Options{Scope: scope})}
	batch := make([]live.Event, min(events, liveEvents))
	for i := range batch {
		batch[i] = live.TextDelta(answer)
	}
	for range runs {
		run, err := made.store.CreateRun(ctx, sessionID, "fix tests")
		if err != nil {
			return nil, err
		}
		made.runs = append(made.runs, run.ID)
		for held := 0; held < events; held += len(batch) {
			if _, _, err := made.store.RecordEvent(ctx, run.ID, batch...); err != nil {
				return nil, err
			}
		}
	}
	return made, nil
}

// record adds an event to the session's runs in turns, and returns how many the run has.
func (s *session) record(ctx context.Context, i int) (events int, err error) {
	run, found, err := s.store.RecordEvent(ctx, s.runs[i%len(s.runs)], live.TextDelta(answer))
	if err == nil && !found {
		err = fmt.Errorf("run %s is not there", s.runs[i%len(s.runs)])
	}
	return int(run.EventCount), err
}

// lives measures one event against the original's save that includes it, and against itself in a
// small session; and callers that share a run.
func lives(ctx context.Context, b *bench) ([]result, error) {
	var list []result
	for _, c := range []struct {
		name  string
		level db.Synchronous
		n     int
	}{{"FULL", db.SyncFull, 200}, {"NORMAL", db.SyncNormal, 1000}} {
		s, err := b.stage(ctx, "live", c.level)
		if err != nil {
			return nil, err
		}
		d, err := s.saveDuel(ctx, b, b.n(c.n))
		if err := s.close(err); err != nil {
			return nil, err
		}
		row := fmt.Sprintf("one live event in %d runs x %d events, %s, against the session's save without fsync",
			sessionRuns, liveEvents, c.name)
		list = append(list, d.faster(row, calls(p50), 40))
	}
	flat, err := b.flatEvents(ctx)
	if err != nil {
		return nil, err
	}
	shared, err := b.sharedRun(ctx)
	if err != nil {
		return nil, err
	}
	return append(list, flat, shared), nil
}

func (s *stage) saveDuel(ctx context.Context, b *bench, n int) (duel, error) {
	if err := s.fillWAL(ctx); err != nil {
		return duel{}, err
	}
	ours, err := s.session(ctx, "", sessionRuns, liveEvents)
	if err != nil {
		return duel{}, err
	}
	now := func() uint64 { return uint64(time.Now().UnixMilli()) }
	files := original.NewLiveStore(filepath.Join(s.dir, "live"))
	for _, id := range ours.runs {
		run := files.CreateRun(live.RunSnapshot{
			ID: id, SessionID: sessionID, Status: live.Created,
			Prompt: "fix tests", CreatedAtMs: now(),
		})
		for range liveEvents {
			files.RecordEvent(run, now(), answer)
		}
	}
	few := max(n/perSlow, 1)
	return run(b.rounds,
		each(few, func(number, i int) error {
			at := number*few + i
			held := files.RecordEvent(at%sessionRuns, now(), answer)
			return expect(int(held.EventCount), liveEvents+at/sessionRuns+1, files.Save(sessionID))
		}),
		each(n, func(number, i int) error {
			at := number*n + i
			held, err := ours.record(ctx, at)
			return expect(held, liveEvents+at/sessionRuns+1, err)
		}))
}

// flatEvents measures a session with many events against sessions with few, each new in its round.
func (b *bench) flatEvents(ctx context.Context) (result, error) {
	s, err := b.stage(ctx, "sessions", db.SyncNormal)
	if err != nil {
		return result{}, err
	}
	d, err := s.flatEventDuel(ctx, b, b.n(manyEvents))
	if err := s.close(err); err != nil {
		return result{}, err
	}
	row := fmt.Sprintf("the same, NORMAL, %d runs x %d events against %d x %d", sessionRuns, b.n(manyEvents),
		sessionRuns, fewEvents)
	return d.atMost(row, calls(p50), flatness), nil
}

func (s *stage) flatEventDuel(ctx context.Context, b *bench, events int) (duel, error) {
	if err := s.fillWAL(ctx); err != nil {
		return duel{}, err
	}
	many, err := s.session(ctx, "many", sessionRuns, events)
	if err != nil {
		return duel{}, err
	}
	few := make([]*session, b.rounds+1)
	for number := range few {
		if few[number], err = s.session(ctx, runName("few", number), sessionRuns, fewEvents); err != nil {
			return duel{}, err
		}
	}
	record := func(of func(number int) *session) side {
		return each(b.n(2000), func(number, i int) error {
			_, err := of(number).record(ctx, i)
			return err
		})
	}
	return run(b.rounds, record(func(number int) *session { return few[number] }),
		record(func(int) *session { return many }))
}

// sharedRun measures callers that record into one run at the same time against one caller, and
// checks that the run's sequences are dense afterwards: an error ends the group if they are not.
func (b *bench) sharedRun(ctx context.Context) (result, error) {
	s, err := b.stage(ctx, "shared", db.SyncFull)
	if err != nil {
		return result{}, err
	}
	d, err := s.sharedDuel(ctx, b, b.n(liveEvents))
	if err := s.close(err); err != nil {
		return result{}, err
	}
	row := fmt.Sprintf("%d callers on one live run, %d events each, FULL, sequences dense, against one caller",
		liveCallers, b.n(liveEvents))
	return d.faster(row, round.perCall, 3).asRates(d), nil
}

func (s *stage) sharedDuel(ctx context.Context, b *bench, n int) (duel, error) {
	if err := s.fillWAL(ctx); err != nil {
		return duel{}, err
	}
	record := func(callers int) side {
		return func(number int) (round, error) {
			shared, err := s.session(ctx, runName(callers, number), 1, 0)
			if err != nil {
				return round{}, err
			}
			r, err := together(callers, n, func(int, int, int) error {
				_, err := shared.record(ctx, 0)
				return err
			})(number)
			if err != nil {
				return r, err
			}
			return r, shared.dense(ctx, callers*n)
		}
	}
	return run(b.rounds, record(1), record(liveCallers))
}

// dense reports whether the session's run has so many events, with the sequences from 0 on.
func (s *session) dense(ctx context.Context, want int) error {
	events, err := s.store.Events(ctx, s.runs[0])
	if err := expect(len(events), want, err); err != nil {
		return err
	}
	for i := range events {
		if events[i].Sequence != uint64(i) {
			return fmt.Errorf("event %d of the run has the sequence %d", i, events[i].Sequence)
		}
	}
	return nil
}
