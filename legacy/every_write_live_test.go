package legacy

import (
	"context"
	"errors"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/replay"
)

func oldLive(t *testing.T, dir string) any {
	sessions := map[string]any{}
	for path, text := range filesBelow(t, dir) {
		value, err := replay.Decode([]byte(text))
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		list, err := replay.NewLiveModel().ReadRecords(value)
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		sessions[path] = replay.RecordList(list)
	}
	return jsonOf(sessions)
}

func ourLive(ctx context.Context, d *db.DB) (any, error) {
	sessions := map[string][]live.RunRecord{}
	records, err := sessionsOf(d).Records(ctx)
	for _, r := range records {
		path := "runs/" + sessionFile(r.Snapshot.SessionID)
		sessions[path] = append(sessions[path], r)
	}
	return sessions, err
}

func liveWrites(s *storeFile) []publicWrite {
	const moved = "runs/moved.json"
	var heldLive *live.Run
	found := func(_ live.RunSnapshot, found bool, err error) error {
		if err == nil && !found {
			err = errors.New("the run is not there")
		}
		return err
	}
	return []publicWrite{
		{name: "CreateRun", touches: moved, do: func(ctx context.Context) error {
			_,
				err := sessionsOf(s.d).CreateRun(ctx, "moved", "go")
			return err
		}},
		{name: "CreateRunWithID", touches: moved, do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).CreateRunWithID(ctx, "m-1", "moved", "go")
			return err
		}},
		{name: "ReserveRunWithID", touches: moved, do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).ReserveRunWithID(ctx, "m-2", "moved", "go")
			return err
		}},
		{name: "RecordEvent", touches: moved, do: func(ctx context.Context) error {
			return found(sessionsOf(s.d).RecordEvent(ctx, "m-1", live.TextDelta("é"), live.TextDelta("b")))
		}},
		{name: "Append", touches: moved, do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).Append(ctx, "m-2",
				live.Batch{Events: []live.Event{live.AgentEnd("done")}, Key: "key"})
			return err
		}},
		{
			name: "MarkFailed", touches: moved, says: `"error": "no disk"`,
			do: func(ctx context.Context) error { return found(sessionsOf(s.d).MarkFailed(ctx, "m-1", "no disk")) },
		},
		{name: "Begin", touches: moved, do: func(ctx context.Context) (err error) {
			heldLive, err = sessionsOf(s.d).Begin(ctx, live.Start{ID: "m-3", SessionID: "moved", Prompt: "go"})
			return err
		}},
		{
			name: "Run.Append", touches: moved,
			do: func(ctx context.Context) error { _, err := heldLive.Append(ctx, live.TextDelta("c")); return err },
		},
		{
			name: "Run.Release", silent: ownership,
			do: func(ctx context.Context) error { return heldLive.Release(ctx) },
		},
		{name: "Resume", silent: ownership, do: func(ctx context.Context) (err error) {
			heldLive, err = sessionsOf(s.d).Resume(ctx, "m-3")
			return err
		}},
		{
			name: "Run.End", touches: moved, says: `"status": "completed"`,
			do: func(ctx context.Context) error { return heldLive.End(ctx, live.AgentEnd("over")) },
		},
		{name: "a process dies at work", touches: moved, do: s.diesAtWork(Live)},
		{
			name: "Recover", silent: ownership,
			do: func(ctx context.Context) error { return one(sessionsOf(s.d).Recover(ctx)) },
		},
		{name: "CreateRunWithID of another", touches: "runs/other.json", do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).CreateRunWithID(ctx, "m-5", "other", "go")
			return err
		}},
		{
			name: "MarkCancelled", touches: "runs/other.json", says: `"status": "cancelled"`,
			do: func(ctx context.Context) error { return found(sessionsOf(s.d).MarkCancelled(ctx, "m-5")) },
		},
		{
			name: "RunHandle.Cancel", touches: moved, says: `"status": "cancelled"`,
			do: func(ctx context.Context) error {
				_, err := cancelling(s.d).Cancel(ctx)
				return err
			},
		},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error {
			return sessionsOf(s.d).Pin(ctx,
				"m-1")
		}},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error {
			return sessionsOf(s.d).Unpin(ctx,
				"m-1")
		}},
		{name: "Delete", touches: moved, do: func(ctx context.Context) error {
			return sessionsOf(s.d).Delete(ctx,
				"m-1")
		}},
		{name: "ReplaceRecords", touches: "runs/other.json", do: func(ctx context.Context) error {
			records, err := sessionsOf(s.d).Records(ctx)
			records = slices.DeleteFunc(records, func(r live.RunRecord) bool { return r.Snapshot.ID == "m-5" })
			return errors.Join(err, sessionsOf(s.d).ReplaceRecords(ctx, records))
		}},
		{name: "Prune", touches: "runs/", do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).Prune(ctx, db.Policy{Count: 1})
			return err
		}},
	}
}
