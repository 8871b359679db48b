package main

import (
	"context"
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
	return list(a, c, &listFlags{}, listing[legacy.Entry]{
		page: func(ctx context.Context, d *db.DB, at db.At) (db.Page[legacy.Entry], error) {
			return legacy.Journal(ctx, d, a.scope, at)
		},
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
	return a.answer(importAnswer{Entry: e, Conflicts: append([]legacy.Conflict{}, conflicts...)}, func() {
		facts := []fact{
			{"id", strconv.FormatInt(e.ID, 10)},
			{"scope", e.Scope},
			{"kind", e.Kind},
			{"folder", e.Source},
			{"outcome", string(e.Outcome)},
			{"began", a.when(e.BeganAt)},
		}
		if e.EndedAt != nil {
			facts = append(facts, fact{"ended", a.when(*e.EndedAt)})
		}
		facts = append(facts, fact{"by", fmt.Sprintf("%s, process %d, %s", e.User, e.PID, e.Program)},
			fact{"files", fmt.Sprint(e.Files.Found)})
		if e.Error != "" {
			facts = append(facts, fact{"error", e.Error})
		}
		for _, c := range conflicts {
			facts = append(facts, fact{"conflict", conflictLine(c)})
		}
		a.printFacts(facts...)
		if len(e.Counts) > 0 {
			a.print("\n")
			a.printCounts(e.Counts)
		}
	})
}
