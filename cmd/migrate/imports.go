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

var _ = register("Trees:", 40, func(a *app) *cobra.Command {
	return group("imports",
		"See which trees were imported, by whom, and what came of it; decide conflicts with the old program",
		a.importsListCommand(), a.importsShowCommand(), a.importsConflictsCommand(), a.importsResolveCommand())
})

// importAnswer is the shape of imports show --json.
type importAnswer struct {
	legacy.Entry
	// that this import was the first to find, decided ones included; at most 1,000
	Conflicts []legacy.Conflict `json:"conflicts"`
}

func (a *app) importsListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list [--limit N] [--after CURSOR] [--all]",
		Short: "List the imports into the scope, newest first",
	}
	return list(a, c, listing[legacy.Entry]{
		page: legacy.Journal,
		grid: grid{
			header: []string{"id", "kind", "folder", "outcome", "began", "files", "pid", "user"},
			right:  []int{0, 5, 6},
			times:  []int{4}, texts: []int{2, 7}, least: []int{6, 7},
		},
		row: func(e legacy.Entry) []string {
			return []string{
				strconv.FormatInt(e.ID, 10), e.Kind, e.Source, string(e.Outcome), instant(e.BeganAt),
				fmt.Sprint(e.Files.Found), strconv.Itoa(e.PID), e.User,
			}
		},
	})
}

func (a *app) importsShowCommand() *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "show ID",
		Short: "Show one import: who, when, from where, and what came of it",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil {
				return usage("%q is no number of an import", args[0])
			}
			return a.with(c.Context(), toRead, func(d *db.DB) error { return a.importsShow(c.Context(), d, id) })
		},
	}, importAnswer{})
}

func (a *app) importsShow(ctx context.Context, d *db.DB, id int64) error {
	e, err := legacy.JournalEntry(ctx, d, id)
	if err != nil {
		return err
	}
	conflicts, err := legacy.ConflictsOf(ctx, d, id)
	if err != nil {
		return err
	}
	return a.answer(importAnswer{Entry: e, Conflicts: orEmpty(conflicts)}, func() {
		facts := []string{
			"id", strconv.FormatInt(e.ID, 10), "scope", e.Scope, "kind", e.Kind, "folder", e.Source,
			"outcome", string(e.Outcome), "began", a.when(e.BeganAt),
		}
		if e.EndedAt != nil {
			facts = append(facts, "ended", a.when(*e.EndedAt))
		}
		facts = append(facts, "by", fmt.Sprintf("%s, process %d, %s", e.User, e.PID, e.Program),
			"files", fmt.Sprint(e.Files.Found))
		if e.Error != "" {
			facts = append(facts, "error", e.Error)
		}
		for _, c := range conflicts {
			facts = append(facts, "conflict", conflictLine(c))
		}
		a.printFacts(facts...)
		if len(e.Counts) > 0 {
			a.print("\n")
			a.printCounts(e.Counts)
		}
	})
}

func (a *app) importsConflictsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "conflicts [--limit N] [--after CURSOR] [--all]",
		Short: "List what both programs went on with and nobody has decided yet, oldest first",
	}
	return list(a, c, listing[legacy.Conflict]{
		page: legacy.Conflicts,
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
	a.checkFlags(c, func() error {
		if !c.Flags().Changed("take") {
			return usage("say whose version counts: --take old or --take ours")
		}
		return nil
	})
	wordFlag(a, c, &take, "take", "`WHOSE` version: ", takes)
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
		return a.answerLine(c, "%s: %s\n", c.EntityID, whose)
	})
	return a.answering(c, legacy.Conflict{})
}

// noteContested adds a note below an answer: what to do about a thing that both programs went on
// with.
func (a *app) noteContested() {
	a.noteBelow("note: the old program went on with what is contested, too; decide whose version counts: %s, "+
		"or ours", a.commandLine("imports", "resolve", "ID", "--take", "old"))
}
