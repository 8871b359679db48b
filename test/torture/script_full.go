package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
)

// fullScript ends and removes things in a file that is large enough for a reserve, and then
// appends. With a full disk as the fault, the ends and removals use the reserve; whatever happens
// on the way, the reserve is there again afterwards.
func fullScript() script {
	const lines = 20
	fill := func(ctx context.Context, s *session, id string) error {
		return errors.Join(start(ctx, s, id), traces(s).AppendTurns(ctx, agent, id, turns(id, lines, 80_000)))
	}
	return script{
		name: "full",
		prepare: func(ctx context.Context, s *session) error {
			err := errors.Join(fill(ctx, s, "ended"), fill(ctx, s, "open"), fill(ctx, s, "stays"),
				endOp("ended").do(ctx, s))
			_, create := liveRuns(s).CreateRunWithID(ctx, "live", "session", "be tortured")
			return errors.Join(err, create, paused(s).Save(ctx, workflow("claimed", "first")))
		},
		setup: func(ctx context.Context, s *session) error {
			c, ok, err := paused(s).Claim(ctx, "claimed")
			if err == nil && !ok {
				err = errors.New("it is taken")
			}
			s.kept["claimed"] = c
			return err
		},
		ops: []op{
			{
				name: "remove",
				do:   func(ctx context.Context, s *session) error { return traces(s).Delete(ctx, ofAgent("ended")) },
				look: func(ctx context.Context, s *session) (trace, error) {
					list, err := records(ctx, s, "ended", func(runs.Record) bool { return true })
					return parts(lines+2-len(list), lines+2), err
				},
			},
			endOp("open"),
			{
				name: "fail a live run",
				do: func(ctx context.Context, s *session) error {
					_, _, err := liveRuns(s).MarkFailed(ctx, "live", "the disk is full")
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					run, _, err := liveRuns(s).Snapshot(ctx, "live")
					return there(run.Status == live.Failed), err
				},
			},
			{
				name: "complete a claim",
				do: func(ctx context.Context, s *session) error {
					return s.kept["claimed"].(*checkpoints.Claim).Complete(ctx)
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					page, err := paused(s).HistoryPage(ctx, checkpoints.HistoryFilter{RunID: "claimed"}, db.At{})
					return parts(len(page.Items), 1), err
				},
			},
			{
				name: "end by a call of its own",
				do: func(ctx context.Context, s *session) error {
					return s.db.WriteEnd(ctx, "end", func(tx *db.Tx) error {
						_, err := tx.Store().Scope("ended")
						return err
					})
				},
				look: lookForScope("ended"),
			},
			{name: "give back", do: giveBack},
			turnsOp("stays", "more", 1, 80_000),
		},
		whole: func(ctx context.Context, s *session) error {
			if err := traces(s).Delete(ctx, ofAgent("open")); err != nil {
				return fmt.Errorf("no way out: %w", err)
			}
			info, err := os.Stat(filepath.Join(s.folder, fileName+"-reserve"))
			if err == nil && info.Size() == 0 {
				err = errors.New("the reserve is still empty")
			}
			return err
		},
	}
}
