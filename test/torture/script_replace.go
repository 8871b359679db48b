package main

import (
	"context"
	"fmt"

	"selvedge/runs/live"
)

func otherLive(s *session) *live.Store { return live.NewStore(s.db, live.Options{Scope: "others"}) }

// replaceScript puts live runs into the place of others, where both have more events than one
// transaction writes or removes: the old ones are there, or the new ones are.
func replaceScript() script {
	put := func(name string) op {
		return op{
			name: "replace by " + name,
			do: func(ctx context.Context, s *session) error {
				return otherLive(s).ReplaceRecords(ctx, replacing(name))
			},
			look: func(ctx context.Context, s *session) (trace, error) {
				records, err := otherLive(s).Records(ctx)
				if err != nil {
					return "", err
				}
				want := replacing(name)
				right := 0
				for i, r := range records {
					if i < len(want) && r.Snapshot.SessionID == name && len(r.Events) == len(want[i].Events) {
						right++
					}
				}
				if len(records) != len(want) {
					return trace(fmt.Sprintf("%d runs", len(records))), nil
				}
				return parts(right, len(want)), nil
			},
		}
	}
	return script{
		name: "replace",
		prepare: func(ctx context.Context, s *session) error {
			return otherLive(s).ReplaceRecords(ctx, replacing("before"))
		},
		ops: []op{put("new")},
		whole: func(ctx context.Context, s *session) error {
			_, err := otherLive(s).Recover(ctx)
			return err
		},
	}
}

// replacing are live runs of a session.
func replacing(session string) []live.RunRecord {
	const runs, events = 3, 1400
	records := make([]live.RunRecord, runs)
	for i := range records {
		records[i].Snapshot = live.RunSnapshot{
			ID: fmt.Sprint("live-", i), SessionID: session,
			Status: live.Created, Prompt: "p",
		}
		for n := range events {
			records[i].Events = append(records[i].Events,
				live.RunEventRecord{Sequence: uint64(n), Event: live.TextDelta("text")})
		}
	}
	return records
}
