package main

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/query"
)

// pageFlags are the flags of every list.
type pageFlags struct {
	limit   int
	after   string
	page    int
	all     bool
	columns []string
}

func (f *pageFlags) add(c *cobra.Command, header ...string) {
	c.Flags().IntVar(&f.limit, "limit", 50, "at most `N` items")
	c.Flags().StringVar(&f.after, "after", "", "go on behind `CURSOR`, the next of the page before")
	c.Flags().IntVar(&f.page, "page", 1,
		"the page `N` of --limit items: items that come or go meanwhile move it")
	c.Flags().BoolVar(&f.all, "all", false, "all items, not a page")
	c.Flags().StringSliceVar(&f.columns, "columns", nil,
		"only these columns, by their `NAMES` with commas between, in that order")
	complete(c, "columns", func(_ *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective,
	) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		var list []string
		for _, name := range header {
			if !slices.Contains(strings.Split(before, ","), name) {
				list = append(list, before+name)
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

func (f *pageFlags) check(c *cobra.Command) error {
	switch {
	case f.all && c.Flags().Changed("limit"):
		return usage("choose one of --all and --limit")
	case f.all && c.Flags().Changed("page"):
		return usage("choose one of --all and --page")
	case f.page < 1:
		return usage("--page %d: the first page is 1", f.page)
	case len(f.columns) > 0 && c.Flags().Changed("json"):
		return usage("choose one of --columns and --json, which has all fields")
	case f.limit < 1:
		return usage("--limit %d: a page has at least one item", f.limit)
	}
	return nil
}

// checkFlags adds a check of a command's flags that runs before the file is opened.
func (a *app) checkFlags(c *cobra.Command, check func() error) {
	a.checks[c] = append(a.checks[c], check)
}

// textFlag adds a flag that leaves nil in a filter if it is not given.
func (a *app) textFlag(c *cobra.Command, to **string, name, usage string) {
	c.Flags().String(name, "", usage)
	a.checkFlags(c, func() error {
		*to = given(c, name)
		return nil
	})
}

// wordsFlag adds a repeatable flag whose values come from a list.
func wordsFlag[S ~string](a *app, c *cobra.Command, to *[]S, name, usage string, words []S) {
	values := c.Flags().StringArray(name, nil, usage+join(words))
	completeWords(c, name, words)
	a.checkFlags(c, func() error {
		for _, value := range *values {
			if err := oneOf(name, value, words); err != nil {
				return err
			}
			*to = append(*to, S(value))
		}
		return nil
	})
}

// wordFlag adds a flag that takes one of some words.
func wordFlag[S ~string](a *app, c *cobra.Command, to *string, name, usage string, words []S) {
	c.Flags().StringVar(to, name, *to, usage+join(words))
	completeWords(c, name, words)
	a.checkFlags(c, func() error {
		if !c.Flags().Changed(name) {
			return nil
		}
		return oneOf(name, *to, words)
	})
}

// sinceFlag adds --since; what is the beginning of its help.
func (a *app) sinceFlag(c *cobra.Command, to *time.Time, what string) {
	value := c.Flags().String("since", "", what+
		" at this `TIME` or later: 24h, 7d, 1w, yesterday, 2026-05-04 or 2026-05-04T13:30:00Z")
	a.checkFlags(c, func() (err error) {
		*to, err = parseSince(*value, time.Now())
		return err
	})
}

// list makes c a list command. c already has the flags of its filter.
func list[T any](a *app, c *cobra.Command, l listing[T]) *cobra.Command {
	var f pageFlags
	f.add(c, l.grid.header...)
	a.checks[c] = slices.Insert(a.checks[c], 0, func() error { return f.check(c) })
	c.RunE = a.on(toRead, func(ctx context.Context, d *db.DB, _ []string) error {
		return printList(ctx, a, d, f, l)
	})
	return a.answering(c, listOf[T]{})
}

// listBatch is how many items are read in one transaction.
const listBatch = 500

// A pageOf reads a page of a list in a scope.
type pageOf[T any] = func(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[T], error)

// everyItem iterates over the items of all pages.
func everyItem[T any](ctx context.Context, a *app, d *db.DB, page pageOf[T]) iter.Seq2[T, error] {
	return paging.All(func(at db.At) (db.Page[T], error) { return page(ctx, d, a.scope, at) })
}

// A listing is how a store's list is read and shown.
type listing[T any] struct {
	page pageOf[T]
	noun *noun // whose ids the first column has; nil: they are no ids of things
	grid grid
	row  func(item T) []string
}

// items reads page by page until there are enough items, and then sets next to the cursor of the
// next item.
func (l listing[T]) items(
	ctx context.Context, a *app, d *db.DB, f pageFlags, next *string,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		at := db.At{After: f.after}
		// skip is how many items to pass over, left how many to yield then.
		skip, left := (f.page-1)*f.limit, f.limit
		if f.all {
			left = math.MaxInt
		}
		for left > 0 {
			at.Limit = min(listBatch, cmp.Or(skip, left))
			page, err := l.page(ctx, d, a.scope, at)
			if err != nil {
				yield(*new(T), err)
				return
			}
			if skip > 0 {
				skip -= len(page.Items)
			} else {
				left -= len(page.Items)
				for _, item := range page.Items {
					if !yield(item, nil) {
						return
					}
				}
			}
			if at.After = page.Next; at.After == "" {
				return
			}
		}
		*next = at.After
	}
}

// printList writes a list. With --json it writes the items as they are read.
func printList[T any](ctx context.Context, a *app, d *db.DB, f pageFlags, l listing[T]) error {
	next := ""
	items := l.items(ctx, a, d, f, &next)
	if a.json {
		return stream(a, `{"items":`, items, func(item T) ([]byte, error) { return encodeJSON(item) },
			func() string {
				cursor, _ := encodeJSON(orNull(next)) // a string always has a JSON form
				return `,"next":` + string(cursor) + "}"
			})
	}
	for item, err := range items {
		if err != nil {
			return err
		}
		l.grid.add(l.row(item)...)
	}
	if l.noun != nil {
		find := l.noun.open(a, d).find
		l.grid.unique = func(prefix string) bool {
			found, err := find(ctx, prefix, nil, 2)
			return err != nil || len(found) < 2
		}
	}
	if len(f.columns) > 0 {
		if err := l.grid.pick(f.columns); err != nil {
			return err
		}
	}
	if len(l.grid.rows) == 0 {
		a.nothingListed(ctx, d)
	}
	a.paged(func() { a.printGrid(&l.grid) })
	if next != "" {
		a.noteBelow("note: there are more: %s", a.nextPage(f))
	}
	return a.failed
}

// listOf is the shape of a list, see printList.
type listOf[T any] struct {
	Items []T     `json:"items"` // in the order of the store
	Next  *string `json:"next"`  // give it to --after for the next page; null at the end
}

// nextPage returns the command line that shows the next page. It changes only --page, since a
// cursor is long.
func (a *app) nextPage(f pageFlags) string {
	words := strings.Fields(a.op())
	words = append(words, a.given...)
	a.running.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "db", "scope", "json", "quiet", "wait", "page":
			return
		}
		if list, ok := flag.Value.(pflag.SliceValue); ok && flag.Value.Type() == "stringSlice" {
			words = append(words, "--"+flag.Name, strings.Join(list.GetSlice(), ","))
			return
		} else if ok {
			for _, value := range list.GetSlice() {
				words = append(words, "--"+flag.Name, value)
			}
			return
		}
		if flag.NoOptDefVal != "" {
			words = append(words, "--"+flag.Name+"="+flag.Value.String())
			return
		}
		words = append(words, "--"+flag.Name, flag.Value.String())
	})
	return a.commandLine(append(words, "--page", strconv.Itoa(f.page+1))...)
}

// parseSince parses the value of --since: a time, or how long ago, which may be in days. The empty
// text is the zero time.
func parseSince(text string, now time.Time) (time.Time, error) {
	t, err := query.ParseTime(text, now)
	if err != nil {
		return t, usage("--since %s: %s", text, db.Hint(err))
	}
	return t, nil
}

// oneOf checks the value of a flag that takes one of some words.
func oneOf[S ~string](flag, value string, words []S) error {
	if slices.Contains(words, S(value)) {
		return nil
	}
	return usage("--%s %s: it is one of %s", flag, value, join(words))
}

func join[S ~string](words []S) string { return strings.Join(texts(words), ", ") }

// texts converts words to strings.
func texts[S ~string](words []S) []string { return each(words, func(w S) string { return string(w) }) }
