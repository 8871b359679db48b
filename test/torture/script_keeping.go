package main

import (
	"context"
	"errors"
	"fmt"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
)

// keepingScript sets limits and pins, and prunes by them: pinned and living items are there after
// every fault.
func keepingScript() script {
	all := db.Policy{Age: db.KeepNone}
	const claims = 3
	return script{
		name: "keeping",
		prepare: func(ctx context.Context, s *session) error {
			for _, id := range []string{"ended", "pinned", "unpinned", "lives"} {
				if err := start(ctx, s, id); err != nil {
					return err
				}
				if _, err := liveRuns(s).CreateRunWithID(ctx, "live-"+id, "session", "be tortured"); err != nil {
					return err
				}
				if id == "lives" {
					continue
				}
				if err := endOp(id).do(ctx, s); err != nil {
					return err
				}
				if _, err := liveRuns(s).Append(ctx, "live-"+id,
					live.Batch{Events: []live.Event{live.AgentEnd("ended")}}); err != nil {
					return err
				}
			}
			for i := range claims {
				id := fmt.Sprint("over-", i)
				if err := paused(s).Save(ctx, workflow(id, "first")); err != nil {
					return err
				}
				if _, _, err := paused(s).Claim(ctx, id); err != nil {
					return err
				}
				if err := paused(s).Complete(ctx, id); err != nil {
					return err
				}
			}
			return errors.Join(
				traces(s).Pin(ctx, ofAgent("unpinned")), liveRuns(s).Pin(ctx, "live-unpinned"),
				paused(s).Save(ctx, workflow("unpinned", "first")), paused(s).Pin(ctx, "unpinned"),
				maintenance.SetRetention(ctx, s.db, "", maintenance.StoreLive, all),
			)
		},
		setup: func(ctx context.Context, s *session) error {
			if err := paused(s).Save(ctx, workflow("decided", "first")); err != nil {
				return err
			}
			c, ok, err := paused(s).Claim(ctx, "decided")
			if err == nil && !ok {
				err = fmt.Errorf("it is taken")
			}
			s.kept["decided"] = c
			return err
		},
		ops: []op{
			{
				name: "decide",
				do: func(ctx context.Context, s *session) error {
					return s.kept["decided"].(*checkpoints.Claim).Decide(ctx, checkpoints.Decision{Decision: "yes"})
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					page, err := paused(s).HistoryPage(ctx, checkpoints.HistoryFilter{RunID: "decided"}, db.At{})
					return parts(len(page.Items), 1), err
				},
			},
			{
				name: "limit",
				do: func(ctx context.Context, s *session) error {
					return maintenance.SetRetention(ctx, s.db, "", maintenance.StoreRuns,
						all)
				},
				look: lookForLimits(maintenance.StoreRuns, true),
			},
			{
				name: "reset",
				do: func(ctx context.Context, s *session) error {
					return maintenance.ResetRetention(ctx, s.db, "", maintenance.StoreLive)
				},
				look: lookForLimits(maintenance.StoreLive, false),
			},
			{
				name: "pin",
				do:   func(ctx context.Context, s *session) error { return traces(s).Pin(ctx, ofAgent("pinned")) },
				look: lookForPin(maintenance.StoreRuns, "pinned", true),
			},
			{
				name: "unpin",
				do:   func(ctx context.Context, s *session) error { return traces(s).Unpin(ctx, ofAgent("unpinned")) },
				look: lookForPin(maintenance.StoreRuns, "unpinned", false),
			},
			{
				name: "pin a live run",
				do:   func(ctx context.Context, s *session) error { return liveRuns(s).Pin(ctx, "live-pinned") },
				look: lookForPin(maintenance.StoreLive, "live-pinned", true),
			},
			{
				name: "unpin a live run",
				do:   func(ctx context.Context, s *session) error { return liveRuns(s).Unpin(ctx, "live-unpinned") },
				look: lookForPin(maintenance.StoreLive, "live-unpinned", false),
			},
			{
				name: "pin a history",
				do:   func(ctx context.Context, s *session) error { return paused(s).Pin(ctx, "over-0") },
				look: lookForPin(maintenance.StoreCheckpoints, "over-0", true),
			},
			{
				name: "unpin a history",
				do:   func(ctx context.Context, s *session) error { return paused(s).Unpin(ctx, "unpinned") },
				look: lookForPin(maintenance.StoreCheckpoints, "unpinned", false),
			},
			{
				name: "prune the history", gradual: true,
				do: func(ctx context.Context, s *session) error {
					_, err := paused(s).Prune(ctx, db.Policy{Age: db.KeepNone, Pinned: []string{"decided"}})
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					gone := 0
					for i := 1; i < claims; i++ { // the first is pinned
						page, err := paused(s).HistoryPage(ctx, checkpoints.HistoryFilter{RunID: fmt.Sprint("over-", i)},
							db.At{})
						if err != nil {
							return "", err
						}
						gone += 1 - len(page.Items)
					}
					return parts(gone, claims-1), nil
				},
			},
			{name: "give back", do: giveBack},
			{name: "scrub", do: func(ctx context.Context, s *session) error { return maintenance.Scrub(ctx, s.db) }},
		},
	}
}

func ofAgent(run string) runs.RunRef { return runs.RunRef{AgentID: agent, RunID: run} }

func lookForPin(store, id string, pinned bool) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		page, err := maintenance.Pins(ctx, s.db, "", db.At{})
		is := false
		for _, p := range page.Items {
			is = is || p.Store == store && p.ID == id
		}
		return there(is == pinned), err
	}
}

func lookForLimits(store string, limited bool) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		_, is, err := stores.RetentionOf(ctx, s.db, "", store)
		return there(is == limited), err
	}
}

func giveBack(ctx context.Context, s *session) error { return maintenance.GiveBack(ctx, s.db) }
