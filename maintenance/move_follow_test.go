package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func TestFollowersGoOnBehindAMove(t *testing.T) { followsOn(t, dbtest.Path(t)) }

// followsOn follows a trace and a live run from cursors that another database gave, there and back.
func followsOn(t *testing.T, place string) {
	ctx := t.Context()
	from, back := dbtest.Path(t), dbtest.Path(t)
	d := dbtest.OpenAt(t, from, db.Options{})
	traces, lives := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	turn := func(s *runs.Store, n uint64) error {
		return s.AppendTurns(ctx, "a", "followed", []runs.Turn{{Index: n}})
	}
	event := func(s *live.Store, n int) error {
		_, err := s.Append(ctx, "followed", live.Batch{Events: []live.Event{live.TextDelta(fmt.Sprint(n))}})
		return err
	}
	_, err := lives.CreateRunWithID(ctx, "followed", "session", "go")
	err = errors.Join(err, started(ctx, d, "followed"), turn(traces, 0), event(lives, 0), turn(traces, 1),
		event(lives, 1), started(ctx, d, "gone"))
	if err != nil {
		t.Fatal(err)
	}
	gone, err := traces.CursorBefore(ctx, runs.RunRef{AgentID: "a", RunID: "gone"}, 0)
	over := runs.Ended{
		RunID: "gone", AgentID: "a", EndedAt: theTime,
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess, Timestamp: theTime}},
	}
	if err = errors.Join(err, traces.WriteEnded(ctx, over),
		traces.Delete(ctx, runs.RunRef{AgentID: "a", RunID: "gone"})); err != nil {
		t.Fatal(err)
	}
	ofTrace, at := told(t, traces.Follow(ctx, runs.RunRef{AgentID: "a", RunID: "followed"}, ""), 2, itemOfTrace)
	ofLive, then := told(t, lives.Follow(ctx, "followed", ""), 2, itemOfLive)
	for i, way := range [][2]string{{from, place}, {place, back}} {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := maintenance.Move(ctx, way[0], way[1], db.Options{}); err != nil {
			t.Fatal(err)
		}
		d = dbtest.OpenAt(t, way[1], db.Options{})
		traces, lives = runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
		if err := errors.Join(turn(traces, uint64(2+i)), event(lives, 2+i)); err != nil {
			t.Fatal(err)
		}
		var more []string
		more, at = told(t, traces.Follow(ctx, runs.RunRef{AgentID: "a", RunID: "followed"}, at), 1, itemOfTrace)
		ofTrace = append(ofTrace, more...)
		more, then = told(t, lives.Follow(ctx, "followed", then), 1, itemOfLive)
		ofLive = append(ofLive, more...)
	}
	more, _ := told(t, traces.Follow(ctx, runs.RunRef{AgentID: "a", RunID: "followed"}, at), 1, itemOfTrace)
	if ofTrace = append(ofTrace, more...); !slices.Equal(ofTrace, []string{"1", "2", "3", "4", "5"}) {
		t.Errorf("of a trace: %q", ofTrace)
	}
	if !slices.Equal(ofLive, []string{"0", "1", "2", "3"}) {
		t.Errorf("of a live run: %q", ofLive)
	}
	// A run that was removed before the move is none that has its name behind it.
	if err := started(ctx, d, "gone"); err != nil {
		t.Fatal(err)
	}
	for _, err := range traces.Follow(ctx, runs.RunRef{AgentID: "a", RunID: "gone"}, gone) {
		if !errors.Is(err, db.ErrCursorExpired) {
			t.Errorf("the cursor of a run that is gone: %v", err)
		}
	}
}

func itemOfTrace(f runs.Followed) string { return fmt.Sprint(f.Item.Sequence) }

func itemOfLive(f live.Followed) string { return fmt.Sprint(f.Item.Sequence) }

// told gives the first n items that a follower hears of, and the cursor of the last.
func told[R comparable, T any](t *testing.T, items iter.Seq2[db.Followed[R, T], error], n int,
	spelled func(db.Followed[R, T]) string,
) (list []string, cursor string) {
	t.Helper()
	for item, err := range items {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if item.What != db.Written {
			continue
		}
		if list, cursor = append(list, spelled(item)), item.Cursor; len(list) == n {
			break
		}
	}
	return list, cursor
}

func started(ctx context.Context, d *db.DB, run string) error {
	return runs.NewStore(d, runs.Options{}).WriteStarted(ctx,
		runs.Started{RunID: run, AgentID: "a", Intent: "go on", StartedAt: theTime})
}
