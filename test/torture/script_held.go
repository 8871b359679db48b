package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// liveHeldScript works on live runs that this process holds, and recovers and prunes those of others.
func liveHeldScript() script {
	begin := func(ctx context.Context, s *session, id string) error {
		r, err := liveRuns(s).Begin(ctx, live.Start{ID: id, SessionID: "session", Prompt: "be tortured"})
		s.kept[id] = r
		return err
	}
	held := func(s *session, id string) *live.Run { return s.kept[id].(*live.Run) }
	status := func(id string, want live.RunStatus) func(context.Context, *session) (trace, error) {
		return markOp(id, want, nil).look
	}
	pruned := func(i int) string { return fmt.Sprint("pruned-", i) }
	events := eventsOp("live-2", "held", 2, 100)
	events.do = func(ctx context.Context, s *session) error {
		_, err := held(s, "live-2").Append(ctx, live.TextDelta(eventText("held", 0, 100)),
			live.TextDelta(eventText("held", 1, 100)))
		return err
	}
	events.repeat = nil // the process that held the run has given it up by then
	return script{
		name: "live-held",
		prepare: func(ctx context.Context, s *session) error {
			for i := range 3 {
				if _, err := liveRuns(s).CreateRunWithID(ctx, pruned(i), "session-pruned", "be tortured"); err != nil {
					return err
				}
				if _, _, err := liveRuns(s).MarkFailed(ctx, pruned(i), "it ended"); err != nil {
					return err
				}
			}
			return begin(ctx, s, "orphan")
		},
		setup: func(ctx context.Context, s *session) error {
			if err := errors.Join(begin(ctx, s, "live-2"), begin(ctx, s, "live-3"), begin(ctx, s, "live-4"),
				begin(ctx, s, "live-5")); err != nil {
				return err
			}
			return held(s, "live-5").Release(ctx)
		},
		ops: []op{
			liveStart("begin", "live-1", begin),
			events,
			{
				name: "end",
				do: func(ctx context.Context, s *session) error {
					return held(s, "live-3").End(ctx,
						live.AgentEnd("ended"))
				},
				look: status("live-3", live.Completed),
			},
			{name: "release", do: func(ctx context.Context,
				s *session,
			) error {
				return held(s, "live-4").Release(ctx)
			}},
			{name: "resume", do: func(ctx context.Context, s *session) error {
				_,
					err := liveRuns(s).Resume(ctx, "live-5")
				return err
			}},
			{
				name: "recover", gradual: true,
				do:   func(ctx context.Context, s *session) error { _, err := liveRuns(s).Recover(ctx); return err },
				look: freed("live run", "orphan"),
			},
			{
				name: "prune", gradual: true,
				do: func(ctx context.Context, s *session) error {
					_, err := liveRuns(s).Prune(ctx, db.Policy{Count: 1, Pinned: []string{"orphan", "live-3"}})
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					gone := 0
					for i := range 3 {
						_, found, err := liveRuns(s).Snapshot(ctx, pruned(i))
						if err != nil {
							return "", err
						}
						if !found {
							gone++
						}
					}
					return parts(gone, 2), nil
				},
			},
		},
	}
}

// deletingScript removes things, releases claims, and works under one.
func deletingScript() script {
	claim := func(ctx context.Context, s *session, id string) error {
		c, ok, err := paused(s).Claim(ctx, id)
		if err == nil && !ok {
			err = fmt.Errorf("%s is taken", id)
		}
		s.kept[id] = c
		return err
	}
	waits := func(list []checkpoints.Summary) bool { return len(list) == 1 && list[0].Claim == nil }
	return script{
		name: "deleting",
		prepare: func(ctx context.Context, s *session) error {
			err := errors.Join(start(ctx, s, "old"), traces(s).AppendTurns(ctx, agent, "old", turns("old", 20, 1000)))
			for _, id := range []string{"orphan", "held", "released"} {
				err = errors.Join(err, paused(s).Save(ctx, workflow(id, "first")))
			}
			create := onWorkers(func(ctx context.Context, r *workers.Runtime) error {
				_, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent("be tortured")})
				return err
			})
			return errors.Join(err, create(ctx, s), create(ctx, s), claim(ctx, s, "orphan"))
		},
		setup: func(ctx context.Context, s *session) error {
			return errors.Join(claim(ctx, s, "held"), claim(ctx, s, "released"))
		},
		ops: []op{
			{
				name: "delete a run",
				do: func(ctx context.Context, s *session) error {
					return traces(s).Delete(ctx, runs.RunRef{AgentID: agent, RunID: "old"})
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					list, err := records(ctx, s, "old", func(runs.Record) bool { return true })
					return parts(21-len(list), 21), err
				},
			},
			{
				name: "delete a worker",
				do:   onWorkers(func(ctx context.Context, r *workers.Runtime) error { return r.Delete(ctx, at(r, 2)) }),
				look: func(ctx context.Context, s *session) (trace, error) {
					r, err := runtimeOf(ctx, s)
					if err != nil {
						return "", err
					}
					list, err := r.ListWorkers(ctx)
					return parts(2-len(list), 1), err
				},
			},
			{
				name: "recover claims",
				do:   func(ctx context.Context, s *session) error { _, err := paused(s).Recover(ctx); return err },
				look: lookForCheckpoint("orphan", waits),
			},
			{
				name: "work under a claim",
				do: func(ctx context.Context, s *session) error {
					return s.kept["held"].(*checkpoints.Claim).Hold(ctx, "work", func(tx *db.Tx) error {
						_, err := tx.Store().Scope("made under a claim")
						return err
					})
				},
				look: lookForScope("made under a claim"),
			},
			{
				name: "give a claim back",
				do: func(ctx context.Context, s *session) error {
					return s.kept["released"].(*checkpoints.Claim).Release(ctx)
				},
				look: lookForCheckpoint("released", waits),
			},
		},
	}
}

// restoreScript restores a backup over a file that was written since.
func restoreScript() script {
	backup := func(s *session) string { return filepath.Join(s.folder, "backup.db") }
	return script{
		name: "restore", closed: true,
		prepare: func(ctx context.Context, s *session) error {
			err := errors.Join(start(ctx, s, "before"), s.db.Backup(ctx, backup(s)))
			return errors.Join(err, start(ctx, s, "since"))
		},
		ops: []op{
			{
				name: "restore",
				do: func(ctx context.Context, s *session) error {
					_, err := maintenance.Restore(ctx, backup(s), s.path(), db.Options{})
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					what, err := startOp("since").look(ctx, s)
					return there(what == absent), err
				},
			},
			whenOpen(startOp("next")),
		},
		whole: func(ctx context.Context, s *session) error {
			what, err := startOp("before").look(ctx, s)
			if err == nil && what != done {
				err = fmt.Errorf("what the backup has is %s", what)
			}
			return err
		},
	}
}
