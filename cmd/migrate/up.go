package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"selvedge/db"
)

type upAnswer struct {
	Path    string          `json:"path" doc:"the file, absolute"`
	From    int64           `json:"from" doc:"its schema version before; 0 for a new file"`
	To      int64           `json:"to" doc:"its schema version afterwards, or with --dry-run what it would be"`
	Created bool            `json:"created" doc:"the file was not there before, or empty"`
	DryRun  bool            `json:"dry_run" doc:"nothing was done"`
	Applied []migrationItem `json:"applied" doc:"the schema versions that were brought in, or would be, lowest first"`
}

type migrationItem struct {
	Version int64  `json:"version" doc:"schema version"`
	Name    string `json:"name" doc:"of the migration's file"`
	SQL     string `json:"sql,omitempty" doc:"its statements; only with --show-sql"`
}

type upFlags struct {
	to              int64
	dryRun, showSQL bool
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up [--to N] [--dry-run] [--show-sql]",
		Short: "Create the file, or bring it to this program's schema",
		Long: `up creates the file where it is missing and migrates it to this program's schema, or to version N. A file that is
there already, or beyond, stays as it is. Programs that have the file open go on working, unless a version shuts older
programs out: up waits until they have closed it, and says who has it open.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("to") && (f.to < 1 || f.to > db.SchemaVersion()) {
				return usage("--to %d: this program knows the schema versions 1 to %d", f.to, db.SchemaVersion())
			}
			if f.to == 0 {
				f.to = db.SchemaVersion()
			}
			return a.up(c.Context(), f)
		},
	}
	c.Flags().Int64Var(&f.to, "to", 0, "schema version `N` to stop at (default: this program's)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
	c.Flags().BoolVar(&f.showSQL, "show-sql", false, "show the SQL of each version")
	return c
}

func (a *app) up(ctx context.Context, f upFlags) error {
	path, have, err := a.schemaOf(ctx)
	if err != nil {
		return err
	}
	answer := upAnswer{Path: path, From: have, To: max(have, f.to), Created: have == 0, DryRun: f.dryRun, Applied: []migrationItem{}}
	migrations, err := db.Migrations(have)
	if err != nil {
		return err
	}
	for _, m := range migrations {
		if m.Applied || m.Version > f.to {
			continue
		}
		item := migrationItem{Version: m.Version, Name: m.Name}
		if f.showSQL {
			item.SQL = m.SQL
		}
		answer.Applied = append(answer.Applied, item)
	}
	if !f.dryRun {
		err := a.withOptions(ctx, db.Options{SchemaVersion: f.to}, func(d *db.DB) error {
			answer.Path = d.Path()
			return nil
		})
		if err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(answer)
	}
	return a.printUp(answer)
}

// schemaOf looks at the file without changing it. A file that is missing, or empty, has schema 0.
func (a *app) schemaOf(ctx context.Context) (path string, schema int64, err error) {
	path, err = absolute(a.path)
	if err != nil {
		return "", 0, err
	}
	if blank, err := missingOrEmpty(path); blank || err != nil {
		return path, 0, err
	}
	err = a.with(ctx, toLook, func(d *db.DB) error {
		s, err := d.Schema(ctx)
		path, schema = d.Path(), s.Version
		return err
	})
	if errors.Is(err, db.ErrNotFound) { // removed meanwhile
		return path, 0, nil
	}
	return path, schema, err
}

func (a *app) printUp(answer upAnswer) error {
	for _, m := range answer.Applied {
		if m.SQL != "" {
			if err := a.print("-- %s\n%s\n\n", m.Name, m.SQL); err != nil {
				return err
			}
		}
	}
	if len(answer.Applied) == 0 {
		return a.print("%s has schema %d; nothing to do\n", printable(answer.Path), answer.To)
	}
	what := map[bool]map[bool]string{
		false: {false: "migrated", true: "created"},
		true:  {false: "would migrate", true: "would create"},
	}[answer.DryRun][answer.Created]
	if answer.Created {
		return a.print("%s %s with schema %d\n", what, printable(answer.Path), answer.To)
	}
	return a.print("%s %s from schema %d to %d\n", what, printable(answer.Path), answer.From, answer.To)
}
