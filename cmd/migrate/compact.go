package main

import (
	"context"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge/db"
)

type compactAnswer struct {
	Path   string `json:"path"`   // the file, absolute
	Before int64  `json:"before"` // bytes of the file and its -wal before
	After  int64  `json:"after"`  // the same now
}

func init() { register(groupCare, (*app).compactCommand) }

func (a *app) compactCommand() *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "compact",
		Short: "Give all free room of the file back to the disk",
		Long: `compact puts a compact copy, which is checked before, into the place of the file: what deletions left free goes back to the disk,
inside pages too. It needs as much room on the disk as the copy takes. A crash leaves the old file or the new one, whole. No other program
may have the file open: compact waits until they have closed it, and says who has it open; --wait bounds that. gc gives back what
it removes, beside programs that have the file open, and most files need no more.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.compact(c.Context()) },
	}, compactAnswer{})
}

func (a *app) compact(ctx context.Context) error {
	var done db.Compacted
	showing, shown := a.showing(ctx)
	err := a.patiently(ctx, db.Options{MustExist: true}, func(o db.Options) (err error) {
		done, err = db.Compact(showing, a.path, o)
		return err
	})
	shown()
	if err != nil {
		return a.openFault(err)
	}
	answer := compactAnswer(done)
	return a.say(answer, "%s takes %s; before it was %s\n", printable(answer.Path),
		humanize.IBytes(uint64(answer.After)), humanize.IBytes(uint64(answer.Before)))
}
