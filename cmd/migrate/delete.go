package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/search"
)

type deleteAnswer struct {
	Path  string `json:"path"`  // the file, absolute
	Store string `json:"store"` // runs, live, agents, checkpoints, workers or state
	ID    string `json:"id"`    // of what was deleted
	// the agent of a run or checkpoint, the runtime of a worker, the owner of a value; empty for others
	Owner string `json:"owner"`
}

var _ = register("Care:", 120, func(a *app) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "delete STORE ID [--agent ID] [--runtime ID] [--owner ID] [--yes]",
		Short: "Delete one run, live run, agent, checkpoint, worker or value, with all that belongs to it",
		Long: `delete takes one thing out of the store (runs, live, agents, checkpoints, workers or state), pinned
or not: a run with its trace, a worker with its transcript, a checkpoint whether it waits or is claimed. The
ID must be whole; that of a value is its key. A run or live run that a process writes to stays. The space
goes back to the disk.

It asks first on a terminal, and needs --yes elsewhere.`,
		Args: cobra.ExactArgs(2),
	}
	c.RunE = a.on(toWrite, func(_ context.Context, d *db.DB, args []string) error {
		return a.delete(c, d, args[0], args[1], yes)
	})
	for _, n := range []noun{runNoun, workerNoun, stateNoun} {
		c.Flags().String(n.owner, "", n.ownerUsage)
	}
	yesFlag(c, &yes)
	return a.answering(c, deleteAnswer{})
})

func (a *app) delete(c *cobra.Command, d *db.DB, store, id string, yes bool) error {
	at := slices.IndexFunc(nouns, func(n noun) bool { return n.store == store })
	if at < 0 {
		return usage("%q is no store; there are runs, live, agents, checkpoints, workers and state", store)
	}
	ctx, n := c.Context(), nouns[at]
	v := n.open(a, d)
	t, err := n.find(ctx, v, id, given(c, n.owner))
	if err != nil {
		return err
	}
	if t.id != id {
		words := []string{"delete", store, t.id}
		for _, flag := range []string{"agent", "runtime", "owner"} {
			if owner := given(c, flag); owner != nil && *owner != "" {
				words = append(words, "--"+flag, *owner)
			}
		}
		return fail(kindNotFound, "give the whole id: "+a.commandLine(words...),
			"there is no %s %q", n.entity, id)
	}
	if err := a.confirm(yes, "delete the %s", n.name(t)); err != nil {
		return err
	}
	if err := v.remove(ctx, t); err != nil {
		return err
	}
	giveBack := func(ctx context.Context) error {
		return errors.Join(maintenance.GiveBack(ctx, d), search.UpdateAll(ctx, d))
	}
	if err := a.withProgress(ctx, "", giveBack); err != nil {
		return err
	}
	return a.answerLine(deleteAnswer{d.Path(), store, t.id, t.owner}, "deleted the %s %s\n", n.entity, t.id)
}
