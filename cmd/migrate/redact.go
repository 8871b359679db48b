package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type redactAnswer struct {
	Path    string        `json:"path"`    // the file, absolute
	Erased  bool          `json:"erased"`  // it was done; false: this is what would be touched
	Tables  []redactTable `json:"tables"`  // in which there is something, by name
	Backups []string      `json:"backups"` // copies of the file that lie beside it and still hold it
}

type redactTable struct {
	Table  string `json:"table"`  // its name
	Rows   int64  `json:"rows"`   // that are touched
	Places int64  `json:"places"` // in them
	Kept   int64  `json:"kept"`   // rows in whose ids or paths the pattern is found, which stay as they are
}

func init() { register(groupCare, (*app).redactCommand) }

func (a *app) redactCommand() *cobra.Command {
	var pattern, run, agent string
	var yes, dryRun bool
	c := &cobra.Command{
		Use:   "redact [--pattern REGEXP] [--run ID] [--agent ID] [--dry-run] [--yes]",
		Short: "Erase a secret, or what was said in a run, everywhere in the file",
		Long: `redact shows what it would touch, asks, and then erases it: in columns, raw records, documents and the quarantine, in free pages
and in the -wal. Where it was stands [redacted], or stars, over as many bytes; checksums and exports stay sound.

--pattern is a regular expression (RE2), looked for in every text, and in the strings and numbers of JSON without their escapes.
It goes over all scopes; with --run or --agent only over what belongs to that run or agent in --scope: traces, live runs,
checkpoints, quarantine. --run or --agent alone erases all that people and models wrote there; ids, times and statuses stay.

The whole file is written anew at the end, which takes as much room once more, and needs reads that take long to end. Ids and paths in
which the pattern is found stay: delete what they name. Backups, exported trees and the trees that were imported are not touched, and
of a server its WAL, the archive of that, and its logs.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"pattern", "run", "agent"} { // of a variable that was not set, in a script
				if flag := c.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
					return usage("--%s is empty", name)
				}
			}
			r := maintenance.Redaction{Scope: a.scope, Run: run, Agent: agent}
			if pattern != "" {
				var err error
				if r.Pattern, err = regexp.Compile(pattern); err != nil {
					return usage("--pattern: %v", err)
				}
			}
			return a.redact(c.Context(), r, dryRun, yes)
		},
	}
	c.Flags().StringVar(&pattern, "pattern", "", "what to erase, a regular `REGEXP`")
	c.Flags().StringVar(&run, "run", "", "only in what belongs to the run `ID`")
	c.Flags().StringVar(&agent, "agent", "", "only in what belongs to the agent `ID`")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be touched")
	c.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return a.answering(c, redactAnswer{})
}

func (a *app) redact(ctx context.Context, r maintenance.Redaction, dryRun, yes bool) error {
	return a.with(ctx, toWrite, func(d *db.DB) error {
		showing, shown := a.showing(ctx)
		plan, err := maintenance.PlanRedaction(showing, d, r)
		shown()
		if err != nil {
			return err
		}
		done := plan
		if !dryRun && plan.Rows() > 0 {
			if !a.json {
				if err := a.printRedacted(d.Path(), plan, false); err != nil {
					return err
				}
			}
			if err := a.confirm(yes, "erase %s in %s, for good", placesOf(plan),
				count(plan.Rows(), "row")); err != nil {
				return err
			}
		}
		if !dryRun { // with nothing to erase, too: free pages may still hold what was deleted
			showing, shown := a.showing(ctx)
			done, err = maintenance.Redact(showing, d, r)
			shown()
			if err != nil {
				return redactFault(err)
			}
		}
		if a.json {
			answer := redactAnswer{
				Path: d.Path(), Erased: !dryRun, Tables: []redactTable{},
				Backups: append([]string{}, done.Backups...),
			}
			for _, t := range done.Tables {
				answer.Tables = append(answer.Tables, redactTable(t))
			}
			return a.printJSON(answer)
		}
		if dryRun {
			return a.printRedacted(d.Path(), plan, false)
		}
		return a.printRedacted(d.Path(), done, true)
	})
}

func redactFault(err error) error {
	if errors.Is(err, db.ErrBusy) {
		return withHint(err, "end the program that reads, and run it again: what was done stays done")
	}
	return err
}

func placesOf(r maintenance.Redacted) string {
	var n int64
	for _, t := range r.Tables {
		n += t.Places
	}
	return count(n, "place")
}

func (a *app) printRedacted(path string, r maintenance.Redacted, erased bool) error {
	if erased {
		if a.onServer() {
			a.note("note: the server's WAL, its archive and its backups still hold it for as long as they are kept")
		}
		for _, backup := range r.Backups {
			a.note("note: a copy from before still holds it: %s", printable(backup))
		}
		if r.Kept() > 0 {
			a.note("note: it stays in the ids or paths of %s", count(r.Kept(), "row"))
		}
		return a.print("erased %s in %s of %s\n", placesOf(r), count(r.Rows(), "row"), printable(path))
	}
	if len(r.Tables) == 0 {
		return a.print("nothing of it is in %s\n", printable(path))
	}
	g := &grid{header: []string{"table", "rows", "places", "kept"}, right: []int{1, 2, 3}}
	for _, t := range r.Tables {
		g.add(t.Table, humanize.Comma(t.Rows), humanize.Comma(t.Places), humanize.Comma(t.Kept))
	}
	if err := a.printGrid(g); err != nil {
		return err
	}
	if len(r.Backups) > 0 {
		return a.print("%s\n", printable(fmt.Sprintf("not touched: %s", strings.Join(r.Backups, ", "))))
	}
	return nil
}
