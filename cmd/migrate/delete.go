package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

type deleteAnswer struct {
	Path  string `json:"path" doc:"the file, absolute"`
	Store string `json:"store" doc:"runs, live, agents, checkpoints or workers"`
	ID    string `json:"id" doc:"of what was deleted"`
	Owner string `json:"owner" doc:"the agent of a run, the runtime of a worker; empty for others"`
}

type deleteFlags struct {
	agent, runtime string
	yes            bool
}

// A deletion is a thing that was found, and how it is deleted.
type deletion struct {
	what, id, owner string
	do              func(context.Context) error
}

func (a *app) deleteCommand() *cobra.Command {
	var f deleteFlags
	c := &cobra.Command{
		Use:   "delete STORE ID [--agent ID] [--runtime ID] [--yes]",
		Short: "Delete one run, live run, agent, checkpoint or worker, with all that belongs to it",
		Long: `delete takes one thing out of the store (runs, live, agents, checkpoints or workers), pinned or not: a run with its trace, a
worker with its transcript, a checkpoint whether it waits or is claimed. The ID must be whole. A run or live run that a process
writes to stays. The space goes back to the disk.

It asks first on a terminal, and needs --yes elsewhere.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), toWrite, func(d *db.DB) error { return a.delete(c, d, args[0], args[1], f) })
		},
	}
	c.Flags().StringVar(&f.agent, "agent", "", "the run of the agent `ID`")
	c.Flags().StringVar(&f.runtime, "runtime", "", "the worker's runtime `ID`")
	c.Flags().BoolVar(&f.yes, "yes", false, "don't ask")
	return c
}

func (a *app) delete(c *cobra.Command, d *db.DB, store, id string, f deleteFlags) error {
	ctx := c.Context()
	thing, err := a.deletion(c, d, store, id, f)
	if err != nil {
		return err
	}
	if thing.id != id {
		words := []string{"delete", store, thing.id}
		if f.agent != "" {
			words = append(words, "--agent", f.agent)
		}
		if f.runtime != "" {
			words = append(words, "--runtime", f.runtime)
		}
		return &fault{
			kind: kindNotFound, hint: "give the whole id: " + a.commandLine(words...),
			err: fmt.Errorf("there is no %s %q", thing.what, id),
		}
	}
	what := fmt.Sprintf("delete the %s %s", thing.what, printable(id))
	if thing.owner != "" {
		what += " of " + printable(thing.owner)
	}
	if err := a.confirm(f.yes, "%s", what); err != nil {
		return err
	}
	if err := thing.do(ctx); err != nil {
		return err
	}
	showing, shown := a.showing(ctx)
	err = d.GiveBack(showing)
	shown()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(deleteAnswer{d.Path(), store, thing.id, thing.owner})
	}
	return a.print("deleted the %s %s\n", thing.what, printable(thing.id))
}

// deletion finds what an id means in a store.
func (a *app) deletion(c *cobra.Command, d *db.DB, store, id string, f deleteFlags) (thing deletion,
	err error,
) {
	ctx := c.Context()
	switch store {
	case db.StoreRuns:
		s := runs.NewStore(d, runs.Options{Scope: a.scope})
		var of *string
		if c.Flags().Changed("agent") {
			of = &f.agent
		}
		ref, err := findRun(ctx, s, id, of)
		return deletion{
			"run", ref.RunID, ref.AgentID,
			func(ctx context.Context) error { return s.Delete(ctx, ref) },
		}, err
	case db.StoreLive:
		s := live.NewStore(d, live.Options{Scope: a.scope})
		run, err := findLive(ctx, s, id)
		return deletion{"live run", run.ID, "", func(ctx context.Context) error { return s.Delete(ctx, run.ID) }},
			err
	case db.StoreAgents:
		s := agents.NewRegistry(d, agents.Options{Scope: a.scope})
		agent, err := findAgent(ctx, s, id)
		return deletion{
			"agent", agent.SessionID, "",
			func(ctx context.Context) error { return s.Delete(ctx, agent.SessionID) },
		}, err
	case db.StoreCheckpoints:
		s := checkpoints.NewStore(d, checkpoints.Options{Scope: a.scope})
		run, err := findCheckpoint(ctx, s, id, "")
		return deletion{
			"checkpoint", run, "",
			func(ctx context.Context) error { return s.Delete(ctx, checkpoints.Ref{RunID: run}) },
		}, err
	case db.StoreWorkers:
		ids, err := a.runtimes(c, d, f.runtime)
		if err != nil {
			return thing, err
		}
		var r *workers.Runtime
		var ref workers.WorkerRef
		r, ref, err = a.findWorker(ctx, d, ids, id)
		return deletion{
			"worker", string(ref.WorkerID), string(ref.RuntimeID),
			func(ctx context.Context) error { return r.Delete(ctx, ref) },
		}, err
	}
	return thing, usage("%q is no store; there are runs, live, agents, checkpoints and workers", store)
}
