package main

import (
	"context"
	"fmt"
	"strings"

	"selvedge/runs/live"
)

func liveRuns(s *session) *live.Store { return live.NewStore(s.db, live.Options{}) }

// liveScript works on live runs: starts, a start that is repeated, events one by one and in
// batches, and both marks.
func liveScript() script {
	sc := script{
		name: "live",
		prepare: func(ctx context.Context, s *session) error {
			for _, id := range []string{"live-1", "live-2", "live-3", "live-6"} {
				if _, err := liveRuns(s).CreateRunWithID(ctx, id, "session", "be tortured"); err != nil {
					return err
				}
			}
			return nil
		},
		whole: func(ctx context.Context, s *session) error { return wholeLiveRun(ctx, s, "live-1") },
	}
	sc.ops = append(sc.ops,
		liveStart("create", "live-4", func(ctx context.Context, s *session, id string) error {
			_, err := liveRuns(s).CreateRunWithID(ctx, id, "session", "be tortured")
			return err
		}),
		eventsOp("live-1", "one", 1, 10),
		eventsOp("live-1", "some", 4, 50),
		liveStart("reserve", "live-5", func(ctx context.Context, s *session, id string) error {
			_, err := liveRuns(s).ReserveRunWithID(ctx, id, "session", "be tortured")
			return err
		}),
		markOp("live-2", live.Cancelled, func(ctx context.Context, s *session, id string) error {
			_, _, err := liveRuns(s).MarkCancelled(ctx, id)
			return err
		}),
		markOp("live-6", live.Cancelled, func(ctx context.Context, s *session, id string) error {
			var at live.Session
			at.SetCurrent(id, func() {})
			_, err := live.NewRunHandle(id, "session", liveRuns(s), &at, nil).Cancel(ctx)
			return err
		}),
		markOp("live-3", live.Failed, func(ctx context.Context, s *session, id string) error {
			_, _, err := liveRuns(s).MarkFailed(ctx, id, "it was tortured")
			return err
		}),
		eventsOp("live-1", "large", 1, 20_000),
	)
	return sc
}

func liveStart(how, id string, do func(context.Context, *session, string) error) op {
	return op{
		name: how + " " + id,
		do:   func(ctx context.Context, s *session) error { return do(ctx, s, id) },
		look: func(ctx context.Context, s *session) (trace, error) {
			_, found, err := liveRuns(s).Snapshot(ctx, id)
			return there(found), err
		},
	}
}

func markOp(id string, want live.RunStatus, do func(context.Context, *session, string) error) op {
	return op{
		name: fmt.Sprintf("mark %s %s", id, want),
		do:   func(ctx context.Context, s *session) error { return do(ctx, s, id) },
		look: func(ctx context.Context, s *session) (trace, error) {
			run, found, err := liveRuns(s).Snapshot(ctx, id)
			if err == nil && !found {
				return "gone", nil
			}
			return there(run.Status == want), err
		},
	}
}

// eventsOp records n events with texts that begin with name.
func eventsOp(id, name string, n, size int) op {
	var events []live.Event
	for i := range n {
		events = append(events, live.TextDelta(eventText(name, i, size)))
	}
	return op{
		name: "record " + name,
		do: func(ctx context.Context, s *session) error {
			_, found, err := liveRuns(s).RecordEvent(ctx, id, events...)
			if err == nil && !found {
				return fmt.Errorf("run %s is not there", id)
			}
			return err
		},
		look: func(ctx context.Context, s *session) (trace, error) {
			all, err := liveRuns(s).Events(ctx, id)
			if err != nil {
				return "", err
			}
			at := 0
			for _, e := range all {
				text := string(e.Event.JSON())
				switch {
				case at < n && text == string(events[at].JSON()):
					at++
				case strings.Contains(text, fmt.Sprintf("%q", name+" ")[:len(name)+2]):
					return trace(fmt.Sprintf("%d events, and %.40s", at, text)), nil
				}
			}
			return parts(at, n), nil
		},
		repeat: func(ctx context.Context, s *session, batch int64) error {
			_, err := liveRuns(s).Append(ctx, id, live.Batch{Events: events, Repeat: batch})
			return err
		},
	}
}

func eventText(name string, i, size int) string {
	return fmt.Sprintf("%s %d %s", name, i, strings.Repeat("x", size))
}

// wholeLiveRun looks that the sequences of a run have no holes and that its snapshot counts them.
func wholeLiveRun(ctx context.Context, s *session, id string) error {
	events, err := liveRuns(s).Events(ctx, id)
	if err != nil {
		return err
	}
	for i, e := range events {
		if i > 0 && e.Sequence != events[i-1].Sequence+1 {
			return fmt.Errorf("events of %s: %d comes after %d", id, e.Sequence, events[i-1].Sequence)
		}
	}
	run, found, err := liveRuns(s).Snapshot(ctx, id)
	if err == nil && (!found || run.EventCount != uint64(len(events))) {
		err = fmt.Errorf("run %s counts %d events and has %d", id, run.EventCount, len(events))
	}
	return err
}
