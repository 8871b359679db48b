package main

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type redactAnswer struct {
	Path   string                      `json:"path"`   // the file, absolute
	Erased bool                        `json:"erased"` // it was done; false: this is what would be touched
	Tables []maintenance.RedactedTable `json:"tables"` // in which there is something, by name
	// copies of the file that lie beside it and still hold it
	Backups []string `json:"backups"`
}

var _ = register("Care:", 140, func(a *app) *cobra.Command {
	var pattern string
	var yes, dryRun bool
	var r maintenance.Redaction
	c := &cobra.Command{
		Use:   "redact [--pattern REGEXP] [--run ID] [--agent ID] [--dry-run] [--yes]",
		Short: "Erase a secret, or what was said in a run, everywhere in the file",
		Long: `redact shows what it would touch, asks, and then erases it: in columns, raw records, documents and
the quarantine, in free pages and in the -wal. [redacted], or stars, over as many bytes, replace it;
checksums and exports stay sound.

--pattern is a regular expression (RE2), looked for in every text, and in the strings and numbers of JSON
without their escapes. It goes over all scopes; with --run or --agent only over what belongs to that run or
agent in --scope: traces, live runs, checkpoints, quarantine. --run or --agent alone erases all that people
and models wrote there; ids, times and statuses stay.

The whole file is written again at the end, which takes as much room once more, and needs reads that take
long to end. Ids and paths in which the pattern is found stay: delete what they name. Backups, exported
trees and the trees that were imported are not touched, nor are the WAL of a server, its archive and its
logs.`,
		PreRunE: func(c *cobra.Command, _ []string) (err error) {
			for _, name := range []string{"pattern", "run", "agent"} { // from an unset variable in a script
				if given := given(c, name); given != nil && *given == "" {
					return usage("--%s is empty", name)
				}
			}
			if pattern != "" {
				if r.Pattern, err = regexp.Compile(pattern); err != nil {
					return usage("--pattern: %v", err)
				}
			}
			r.Scope = a.scope
			return nil
		},
		RunE: a.on(toWrite, func(ctx context.Context, d *db.DB, _ []string) error {
			return a.redact(ctx, d, r, dryRun, yes)
		}),
	}
	c.Flags().StringVar(&pattern, "pattern", "", "what to erase, a regular `REGEXP`")
	c.Flags().StringVar(&r.Run, "run", "", "only in what belongs to the run `ID`")
	c.Flags().StringVar(&r.Agent, "agent", "", "only in what belongs to the agent `ID`")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be touched")
	yesFlag(c, &yes)
	return a.answering(c, redactAnswer{})
})

func (a *app) redact(ctx context.Context, d *db.DB, r maintenance.Redaction, dryRun, yes bool) error {
	var done maintenance.Redacted
	err := a.withProgress(ctx, "", func(ctx context.Context) (err error) {
		done, err = maintenance.PlanRedaction(ctx, d, r)
		return err
	})
	if err != nil {
		return err
	}
	if !dryRun && done.Rows() > 0 {
		if !a.json {
			if a.printPlan(d.Path(), done); a.failed != nil {
				return a.failed
			}
		}
		places, rows := placesOf(done), count(done.Rows(), "row")
		if err := a.confirm(yes, "erase %s in %s, for good", places, rows); err != nil {
			return err
		}
	}
	if !dryRun { // even with nothing to erase: free pages may still hold deleted content
		err := a.withProgress(ctx, "", func(ctx context.Context) (err error) {
			done, err = maintenance.Redact(ctx, d, r)
			return err
		})
		const again = "run it again: what was done stays done"
		switch {
		case errors.Is(err, errInterrupted):
			return withHint(err, again)
		case errors.Is(err, db.ErrBusy):
			return withHint(err, "end the program that reads, and "+again)
		case errors.Is(err, db.ErrFull):
			return withHint(err, "make room for the file once more where it lies and in SQLite's temporary "+
				"folder, or name another one in SQLITE_TMPDIR, and "+again)
		case err != nil:
			return err
		}
	}
	return a.answer(redactAnswer{
		Path: d.Path(), Erased: !dryRun, Tables: orEmpty(done.Tables),
		Backups: orEmpty(done.Backups),
	}, func() {
		if dryRun {
			a.printPlan(d.Path(), done)
			return
		}
		if a.onServer() {
			a.note("note: the server's WAL, its archive and its backups still hold it for as long as they are kept")
		}
		for _, backup := range done.Backups {
			a.note("note: a copy from before still holds it: %s", backup)
		}
		if done.Kept() > 0 {
			a.note("note: it stays in the ids or paths of %s", count(done.Kept(), "row"))
		}
		a.print("erased %s in %s of %s\n", placesOf(done), count(done.Rows(), "row"), d.Path())
	})
}

func placesOf(r maintenance.Redacted) string {
	var n int64
	for _, t := range r.Tables {
		n += t.Places
	}
	return count(n, "place")
}

// printPlan shows what a redaction would touch.
func (a *app) printPlan(path string, r maintenance.Redacted) {
	if len(r.Tables) == 0 {
		a.print("nothing of it is in %s\n", path)
		return
	}
	g := &grid{header: []string{"table", "rows", "places", "kept"}, right: []int{1, 2, 3}}
	for _, t := range r.Tables {
		g.add(t.Table, comma(t.Rows), comma(t.Places), comma(t.Kept))
	}
	a.printGrid(g)
	if len(r.Backups) > 0 {
		a.print("not touched: %s\n", strings.Join(r.Backups, ", "))
	}
}
