package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type downAnswer struct {
	Path   string `json:"path"`    // the file, absolute
	From   int64  `json:"from"`    // its schema version before
	To     int64  `json:"to"`      // its schema version afterwards, or with --dry-run what it would be
	DryRun bool   `json:"dry_run"` // nothing was done
	// the schema versions that were taken away, or would be, highest first
	Undone []migrationItem `json:"undone"`
	Backup string          `json:"backup"` // the copy that was made before; empty where nothing was done
	Tables []tableItem     `json:"tables"` // the tables that have more or fewer rows now
}

type downFlags struct {
	to                   int64
	dryRun, showSQL, yes bool
}

var _ = register("Schema:", 20, func(a *app) *cobra.Command {
	var f downFlags
	c := &cobra.Command{
		Use:   "down --to N [--dry-run] [--show-sql] [--yes]",
		Short: "Take the file back to an older schema",
		Long: `down takes the file back to schema version N, for a program that knows no more, and removes what
the versions in between have brought: tables, columns and what is in them. The file is copied to
FILE.schema-M.bak before, M being its version; migrate restore brings it back. All of it takes effect or
nothing. No other program may have the file open: down waits until they have closed it, and says who has it
open.

It asks first on a terminal, and needs --yes elsewhere.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.to < 1 || f.to > maintenance.SchemaVersion() {
				return usage("--to must be there, and one of the schema versions 1 to %d", maintenance.SchemaVersion())
			}
			return a.down(c.Context(), f)
		},
	}
	c.Flags().Int64Var(&f.to, "to", 0, "schema version `N` to go back to")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
	c.Flags().BoolVar(&f.showSQL, "show-sql", false, "show the SQL that takes each version away")
	yesFlag(c, &f.yes)
	return a.answering(c, downAnswer{})
})

func (a *app) down(ctx context.Context, f downFlags) error {
	answer := downAnswer{DryRun: f.dryRun, Tables: []tableItem{}}
	err := a.with(ctx, toLook, func(d *db.DB) error {
		s, err := d.Schema(ctx)
		answer.Path, answer.From, answer.To = d.Path(), s.Version, min(s.Version, f.to)
		return err
	})
	if err != nil {
		return err
	}
	if answer.Undone, err = a.steps(answer.From, answer.To, f.showSQL); err != nil {
		return err
	}
	slices.Reverse(answer.Undone)
	if !f.dryRun && answer.To < answer.From {
		if err := a.confirm(f.yes, "take the file back from schema %d to %d, and remove what came with what "+
			"lies between", answer.From, answer.To); err != nil {
			return err
		}
		done, err := exclusively(ctx, a, db.Options{SchemaVersion: f.to}, maintenance.Migrate)
		if err != nil {
			return a.openFault(err)
		}
		answer.Backup, answer.Tables = done.Backup, tableItems(done.Tables)
	}
	return a.answer(answer, func() {
		a.printSteps(answer.Undone)
		what := "took"
		if answer.DryRun {
			what = "would take"
		}
		if answer.To == answer.From {
			a.print("%s has schema %d; nothing to do\n", answer.Path, answer.From)
			return
		}
		a.print("%s %s back from schema %d to %d\n", what, answer.Path, answer.From, answer.To)
		a.printMoved(answer.Backup, answer.Tables, false)
	})
}
