package main

import (
	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

var _ = register("Care:", 100, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "compact",
		Short: "Give all free room of the file back to the disk",
		Long: `compact replaces the file with a compact, checked copy. All room that deletions left free goes back
to the disk, inside pages too. The disk needs room for the copy. After a crash the old file or the new one
is there, whole. No other program may have the file open: compact waits until they have closed it, and says
who has it open; --wait bounds that. gc gives back what it removes while programs have the file open, and
most files need no more.`,
		RunE: func(c *cobra.Command, _ []string) error {
			done, err := exclusively(c.Context(), a, db.Options{MustExist: true}, maintenance.Compact)
			if err != nil {
				return a.openFault(err)
			}
			return a.answerLine(done, "%s takes %s; before it was %s\n", done.Path, size(done.After),
				size(done.Before))
		},
	}, maintenance.Compacted{})
})
