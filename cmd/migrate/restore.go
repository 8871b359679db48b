package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"selvedge/db"
)

type restoreAnswer struct {
	Path   string `json:"path"`   // the file, absolute
	Backup string `json:"backup"` // the backup that it is a copy of, absolute
	Schema int64  `json:"schema"` // its schema version: that of the backup
	Kept   string `json:"kept"`   // where the file is now that was there before; empty where none was
}

func init() { register(groupCare, (*app).restoreCommand) }

func (a *app) restoreCommand() *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "restore FILE",
		Short: "Put a copy of the backup FILE into the place of the file",
		Long: `restore copies the backup FILE, checks the copy and puts it into the place of the file of --db, or makes that. What was there
is kept as DB.before-restore, or where an earlier restore kept something, as DB.before-restore-2 and so on. No other program may have the file open: restore waits until they have
closed it, and says who has it open. A crash leaves the old file or the new one, whole. A -wal that belongs to another file goes aside as
DB.before-restore-wal.

The schema is that of the backup; up brings it to this program's. Cursors from before have expired.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.restore(c.Context(), args[0]) },
	}, restoreAnswer{})
}

func (a *app) restore(ctx context.Context, backup string) error {
	backup, err := absolute(backup)
	if err != nil {
		return err
	}
	var done db.Restored
	showing, shown := a.showing(ctx)
	err = a.patiently(ctx, db.Options{},
		func(o db.Options) (err error) { done, err = db.Restore(showing, backup, a.path, o); return err })
	shown()
	if errors.Is(err, db.ErrNotFound) {
		return withHint(err, "FILE is a backup: check its path")
	}
	if err != nil {
		return err
	}
	answer := restoreAnswer{Path: done.Path, Backup: backup, Schema: done.Schema, Kept: done.Kept}
	if a.json {
		return a.printJSON(answer)
	}
	if err := a.print("restored %s from %s, with schema %d\n", printable(answer.Path), printable(backup),
		answer.Schema); err != nil {
		return err
	}
	if answer.Kept != "" {
		if err := a.print("what was there is in %s\n", printable(answer.Kept)); err != nil {
			return err
		}
	}
	if answer.Schema < db.SchemaVersion() {
		a.note("its schema is older than this program's; bring it up with: migrate --db %s up", shellWord(a.path))
	}
	return nil
}
