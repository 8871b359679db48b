package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/search"
)

// hit is an item of search --json.
type hit struct {
	search.Hit
	Snippet string `json:"snippet"` // the words around what was found
}

var _ = register("Look:", 15, func(a *app) *cobra.Command {
	var o search.Options
	var q search.Query
	c := &cobra.Command{
		Use: "search WORDS... [--agent ID] [--store WORD] [--since TIME] [--best] [--output] [--without ID]... " +
			"[--limit N] [--after CURSOR] [--all]",
		Short: "Find words in what was recorded",
		Long: `search finds texts that have all of the words: in intents, prompts, summaries and errors of runs, in
what live runs said, in checkpoints and in the transcripts of workers. A word is found in any case, with or
without accents. Words in quotes are a phrase, WORD* is the beginning of a word, and -WORD leaves out what
has the word. Put -- before the words, or -WORD is taken for a flag. What was indexed last comes first.

The index is a file beside the database, FILE-search-1, or on a server a schema beside its own,
SCHEMA_search_1. It is brought up to date first; the first time takes longer. It may be deleted at any time.`,
		Args: cobra.MinimumNArgs(1),
	}
	a.textFlag(c, &q.Owner, "agent", "only what the agent, session or runtime `ID` recorded")
	wordFlag(a, c, &q.Store, "store", "only this `STORE`: ", []string{"runs", "live", "checkpoints", "workers"})
	a.sinceFlag(c, &q.Since, "only what was recorded")
	c.Flags().BoolVar(&q.Best, "best", false, "what fits best first")
	c.Flags().BoolVar(&o.Output, "output", false, "in the output of tools too, which has an index of its own")
	c.Flags().StringArrayVar(&o.Without, "without", nil,
		"leave the agent, session or runtime `ID` out of the index from now on; empty: nobody")
	return list(a, c, listing[hit]{
		noun: &runNoun,
		page: func(ctx context.Context, d *db.DB, scope string, at db.At) (page db.Page[hit], err error) {
			// A phrase that the shell took the quotes of.
			words := each(a.given, func(word string) string {
				if strings.ContainsAny(word, " \t\n") && !strings.Contains(word, `"`) && len(a.given) > 1 {
					return `"` + word + `"`
				}
				return word
			})
			q.Words, q.Scope = strings.Join(words, " "), scope
			if len(o.Without) == 1 && o.Without[0] == "" {
				o.Without = []string{}
			}
			x, err := search.Open(ctx, d, o)
			if err != nil {
				return page, err
			}
			defer func() { err = errors.Join(err, x.Close()) }()
			if at.After == "" {
				if err := x.Update(ctx); err != nil {
					return page, err
				}
			}
			found, err := x.Search(ctx, q, at)
			page.Next = found.Next
			page.Items = each(found.Items, func(h search.Hit) hit { return hit{h, inLine(unmarked, h.Snippet)} })
			return page, err
		},
		grid: grid{
			header: []string{"run", "agent", "store", "place", "kind", "at", "text"},
			right:  []int{3}, times: []int{5}, ids: []int{0, 1}, least: []int{3, 4, 2, 5, 1},
		},
		row: func(h hit) []string {
			return []string{
				h.Name, h.Owner, h.Store, strconv.FormatInt(h.Place, 10), h.Kind, instant(h.At),
				inLine(marked, h.Hit.Snippet),
			}
		},
	})
})

var (
	unmarked = strings.NewReplacer(search.Mark, "", search.Unmark, "")
	marked   = strings.NewReplacer(search.Mark, "[", search.Unmark, "]")
)

func inLine(marks *strings.Replacer, snippet string) string {
	return strings.Join(strings.Fields(marks.Replace(snippet)), " ")
}
