package main

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/txn"
)

// tailFlags are the flags of every tail: where it begins.
type tailFlags struct {
	lines int
	all   bool
	from  string
}

func (f *tailFlags) add(c *cobra.Command, items string) {
	c.Flags().IntVar(&f.lines, "lines", 10,
		"begin with the last `N` "+items+" that are there; 0 is only new ones")
	c.Flags().BoolVar(&f.all, "all", false, "begin with all "+items+" that are there")
	c.Flags().StringVar(&f.from, "from", "", "go on behind `CURSOR`, that of an item printed before")
}

// check checks the flags of a tail of one thing. For a tail of many things, many says what would
// make it one of a single thing.
func (f *tailFlags) check(c *cobra.Command, many string) error {
	var given []string
	for _, name := range []string{"lines", "all", "from"} {
		if c.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	switch {
	case len(given) > 1:
		return usage("choose one of %s", strings.Join(given, " and "))
	case len(given) == 1 && many != "":
		return fail(kindUsage, "a tail of many begins with what is new", "%s", given[0]+" needs "+many)
	case f.lines < 0:
		return usage("--lines %d: it is at least 0", f.lines)
	case len(given) == 1 && given[0] == "--from" && f.from == "":
		return usage("--from is empty")
	}
	return nil
}

// A column is a column of a tail for people. The last one has no width.
type column struct {
	name  string
	width int
}

// A tailing describes how a store is followed, one thing or many, and how its items are shown.
type tailing[R, T any] struct {
	// follow yields the items after a cursor, "" for the beginning. With many things it begins with
	// new items.
	follow  func(ctx context.Context, from string) iter.Seq2[db.Followed[R, T], error]
	before  func(ctx context.Context, n int64) (string, error) // returns the cursor before the last n items
	keep    func(T) bool                                       // nil: all items
	columns []column
	row     func(T) []string
	json    func(db.Followed[R, T]) ([]byte, error) // returns the object for the item
	// words are the words that call the same tail again; nil in a tail of many, since no cursor
	// leads back to it.
	words   []string
	expired string // what to do if items were removed unread
	// In a tail of many things these columns come first, and show which thing the item belongs to.
	owners []column
	owner  func(R) []string
}

// tailCommand makes c a tail. many says what would make it one of a single thing, else it returns
// "".
func tailCommand[R, T any](
	a *app, c *cobra.Command, items string, many func(args []string, f tailFlags) string,
	open func(ctx context.Context, d *db.DB, args []string, f tailFlags) (tailing[R, T], error),
) {
	var f tailFlags
	f.add(c, items)
	c.Args = cobra.MaximumNArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(c, many(args, f)); err != nil {
			return err
		}
		return a.with(c.Context(), toRead, func(d *db.DB) error {
			t, err := open(c.Context(), d, args, f)
			if err != nil {
				return err
			}
			return t.run(c.Context(), a, f)
		})
	}
}

// needsID returns what is missing in a tail of many things that have no groups.
func (n noun) needsID(args []string, _ tailFlags) string {
	if len(args) == 1 {
		return ""
	}
	return "the ID of " + n.some
}

// run prints items, one per line, until it is stopped or they end. It writes each line whole and at
// once. It always returns an error.
func (t *tailing[R, T]) run(ctx context.Context, a *app, f tailFlags) (err error) {
	if t.owner != nil {
		t.columns = append(t.owners, t.columns...)
	}
	cursor := f.from
	if t.words != nil && cursor == "" && !f.all {
		if cursor, err = t.before(ctx, int64(f.lines)); err != nil {
			return err
		}
	}
	items := t.written(t.follow(ctx, cursor), f.all) // before the header, which promises that it follows
	if !a.json {
		names := each(t.columns, func(c column) string { return c.name })
		if err := a.printLine(t.columns, names); err != nil {
			return err
		}
	}
	for item, failure := range items {
		if err = failure; err != nil {
			break
		}
		if err := t.print(a, item); err != nil {
			return err
		}
		cursor = item.Cursor
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case errors.Is(err, db.ErrCursorExpired):
		return withHint(err, "%s", t.expired)
	case errors.Is(err, db.ErrReplaced):
		return fail(kindFailed, "start again to follow the file that is there now",
			"%s was replaced or removed", a.path)
	case !errors.Is(err, errInterrupted) || t.words == nil:
		return err
	}
	from := []string{"--all"}
	if cursor != "" {
		from = []string{"--from", cursor}
	}
	return withHint(err, "go on from here: %s", a.commandLine(append(t.words, from...)...))
}

// written leaves out what is not an item, such as a status, which the item that caused it shows. It
// ends with an error if items were removed unread, unless they came before the first item of a tail
// from the start.
func (t *tailing[R, T]) written(
	items iter.Seq2[db.Followed[R, T], error], fromStart bool,
) iter.Seq2[db.Followed[R, T], error] {
	return func(yield func(db.Followed[R, T], error) bool) {
		for item, err := range items {
			if err == nil && item.What == db.Gap && !item.Gone && !fromStart {
				err = txn.CursorExpired(item.Reason)
			}
			fromStart = false
			if err == nil && (item.What != db.Written || t.keep != nil && !t.keep(item.Item)) {
				continue
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

func (t *tailing[R, T]) print(a *app, item db.Followed[R, T]) error {
	if a.json {
		text, err := t.json(item)
		if err == nil {
			_, err = a.stdout.Write(oneLine(text))
		}
		return err
	}
	cells := t.row(item.Item)
	if t.owner != nil {
		cells = append(t.owner(item.Of), cells...)
	}
	return a.printLine(t.columns, cells)
}

// commandLine returns the shell line that calls this program with these words, on the same file and
// scope.
func (a *app) commandLine(words ...string) string {
	line := []string{"migrate"}
	// SELVEDGE_DB holds it, also in the shell that runs the line.
	_, secret := engine.WithoutSecrets(a.path)
	if !secret && (a.path != defaultPath || os.Getenv("SELVEDGE_DB") != "") {
		line = append(line, "--db", shellWord(a.path))
	}
	if a.scope != "" {
		line = append(line, "--scope", shellWord(a.scope))
	}
	return strings.Join(append(line, each(words, shellWord)...), " ")
}

// oneLine ends a JSON text with its only line feed. Others can only stand between tokens, where
// they mean nothing.
func oneLine(text []byte) []byte {
	return append(bytes.ReplaceAll(text, []byte{'\n'}, []byte{' '}), '\n')
}

// printLine writes cells in columns on a terminal, and separated by tabs elsewhere.
func (a *app) printLine(columns []column, cells []string) error {
	cells = each(cells, printable)
	drawn := a.screen.terminal
	if drawn {
		columns, cells = fitLine(columns, cells, a.screen.width)
	}
	var out strings.Builder
	for i, cell := range cells {
		out.WriteString(cell)
		switch {
		case i == len(cells)-1:
			out.WriteByte('\n')
		case drawn:
			out.WriteString(strings.Repeat(" ", 2+max(0, columns[i].width-uniseg.StringWidth(cell))))
		default:
			out.WriteByte('\t')
		}
	}
	_, err := a.stdout.Write([]byte(out.String()))
	return err
}

// fitLine narrows the columns of a tail, the widest first, and the cells, to the width of a
// terminal, since later items are not known yet.
func fitLine(columns []column, cells []string, width int) ([]column, []string) {
	const last = textLeast // for the last one, which has no width
	if width == 0 {
		return columns, cells
	}
	columns, cells = slices.Clone(columns), slices.Clone(cells)
	room := width - last
	for _, c := range columns[:len(columns)-1] {
		room -= c.width + between
	}
	for room < 0 {
		widest := 0
		for i, c := range columns {
			if c.width > columns[widest].width {
				widest = i
			}
		}
		if columns[widest].width <= idLeast {
			break
		}
		columns[widest].width--
		room++
	}
	columns[len(columns)-1].width = max(idLeast, last+room)
	for i, cell := range cells {
		cells[i] = narrow(cell, columns[i].width)
	}
	return columns, cells
}
