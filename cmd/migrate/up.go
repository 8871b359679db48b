package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type upAnswer struct {
	Path string `json:"path"` // the file, absolute
	From int64  `json:"from"` // its schema version before; 0 for a new file
	// its schema version afterwards, or with --dry-run and --rehearse what it would be
	To      int64 `json:"to"`
	Created bool  `json:"created"` // the file was not there before, or empty
	DryRun  bool  `json:"dry_run"` // nothing was done
	// all was done to a copy, which was checked and removed, and nothing to the file
	Rehearsed bool `json:"rehearsed"`
	// the schema versions that were brought in, or would be, lowest first
	Applied []migrationItem `json:"applied"`
	// the copy that was made before rows were removed or rewritten, or with --rehearse would be; empty
	// where none was. With --dry-run it is not known
	Backup string                      `json:"backup"`
	Tables []maintenance.TableMigrated `json:"tables"` // the tables from before that have more or fewer rows now
}

type migrationItem struct {
	Version int64  `json:"version"`       // schema version
	Name    string `json:"name"`          // of the migration's file
	SQL     string `json:"sql,omitempty"` // its statements; only with --show-sql
}

// stepFlags are the flags of up and down.
type stepFlags struct {
	to                             int64
	dryRun, showSQL, rehearse, yes bool
}

var _ = register("Schema:", 10, func(a *app) *cobra.Command {
	var f stepFlags
	c := &cobra.Command{
		Use:   "up [--to N] [--dry-run] [--show-sql] [--rehearse]",
		Short: "Create the file, or bring it to this program's schema",
		Long: `up creates the file where it is missing and migrates it to this program's schema, or to version N.
A file that has that version, or a later one, stays as it is. All of it takes effect or nothing: when up
fails the file is as it was. Tables, views, triggers and indexes that users made stay; where the new schema
does not fit them up names them and does nothing.

Before rows are removed or rewritten the file is copied to FILE.schema-N.bak, N being its version; one such
copy is kept. --rehearse does everything to a copy beside the file, checks it and removes it.

Programs that have the file open go on working, unless a version shuts older programs out: up waits until
they have closed it, and says who has it open.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("to") && (f.to < 1 || f.to > maintenance.SchemaVersion()) {
				return usage("--to %d: this program knows the schema versions 1 to %d", f.to, maintenance.SchemaVersion())
			}
			if f.dryRun && f.rehearse {
				return usage("--dry-run does nothing, so there is nothing to rehearse")
			}
			f.to = cmp.Or(f.to, maintenance.SchemaVersion())
			return a.up(c.Context(), f)
		},
	}
	c.Flags().Int64Var(&f.to, "to", 0, "schema version `N` to stop at (default: this program's)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
	c.Flags().BoolVar(&f.showSQL, "show-sql", false, "show the SQL of each version")
	c.Flags().BoolVar(&f.rehearse, "rehearse", false, "do everything to a copy, check it and remove it")
	return a.answering(c, upAnswer{})
})

func (a *app) up(ctx context.Context, f stepFlags) error {
	path, have, err := a.schemaOf(ctx)
	if err != nil {
		return err
	}
	answer := upAnswer{
		Path: path, From: have, To: max(have, f.to), Created: have == 0, DryRun: f.dryRun, Rehearsed: f.rehearse,
	}
	if answer.Applied, err = a.steps(have, answer.To, f.showSQL); err != nil {
		return err
	}
	var done maintenance.Migrated
	o := db.Options{SchemaVersion: f.to}
	switch {
	case f.dryRun, f.rehearse && have == 0 && !a.onServer(): // there is nothing to rehearse on
	case f.rehearse:
		done, err = exclusively(ctx, a, o, maintenance.Rehearse)
	default:
		done, err = exclusively(ctx, a, o, maintenance.Migrate)
	}
	if err != nil {
		return a.openFault(err)
	}
	answer.Backup, answer.Tables = done.Backup, orEmpty(done.Tables)
	return a.answer(answer, func() { a.printUp(answer) })
}

// steps returns the versions between the schema of the file and another, lowest first.
func (a *app) steps(have, to int64, showSQL bool) ([]migrationItem, error) {
	items := []migrationItem{}
	known, err := maintenance.Migrations(a.path, have)
	for _, m := range known {
		if m.Applied != (m.Version > to) {
			continue
		}
		item := migrationItem{Version: m.Version, Name: m.Name}
		switch {
		case showSQL && m.Applied:
			item.SQL = m.DownSQL
		case showSQL:
			item.SQL = m.SQL
		}
		items = append(items, item)
	}
	return items, err
}

// schemaOf reads the schema version without changing the file. A missing or empty file has schema
// 0.
func (a *app) schemaOf(ctx context.Context) (path string, schema int64, err error) {
	path, err = a.place()
	if err != nil {
		return "", 0, err
	}
	if !a.onServer() {
		if blank, err := missingOrEmpty(path); blank || err != nil {
			return path, 0, err
		}
	}
	err = a.with(ctx, toLook, func(d *db.DB) error {
		s, err := d.Schema(ctx)
		path, schema = d.Path(), s.Version
		return err
	})
	if a.nothingThere(err) { // or a file was removed meanwhile
		return path, 0, nil
	}
	return path, schema, err
}

func (a *app) printUp(answer upAnswer) {
	a.printSteps(answer.Applied)
	what := map[bool]map[bool]string{
		false: {false: "migrated", true: "created"},
		true:  {false: "would migrate", true: "would create"},
	}[answer.DryRun || answer.Rehearsed][answer.Created]
	switch {
	case len(answer.Applied) == 0:
		a.print("%s has schema %d; nothing to do\n", answer.Path, answer.To)
	case answer.Created:
		a.print("%s %s with schema %d\n", what, answer.Path, answer.To)
	default:
		a.print("%s %s from schema %d to %d\n", what, answer.Path, answer.From, answer.To)
		a.printMoved(answer.Backup, answer.Tables, answer.Rehearsed)
	}
}

func (a *app) printSteps(items []migrationItem) {
	for _, m := range items {
		if m.SQL != "" {
			a.write("-- " + m.Name + "\n" + m.SQL + "\n\n")
		}
	}
}

// printMoved prints what became of rows, and where the old ones still are.
func (a *app) printMoved(backup string, tables []maintenance.TableMigrated, rehearsed bool) {
	for _, t := range tables {
		after := fmt.Sprint(t.After)
		if t.After < 0 {
			after = "gone"
		}
		a.print("rows of %s: %d, then %s\n", t.Name, t.Before, after)
	}
	is := "is"
	if rehearsed {
		is = "would be kept"
		a.print("the rehearsal on a copy went well\n")
	}
	if backup != "" {
		a.print("a copy from before %s in %s\n", is, backup)
	}
}

type downAnswer struct {
	Path   string `json:"path"`    // the file, absolute
	From   int64  `json:"from"`    // its schema version before
	To     int64  `json:"to"`      // its schema version afterwards, or with --dry-run what it would be
	DryRun bool   `json:"dry_run"` // nothing was done
	// the schema versions that were taken away, or would be, highest first
	Undone []migrationItem `json:"undone"`
	// the copy that was made before; empty where nothing was done
	Backup string                      `json:"backup"`
	Tables []maintenance.TableMigrated `json:"tables"` // the tables that have more or fewer rows now
}

var _ = register("Schema:", 20, func(a *app) *cobra.Command {
	var f stepFlags
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

func (a *app) down(ctx context.Context, f stepFlags) error {
	answer := downAnswer{DryRun: f.dryRun, Tables: []maintenance.TableMigrated{}}
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
		answer.Backup, answer.Tables = done.Backup, orEmpty(done.Tables)
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
