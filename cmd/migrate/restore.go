package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type restoreAnswer struct {
	Path   string `json:"path"`   // the file, absolute
	Backup string `json:"backup"` // the backup that it is a copy of, absolute
	Schema int64  `json:"schema"` // its schema version: that of the backup
	Kept   string `json:"kept"`   // where the file is now that was there before; empty where none was
}

var _ = register("Care:", 30, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "restore FILE",
		Short: "Put a copy of the backup FILE into the place of the file",
		Long: `restore copies the backup FILE, checks the copy and puts it into the place of the file of --db, or
makes that. What was there is kept as DB.before-restore, or, if an earlier restore kept something, as
DB.before-restore-2 and so on. No other program may have the file open: restore waits until they have closed
it, and says who has it open. After a crash the old file or the new one is there, whole. A -wal that belongs
to another file goes aside as DB.before-restore-wal.

The schema is that of the backup; up brings it to this program's. Cursors from before have expired.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.restore(c.Context(), args[0]) },
	}, restoreAnswer{})
})

func (a *app) restore(ctx context.Context, backup string) error {
	backup, err := absolute(backup)
	if err != nil {
		return err
	}
	done, err := exclusively(ctx, a, db.Options{},
		func(ctx context.Context, path string, o db.Options) (maintenance.Restored, error) {
			return maintenance.Restore(ctx, backup, path, o)
		})
	if errors.Is(err, db.ErrNotFound) {
		return withHint(err, "FILE is a backup: check its path")
	}
	if err != nil {
		return err
	}
	return a.answer(restoreAnswer{done.Path, backup, done.Schema, done.Kept}, func() {
		a.print("restored %s from %s, with schema %d\n", done.Path, backup, done.Schema)
		if done.Kept != "" {
			a.print("what was there is in %s\n", done.Kept)
		}
		if done.Schema < maintenance.SchemaVersion() {
			a.note("its schema is older than this program's; bring it up with: migrate --db %s up", shellWord(a.path))
		}
	})
}
