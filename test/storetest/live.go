package storetest

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs/live"
)

var ofLive = store{"live", slices.Concat(lists[string, live.Filter, live.RunSnapshot,
	live.RunSnapshot](listedLive).laws(),
	streams[string, live.RunEventRecord](followedLive).laws(), holdLaws(heldLive, "live"),
	keeps(valuesOfLive).laws()), heldLive}

func eventsOf(texts ...string) (events []live.Event) {
	for _, text := range texts {
		events = append(events, live.TextDelta(text))
	}
	return events
}

func listedLive(_ *testing.T, d *db.DB, scope string) things[string, live.Filter, live.RunSnapshot,
	live.RunSnapshot] {
	s := live.NewStore(d, live.Options{Scope: scope})
	return things[string, live.Filter, live.RunSnapshot, live.RunSnapshot]{
		lister: s,
		add: func(ctx context.Context, n int) (string, error) {
			return nth(n), second(s.CreateRunWithID(ctx, nth(n), "session", ""))
		},
		addTx: func(tx *db.Tx, n int) (string, error) {
			return nth(n), second(s.CreateRunWithIDTx(tx, nth(n), "session", ""))
		},
		name:  func(ref string) string { return ref },
		of:    func(r live.RunSnapshot) string { return r.ID },
		began: func(r live.RunSnapshot) time.Time { return time.UnixMilli(int64(r.CreatedAtMs)) },
		unit:  time.Millisecond,
		end: func(ctx context.Context, ref string) error {
			return second(s.Append(ctx, ref, live.Batch{Events: []live.Event{live.AgentEnd("")}}))
		},
		prune: s.Prune, pins: s,
		big: func(ctx context.Context, n int, text string) (string, error) {
			return nth(n), second(s.CreateRunWithID(ctx, nth(n), "session", text))
		},
	}
}

func followedLive(_ *testing.T, d *db.DB, scope string) followed[string, live.RunEventRecord] {
	s := live.NewStore(d, live.Options{Scope: scope})
	return followed[string, live.RunEventRecord]{
		add: func(ctx context.Context, n int) (string, error) {
			return nth(n), second(s.CreateRunWithID(ctx, nth(n), "session", ""))
		},
		addTx:  func(tx *db.Tx, n int) error { return second(s.CreateRunWithIDTx(tx, nth(n), "session", "")) },
		remove: s.Delete,
		end: func(ctx context.Context, ref string) error {
			_, _, err := s.MarkCancelled(ctx, ref)
			return err
		}, began: string(live.Created), ended: string(live.Cancelled), heavy: true,
		append: func(tx *db.Tx, ref string, texts ...string) error {
			return second(s.AppendTx(tx, ref, live.Batch{Events: eventsOf(texts...)}))
		},
		spoil: func(tx *db.Tx, ref string) error {
			return second(s.AppendTx(tx, ref, live.Batch{Events: append(eventsOf("whole"), live.Event{})}))
		},
		repeat: func(tx *db.Tx, ref string, batch int64, texts ...string) error {
			return second(s.AppendTx(tx, ref, live.Batch{Events: eventsOf(texts...), Repeat: batch}))
		},
		keyed: func(tx *db.Tx, ref, key string, texts ...string) error {
			return second(s.AppendTx(tx, ref, live.Batch{Events: eventsOf(texts...), Key: key}))
		},
		follow: s.Follow,
		only: func(ctx context.Context, ref, text string) error {
			one := uint64(1)
			s := live.NewStore(d, live.Options{Scope: scope, MaxEventsPerRun: &one})
			return second(s.Append(ctx, ref, live.Batch{Events: eventsOf(text)}))
		},
		followAll: func(ctx context.Context, status string) iter.Seq2[live.Followed, error] {
			return s.FollowAll(ctx, live.Filter{Statuses: statuses[live.RunStatus](status)})
		},
		before: s.CursorBefore, page: s.EventsPage,
		says: func(_ context.Context, r live.RunEventRecord) string {
			var event struct{ Text string }
			_ = json.Unmarshal(r.Event.JSON(), &event) // an event without text is skipped
			return event.Text
		},
		sequence: func(r live.RunEventRecord) uint64 { return r.Sequence },
	}
}

func heldLive(d *db.DB, scope string) holds {
	s := live.NewStore(d, live.Options{Scope: scope})
	held := func(r *live.Run, err error) (holding, bool, error) {
		if err != nil {
			return holding{}, false, conflictIsLoss(err)
		}
		return holding{
			r.Epoch(), func(tx *db.Tx) error { return second(r.AppendTx(tx, eventsOf("x")...)) },
			r.Release,
		}, true, nil
	}
	return holds{
		add: func(ctx context.Context, name string) error {
			return second(s.CreateRunWithID(ctx, name, "session", ""))
		},
		begin: func(ctx context.Context, name string) (holding, bool, error) {
			return held(s.Begin(ctx, live.Start{ID: name, SessionID: "session"}))
		},
		status: func(ctx context.Context, name string) (string, error) {
			run, err := s.Get(ctx, name)
			return string(run.Status), err
		},
		take:   func(ctx context.Context, name string) (holding, bool, error) { return held(s.Resume(ctx, name)) },
		takeTx: func(tx *db.Tx, name string) (holding, bool, error) { return held(s.ResumeTx(tx, name)) },
		reattach: func(ctx context.Context, name string, epoch int64) (holding, error) {
			h, _, err := held(s.Reattach(ctx, name, epoch))
			return h, err
		},
		remove: s.Delete, recover: s.Recover, guarded: true,
		outside: func(ctx context.Context, name string) error {
			return second(s.Append(ctx, name, live.Batch{Events: eventsOf("x")}))
		},
	}
}

func valuesOfLive(_ *testing.T, d *db.DB, scope string) []kept {
	s := live.NewStore(d, live.Options{Scope: scope})
	const head, tail = `{"type":"of a later version","value":`, `}`
	return []kept{
		{
			name: "prompt", refuses: []string{"invalid UTF-8"},
			put: func(ctx context.Context, n int, value string) error {
				return second(s.CreateRunWithID(ctx, nth(n), "session", value))
			},
			get: func(ctx context.Context, n int) (string, error) {
				run, err := s.Get(ctx, nth(n))
				return run.Prompt, err
			},
		},
		{
			name: "event", json: true, refuses: []string{
				"half of a surrogate pair", "invalid UTF-8 in JSON",
				"a number beyond a float", "no JSON",
			},
			put: func(ctx context.Context, n int, value string) error {
				event, err := live.NewEvent([]byte(head + value + tail))
				if err == nil {
					_, err = s.CreateRunWithID(ctx, nth(n), "session", "")
				}
				if err == nil {
					_, err = s.Append(ctx, nth(n), live.Batch{Events: []live.Event{event}})
				}
				return err
			},
			get: func(ctx context.Context, n int) (string, error) {
				page, err := s.EventsPage(ctx, nth(n), db.At{})
				if err != nil || len(page.Items) == 0 {
					return "", err
				}
				return strings.TrimSuffix(strings.TrimPrefix(string(page.Items[0].Item.Event.JSON()), head), tail), nil
			},
		},
	}
}
