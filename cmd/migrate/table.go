package main

import (
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
)

// A grid is rows under a header: columns on a terminal, lines of tab-separated cells elsewhere.
type grid struct {
	header []string
	rows   [][]string
	right  []int // columns of numbers, from 0
	times  []int // columns of instants, as instant writes them: people see how long ago
	texts  []int // columns of free text, which shrink first; nil: the last column
	ids    []int // columns of ids, which then shrink to the beginning that no other row has
	// unique reports whether the ids of the column own begin so for one thing of the database only; nil: nobody
	// knows, and the rows decide
	unique func(prefix string) bool
	own    int
	least  []int // columns to drop then, in this order; nil: from the last to the second
	whole  bool  // no column is dropped
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// pick reduces the grid to the named columns, in that order. Drawing then drops none of them.
func (g *grid) pick(names []string) error {
	var columns []int
	for _, name := range names {
		i := slices.Index(g.header, name)
		if i < 0 {
			return usage("there is no column %q; there are %s", name, strings.Join(g.header, ", "))
		}
		columns = append(columns, i)
	}
	cells := func(row []string) []string { return each(columns, func(i int) string { return row[i] }) }
	moved := func(old []int) []int {
		at := []int{}
		for i, column := range columns {
			if slices.Contains(old, column) {
				at = append(at, i)
			}
		}
		return at
	}
	g.texts, g.right, g.times, g.ids = moved(g.freeText()), moved(g.right), moved(g.times), moved(g.ids)
	g.own = slices.Index(columns, g.own)
	g.header, g.whole = cells(g.header), true
	for i, row := range g.rows {
		g.rows[i] = cells(row)
	}
	return nil
}

func (g *grid) freeText() []int {
	if g.texts == nil && !slices.Contains(g.right, len(g.header)-1) {
		return []int{len(g.header) - 1}
	}
	return g.texts
}

func (g *grid) leastFirst() []int {
	switch {
	case g.whole:
		return nil
	case g.least == nil:
		for i := len(g.header) - 1; i > 0; i-- {
			g.least = append(g.least, i)
		}
	}
	return g.least
}

func (a *app) printGrid(g *grid) {
	if a.screen.terminal {
		a.write(a.drawn(g))
		return
	}
	var out strings.Builder
	for _, row := range append([][]string{g.header}, g.rows...) {
		for i, cell := range row {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.WriteString(printable(cell))
		}
		out.WriteByte('\n')
	}
	a.write(out.String())
}

// drawn returns the grid in columns, no wider than the terminal where possible.
func (a *app) drawn(g *grid) string {
	text, gone := g.draw(a.screen.width, a.screen.colours, time.Now())
	if len(gone) > 0 {
		a.noteBelow("note: too narrow for %s", strings.Join(gone, ", "))
	}
	return text
}

const (
	between   = 2  // blanks between columns
	textLeast = 16 // of free text, before ids shrink and columns are dropped
	textEnd   = 8  // of free text, when no column is left to drop
	idLeast   = 8  // of an id
)

// draw returns the text for a terminal of that many columns, 0 for any, and the names of the
// columns that were dropped.
func (g *grid) draw(width int, bold bool, now time.Time) (text string, gone []string) {
	l := layout{grid: g, room: width}
	l.measure(now)
	if width > 0 {
		l.fit()
	}
	var out strings.Builder
	if bold {
		out.WriteString("\x1b[1m")
	}
	l.line(&out, l.names)
	if bold {
		out.WriteString("\x1b[0m")
	}
	out.WriteByte('\n')
	for _, row := range l.cells {
		l.line(&out, row)
		out.WriteByte('\n')
	}
	return out.String(), l.gone
}

// tooWide reports whether lines are wider than the terminal even with the narrowest columns.
func (g *grid) tooWide(width int) bool {
	l := layout{grid: g, room: width}
	l.measure(time.Time{})
	l.fit()
	return l.over() > 0
}

// records returns the text of a grid that is too wide for columns: each cell on a line of its own,
// with the name of its column.
func (g *grid) records(width int, bold bool) string {
	names := 0
	for _, name := range g.header {
		names = max(names, uniseg.StringWidth(printable(name)))
	}
	var out strings.Builder
	for i, row := range g.rows {
		if i > 0 {
			out.WriteByte('\n')
		}
		for column, cell := range row {
			name := printable(g.header[column])
			blanks := strings.Repeat(" ", names-uniseg.StringWidth(name)+between)
			if bold {
				name = "\x1b[1m" + name + "\x1b[0m"
			}
			out.WriteString(strings.TrimRight(name+blanks+narrow(printable(cell), max(textEnd, width-names-between)),
				" ") + "\n")
		}
	}
	return out.String()
}

// A layout is one drawing of a grid.
type layout struct {
	*grid
	room   int
	names  []string // of the columns
	cells  [][]string
	widths []int
	kept   []int // columns
	gone   []string
}

func (l *layout) measure(now time.Time) {
	l.widths = make([]int, len(l.header))
	for i, name := range l.header {
		name = printable(name) // a query may give its columns any name
		l.names = append(l.names, name)
		l.kept, l.widths[i] = append(l.kept, i), uniseg.StringWidth(name)
	}
	for _, row := range l.rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
			if slices.Contains(l.times, i) {
				cells[i] = ago(cell, now)
			}
			l.widths[i] = max(l.widths[i], uniseg.StringWidth(cells[i]))
		}
		l.cells = append(l.cells, cells)
	}
}

// over returns by how much a line is too wide.
func (l *layout) over() int {
	total := -between - l.room
	for _, i := range l.kept {
		total += l.widths[i] + between
	}
	return total
}

func (l *layout) fit() {
	natural := slices.Clone(l.widths)
	l.shrinkTexts(textLeast)
	for _, i := range l.ids {
		if l.over() > 0 {
			l.shrinkIDs(i)
		}
	}
	for _, i := range l.leastFirst() {
		if l.over() > 0 {
			l.kept = slices.DeleteFunc(l.kept, func(k int) bool { return k == i })
			l.gone = append(l.gone, l.names[i])
		}
	}
	l.shrinkTexts(textEnd)
	for _, i := range l.freeText() { // the room that dropped columns have left
		if room := -l.over(); room > 0 && slices.Contains(l.kept, i) {
			l.widths[i] = min(natural[i], l.widths[i]+room)
		}
	}
}

// shrinkTexts narrows the widest columns of free text, to no less than least, until a line fits.
func (l *layout) shrinkTexts(least int) {
	for over := l.over(); over > 0; over = l.over() {
		widest := -1
		for _, i := range l.freeText() {
			if slices.Contains(l.kept, i) && l.widths[i] > max(least, uniseg.StringWidth(l.names[i])) &&
				(widest < 0 || l.widths[i] > l.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		l.widths[widest] = max(least, uniseg.StringWidth(l.names[widest]), l.widths[widest]-over)
	}
}

// shrinkIDs cuts the ids of a column to the shortest length at which different ids still differ.
func (l *layout) shrinkIDs(column int) {
	ids := each(l.cells, func(row []string) string { return row[column] })
	slices.Sort(ids)
	length := idLeast
	for i := 1; i < len(ids); i++ {
		if ids[i] != ids[i-1] {
			length = max(length, common(ids[i-1], ids[i])+1)
		}
	}
	l.widths[column] = uniseg.StringWidth(l.names[column])
	for _, row := range l.cells {
		runes, end := []rune(row[column]), length
		for column == l.own && l.unique != nil && end < len(runes) && !l.unique(string(runes[:end])) {
			end++
		}
		if end < len(runes) {
			row[column] = string(runes[:end])
		}
		l.widths[column] = max(l.widths[column], uniseg.StringWidth(row[column]))
	}
}

// common returns the number of characters with which both texts begin.
func common(a, b string) int {
	x, y := []rune(a), []rune(b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

func (l *layout) line(out *strings.Builder, cells []string) {
	for n, i := range l.kept {
		cell := narrow(cells[i], l.widths[i])
		blanks := strings.Repeat(" ", max(0, l.widths[i]-uniseg.StringWidth(cell)))
		if n > 0 {
			out.WriteString(strings.Repeat(" ", between))
		}
		if slices.Contains(l.right, i) {
			out.WriteString(blanks + cell)
			continue
		}
		out.WriteString(cell)
		if n < len(l.kept)-1 {
			out.WriteString(blanks)
		}
	}
}

// narrow cuts a text to a width on a terminal, where some characters take two columns.
func narrow(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	var out strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(s); g.Next(); {
		if used += g.Width(); used > width-1 {
			break
		}
		out.WriteString(g.Str())
	}
	return out.String() + "…"
}
