package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"selvedge/db"
)

type backupAnswer struct {
	Path   string `json:"path"`   // the file that was copied, absolute
	Backup string `json:"backup"` // the copy, absolute
	Bytes  int64  `json:"bytes"`  // size of the copy
}

var _ = register("Care:", 20, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the file, in use or not, to FILE",
		Long: `backup copies the file as it is at one moment to FILE, which must not exist yet. The file stays in
use meanwhile. The copy is compact and readable by its user alone. It is on the disk and was checked before
it gets its name.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.backup(c.Context(), args[0]) },
	}, backupAnswer{})
})

func (a *app) backup(ctx context.Context, dest string) error {
	if dest == "" {
		return usage("the name of the backup is empty")
	}
	dest, err := absolute(dest)
	if err != nil {
		return err
	}
	answer := backupAnswer{Backup: dest}
	err = a.with(ctx, toLook, func(d *db.DB) error {
		answer.Path = d.Path()
		return a.withProgress(ctx, "", func(ctx context.Context) error { return d.Backup(ctx, dest) })
	})
	if err != nil {
		return err
	}
	info, err := os.Stat(dest)
	if err != nil {
		return fmt.Errorf("look at the backup: %w", err)
	}
	answer.Bytes = info.Size()
	return a.answerLine(answer, "copied %s to %s (%s)\n", answer.Path, dest, size(answer.Bytes))
}
