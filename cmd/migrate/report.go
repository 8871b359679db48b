package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/query"
	"selvedge/web"
)

var _ = register("Look:", 13, func(a *app) *cobra.Command {
	var asMarkdown, secrets bool
	c := &cobra.Command{
		Use:   "report RUN [--markdown] [--secrets]",
		Short: "Write a run as one page to keep or to send",
		Long: `report writes a run to stdout: its timeline, its cost and what its live run said, as a page of HTML
that needs nothing else, with --markdown as text, or with --json as its records. What looks like a secret is
left out, and the report says how many texts were: keys and tokens of known forms, and the values of members
such as password. Look at it before you send it: a secret may look like any other word.`,
	}
	c.Flags().BoolVar(&asMarkdown, "markdown", false, "as Markdown")
	c.Flags().BoolVar(&secrets, "secrets", false, "leave nothing out")
	return a.answering(a.one(runNoun, toRead, c, func(ctx context.Context, d *db.DB, t thing) error {
		format := web.HTML
		switch {
		case a.json && asMarkdown:
			return usage("choose one of --markdown and --json")
		case a.json:
			format = web.JSON
		case asMarkdown:
			format = web.Markdown
		}
		var text strings.Builder
		err := web.Report(ctx, &text, query.On(d, a.scope), runRef(t), format, web.ReportOptions{Secrets: secrets})
		a.write(text.String())
		return err
	}), web.JSONReport{})
})
