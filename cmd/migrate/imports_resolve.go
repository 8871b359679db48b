package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
)

func (a *app) importsConflictsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "conflicts [--limit N] [--after CURSOR] [--all]",
		Short: "List what both programs went on with and nobody has decided yet, oldest first",
	}
	return list(a, c, &listFlags{}, listing[legacy.Conflict]{
		page: func(ctx context.Context, d *db.DB, at db.At) (db.Page[legacy.Conflict], error) {
			return legacy.Conflicts(ctx, d, a.scope, at)
		},
		grid: grid{
			header: []string{"id", "kind", "of", "file", "found", "what"},
			right:  []int{0},
			times:  []int{4}, ids: []int{2}, texts: []int{3, 5}, least: []int{0, 4, 3},
		},
		row: func(c legacy.Conflict) []string {
			return []string{strconv.FormatInt(c.ID, 10), c.Kind, c.EntityID, c.File, instant(c.FoundAt), c.Reason}
		},
	})
}

func conflictLine(c legacy.Conflict) string {
	line := fmt.Sprintf("%d: %s: %s: ", c.ID, c.File, c.Reason)
	if c.Decision == nil {
		return line + "not decided"
	}
	return line + fmt.Sprintf("%s taken by %s, process %d, %s", c.Decision.Take, c.Decision.User,
		c.Decision.PID, instant(c.Decision.At))
}

var takes = []legacy.Take{legacy.TakeOld, legacy.TakeOurs}

func (a *app) importsResolveCommand() *cobra.Command {
	var take string
	var o legacy.Options
	c := &cobra.Command{
		Use:   "resolve ID --take WHOSE [--follow-links]",
		Short: "Decide whose version counts of what both programs went on with",
		Long: `resolve ends a conflict: an agent or a checkpoint that was imported, that the old program has
changed, claimed, finished or removed since, and that was written to here, too. Until then every import and
verify names it (exit 3), it stays here as it is, and a checkpoint can't be claimed. ID is that of the agent
or of the paused run, or the conflict's number in imports conflicts.

--take old has it here as it is in the folder now; where it is gone there it goes here. --take ours leaves
it here as it is, and it can be claimed again. The decision stays in the journal: see imports show.`,
		Args: cobra.ExactArgs(1),
	}
	followLinksFlag(c, &o.FollowLinks)
	check := wordFlag(c, &take, "take", "`WHOSE` version: ", takes)
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if !c.Flags().Changed("take") {
			return usage("say whose version counts: --take old or --take ours")
		}
		return check()
	}
	c.RunE = a.on(toWrite, func(ctx context.Context, d *db.DB, args []string) error {
		o.Scope = a.scope
		c, err := legacy.Resolve(ctx, d, args[0], legacy.Take(take), o)
		if errors.Is(err, db.ErrInvalid) {
			return &fault{kind: kindUsage, hint: hintOf(err), err: err}
		}
		if err != nil {
			return err
		}
		whose := "ours stays"
		if take == string(legacy.TakeOld) {
			whose = "it is here as it is in " + c.Source
		}
		return a.say(c, "%s: %s\n", c.EntityID, whose)
	})
	return a.answering(c, legacy.Conflict{})
}

// noteContested says below an answer what to do about what both programs went on with.
func (a *app) noteContested() {
	a.noteBelow("note: the old program went on with what is contested, too; decide whose version counts: %s, "+
		"or ours", a.commandLine("imports", "resolve", "ID", "--take", "old"))
}
