package main

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"selvedge/db"
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

// check looks at the flags of a tail of one thing; where it is of many, many says what is missing
// to make it one.
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
		return &fault{
			kind: kindUsage, hint: "a tail of many begins with what is new",
			err: errors.New(given[0] + " needs " + many),
		}
	case f.lines < 0:
		return usage("--lines %d: it is at least 0", f.lines)
	case len(given) == 1 && given[0] == "--from" && f.from == "":
		return usage("--from is empty")
	}
	return nil
}

// A column is of a tail for people. The last one has no width.
type column struct {
	name  string
	width int
}

// A tailing is how a store is followed, and how what comes is shown.
type tailing[T any] struct {
	// follow yields the items behind a cursor; in a tail of many, the new ones. before returns the cursor
	// before the last n items.
	follow  func(ctx context.Context, from string) iter.Seq2[T, error]
	before  func(ctx context.Context, n int64) (string, error)
	columns []column
	row     func(item T) []string
	// json gives the object that stands for the item.
	json func(item T) ([]byte, error)
	// words call for the same tail again; nil where no cursor leads back to it.
	words []string
	// begin is the cursor that it begins behind, "" for the beginning, and cursor that behind an item.
	begin  string
	cursor func(item T) string
	// expired tells people what to do where items are gone that were not printed.
	expired string
}

// tailOneOrMany makes c a tail of the thing whose id is given, else of all that pass its filter.
func tailOneOrMany[T any](
	a *app, c *cobra.Command, n noun, items string, many func(d *db.DB) tailing[T],
	one func(d *db.DB, t thing, fromStart bool) tailing[T],
) {
	var f tailFlags
	f.add(c, items)
	c.Args = cobra.MaximumNArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		missing := "the ID of " + n.some
		if len(args) == 1 {
			missing = ""
		}
		if err := f.check(c, missing); err != nil {
			return err
		}
		return a.with(c.Context(), toRead, func(d *db.DB) error {
			if len(args) == 0 {
				return tail(c.Context(), a, many(d))
			}
			found, err := n.find(c.Context(), n.open(a, d), args[0], given(c, n.owner))
			if err != nil {
				return err
			}
			t := one(d, found, f.all)
			if t.begin = f.from; t.begin == "" && !f.all {
				if t.begin, err = t.before(c.Context(), int64(f.lines)); err != nil {
					return err
				}
			}
			return tail(c.Context(), a, t)
		})
	}
}

// tail prints items, a line each, until it is told to stop or they end. A line goes out whole and at once.
func tail[T any](ctx context.Context, a *app, t tailing[T]) error {
	ctx, done := a.whileTheFileStays(ctx)
	defer done()
	items := t.follow(ctx, t.begin)
	if !a.json {
		header := make([]string, len(t.columns))
		for i, c := range t.columns {
			header[i] = c.name
		}
		if err := a.printLine(t.columns, header); err != nil {
			return err
		}
	}
	var last *T
	var err error
	for item, failure := range items {
		if failure != nil {
			err = failure
			break
		}
		if err := t.print(a, item); err != nil {
			return err
		}
		last = &item
	}
	return t.ended(ctx, a, last, err)
}

func (t *tailing[T]) print(a *app, item T) error {
	if !a.json {
		return a.printLine(t.columns, t.row(item))
	}
	text, err := t.json(item)
	if err == nil {
		_, err = a.stdout.Write(oneLine(text))
	}
	return err
}

// ended is the error with which a tail ends: it always has one.
func (t *tailing[T]) ended(ctx context.Context, a *app, last *T, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case errors.Is(err, db.ErrCursorExpired):
		return withHint(err, "%s", t.expired)
	case !errors.Is(err, errInterrupted):
		return err
	}
	if t.words == nil {
		return err
	}
	cursor := t.begin
	if last != nil {
		cursor = t.cursor(*last)
	}
	from := []string{"--all"}
	if cursor != "" {
		from = []string{"--from", cursor}
	}
	return withHint(err, "go on from here: %s", a.commandLine(append(t.words, from...)...))
}

// commandLine is the line for a shell that calls this program with these words, on the same file and scope.
func (a *app) commandLine(words ...string) string {
	line := []string{"migrate"}
	_, secret := db.WithoutSecrets(a.path) // which SELVEDGE_DB holds, also for the shell that the line is for
	if !secret && (a.path != defaultPath || os.Getenv("SELVEDGE_DB") != "") {
		line = append(line, "--db", shellWord(a.path))
	}
	if a.scope != "" {
		line = append(line, "--scope", shellWord(a.scope))
	}
	for _, word := range words {
		line = append(line, shellWord(word))
	}
	return strings.Join(line, " ")
}

// oneLine ends a JSON text with its only line feed: others can only stand between its parts, where
// they mean nothing.
func oneLine(text []byte) []byte {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
	return append(text, '\n')
}

// printLine writes cells in columns on a terminal, and separated by tabs elsewhere.
func (a *app) printLine(columns []column, cells []string) error {
	drawn := a.screen.terminal
	if drawn {
		columns, cells = fitLine(columns, cells, a.screen.width)
	}
	var out strings.Builder
	for i, cell := range cells {
		if !drawn {
			cell = printable(cell)
		}
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
// terminal: what comes later is not known yet.
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
		cells[i] = narrow(printable(cell), columns[i].width)
	}
	return columns, cells
}

// fileLook is how often a tail looks whether the file is still the one that it opened. Nothing
// tells when it is not: no program of ours replaces a file that is open.
const fileLook = time.Second

// whileTheFileStays gives a context that ends when another file, or none, is where the open one was.
func (a *app) whileTheFileStays(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	if a.onServer() {
		return ctx, func() { end(nil) }
	}
	opened, err := os.Stat(a.path)
	if err != nil {
		opened = nil
	}
	go func() {
		clock := time.NewTicker(fileLook)
		defer clock.Stop()
		for {
			if now, err := os.Stat(a.path); err != nil || !os.SameFile(opened, now) {
				end(&fault{
					kind: kindFailed, hint: "start again to follow the file that is there now",
					err: errors.New(a.path + " was replaced or removed"),
				})
				return
			}
			select {
			case <-clock.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { end(nil) }
}
