package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// encodeJSON gives one line. Unlike json.Marshal it leaves <, > and & as they are.
func encodeJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return out.Bytes(), err
}

func (a *app) printJSON(value any) error {
	text, err := encodeJSON(value)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(text)
	return err
}

// A jsonArray is the last list of an answer, written as it is read: it may be large. The elements come as JSON texts, which
// an encoder would change. An answer that fails is cut short: nothing ends it.
type jsonArray struct {
	out   *bufio.Writer
	begun bool
}

// printArray begins an answer; head is what stands before its list.
func (a *app) printArray(head string) *jsonArray {
	w := &jsonArray{out: bufio.NewWriterSize(a.stdout, 64<<10)}
	w.out.WriteString(head + "[") //nolint:errcheck // end tells
	return w
}

func (w *jsonArray) add(element []byte) {
	if w.begun {
		w.out.WriteByte(',') //nolint:errcheck // end tells
	}
	w.begun = true
	w.out.Write(element) //nolint:errcheck // end tells
}

// end ends the answer; tail is what stands behind its list.
func (w *jsonArray) end(tail string) error {
	w.out.WriteString("]" + tail + "\n") //nolint:errcheck // Flush tells
	return w.out.Flush()
}

// print writes for people, to stdout.
func (a *app) print(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
}

// note tells people something beside the answer, on stderr.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...) //nolint:errcheck // a note that can't be written is not missed
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// colours reports whether stdout is a terminal whose user wants them (no-color.org).
func (a *app) colours() bool {
	return isTerminal(a.stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// width is how many columns the terminal has; 0 where stdout is none.
func (a *app) width() int {
	file, ok := a.stdout.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// A grid is rows under a header: a table on a terminal, lines of tab-separated cells elsewhere.
type grid struct {
	header []string
	rows   [][]string
	right  []int // columns of numbers, from 0
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (a *app) printGrid(g *grid) error {
	if isTerminal(a.stdout) {
		return a.drawTable(a.stdout, g)
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
	_, err := io.WriteString(a.stdout, out.String())
	return err
}

// drawTable draws a table, no wider than a terminal.
func (a *app) drawTable(to io.Writer, g *grid) error {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	if a.colours() {
		style.Color.Header = text.Colors{text.Bold}
		style.Color.Border, style.Color.Separator = text.Colors{text.Faint}, text.Colors{text.Faint}
		text.EnableColors()
	} else {
		text.DisableColors()
	}
	t.SetStyle(style)
	if columns := a.width(); columns > 0 {
		t.Style().Size.WidthMax = columns
	}
	var configs []table.ColumnConfig
	for _, i := range g.right {
		configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(configs)
	t.AppendHeader(tableRow(g.header))
	for _, row := range g.rows {
		t.AppendRow(tableRow(row))
	}
	_, err := io.WriteString(to, t.Render()+"\n")
	return err
}

func tableRow(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, cell := range cells {
		row[i] = printable(cell)
	}
	return row
}

// printFacts writes a list of names and values, aligned.
func (a *app) printFacts(facts ...[2]string) error {
	longest := 0
	for _, f := range facts {
		longest = max(longest, utf8.RuneCountInString(f[0]))
	}
	var out strings.Builder
	for _, f := range facts {
		fmt.Fprintf(&out, "%-*s  %s\n", longest, f[0], printable(f[1]))
	}
	_, err := io.WriteString(a.stdout, out.String())
	return err
}

// printSheet writes facts, and tables below them.
func (a *app) printSheet(facts [][2]string, tables ...*grid) error {
	err := a.printFacts(facts...)
	for _, g := range tables {
		if err == nil {
			err = a.print("\n")
		}
		if err == nil {
			err = a.printGrid(g)
		}
	}
	return err
}

// printable shows control characters, and bytes that are no UTF-8, as escapes: ids and texts come from agents, and must
// not move the cursor of whoever looks at them, or break a line in two.
func printable(s string) string {
	clean := true
	for _, r := range s {
		if !shown(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, s[0])
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == '\r':
			out.WriteString(`\r`)
		case !shown(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
		s = s[size:]
	}
	return out.String()
}

// shown is false for what has no picture: controls, and the marks that turn the direction of a line around.
func shown(r rune) bool {
	return r != utf8.RuneError && !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) && r != '\u2028' && r != '\u2029'
}

// cut shortens a text to a number of characters.
func cut(s string, characters int) string {
	if utf8.RuneCountInString(s) <= characters {
		return s
	}
	return string([]rune(s)[:characters-1]) + "…"
}

// count is a number with its noun: 1 run, 2,000 runs.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(int64(n)) + " " + noun + "s"
}
