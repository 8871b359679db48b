package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/legacy"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// A tree is what importScript makes an old tree of: records of one store in the default scope, and
// their number in another.
type tree struct {
	kind  legacy.Kind
	have  int
	fill  func(ctx context.Context, s *session, i int) error
	count func(ctx context.Context, s *session, scope string) (int, error)
}

// importScript brings an old tree into the file. It may be done in part, and is finished when it is repeated.
func importScript(t tree) script {
	folder := func(s *session) string { return filepath.Join(s.folder, "tree") }
	bring := func(ctx context.Context, s *session) error {
		report, err := legacy.Import(ctx, s.db, t.kind, folder(s), legacy.Options{Scope: "new", BatchBytes: 4000})
		if err == nil && len(report.Quarantined) > 0 {
			err = fmt.Errorf("put aside: %+v", report.Quarantined)
		}
		return err
	}
	return script{
		name: "import-" + string(t.kind),
		prepare: func(ctx context.Context, s *session) error {
			for i := range t.have {
				if err := t.fill(ctx, s, i); err != nil {
					return err
				}
			}
			_, err := legacy.Export(ctx, s.db, t.kind, folder(s), legacy.Options{})
			return err
		},
		ops: []op{
			{
				name: "import", gradual: true,
				do: bring,
				look: func(ctx context.Context, s *session) (trace, error) {
					n, err := t.count(ctx, s, "new")
					return parts(n, t.have), err
				},
			},
			startOp("next"),
		},
		whole: func(ctx context.Context, s *session) error {
			if err := bring(ctx, s); err != nil {
				return fmt.Errorf("import again: %w", err)
			}
			report, err := legacy.Verify(ctx, s.db, t.kind, folder(s), legacy.Options{Scope: "new"})
			if err == nil && len(report.Differs) > 0 {
				err = fmt.Errorf("tree and file differ: %+v", report.Differs)
			}
			return err
		},
	}
}

var trees = []tree{
	{
		kind: legacy.Runs, have: 12,
		fill: func(ctx context.Context, s *session, i int) error {
			run := fmt.Sprintf("run-%02d", i)
			return errors.Join(start(ctx, s, run), traces(s).AppendTurns(ctx, agent, run, turns("old", 2, 1000)))
		},
		count: func(ctx context.Context, s *session, scope string) (int, error) {
			list, err := runs.NewStore(s.db, runs.Options{Scope: scope}).ListRuns(ctx, agent)
			return len(list), err
		},
	},
	{
		kind: legacy.Agents, have: 8,
		fill: func(ctx context.Context, s *session, i int) error {
			return registry(s).Save(ctx, entry(fmt.Sprint("agent-", i), "old"))
		},
		count: func(ctx context.Context, s *session, scope string) (int, error) {
			list, err := agents.NewRegistry(s.db, agents.Options{Scope: scope}).List(ctx)
			return len(list), err
		},
	},
	{
		kind: legacy.Checkpoints, have: 8,
		fill: func(ctx context.Context, s *session, i int) error {
			return paused(s).Save(ctx, workflow(fmt.Sprint("run-", i), "first"))
		},
		count: func(ctx context.Context, s *session, scope string) (int, error) {
			list, err := checkpoints.NewStore(s.db, checkpoints.Options{Scope: scope}).List(ctx)
			return len(list), err
		},
	},
	{
		kind: legacy.Workers, have: 6,
		fill: func(ctx context.Context, s *session, i int) error {
			return onWorkers(func(ctx context.Context, r *workers.Runtime) error {
				if _, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent(
					"be tortured")}); err != nil {
					return err
				}
				_, err := r.SendInput(ctx, at(r, i+1), workers.UserInput("begin"))
				return err
			})(ctx, s)
		},
		count: func(ctx context.Context, s *session, scope string) (n int, err error) {
			r, err := workers.Open(ctx, s.db, workers.RuntimeOptions{
				Scope: scope, RuntimeID: "torture",
				MustExist: true,
			})
			if errors.Is(err, db.ErrNotFound) {
				return 0, nil
			}
			if err != nil {
				return 0, err
			}
			list, err := r.ListWorkers(ctx)
			return len(list), err
		},
	},
	{
		kind: legacy.Live, have: 8,
		fill: func(ctx context.Context, s *session, i int) error {
			id := fmt.Sprint("live-", i)
			_, err := liveRuns(s).CreateRunWithID(ctx, id, fmt.Sprint("session-", i%3), "be tortured")
			return errors.Join(err, eventsOp(id, "old", 3, 200).do(ctx, s))
		},
		count: func(ctx context.Context, s *session, scope string) (int, error) {
			list, err := live.NewStore(s.db, live.Options{Scope: scope}).Records(ctx)
			return len(list), err
		},
	},
}
