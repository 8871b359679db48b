package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

// encodeJSON returns a value as JSON text. Unlike json.Marshal it leaves <, > and & as they are.
func encodeJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// A jsonEscaper writes JSON with escapes for characters that JSON allows in a string but that no
// terminal should get: C1 controls, bidirectional marks and line separators. Texts come from
// agents, and raw records are written byte for byte, but for carriage returns, which stand between
// tokens and would begin a line.
type jsonEscaper struct {
	to   io.Writer
	rest []byte // the first bytes of a character whose other bytes are still to come
}

func (w *jsonEscaper) Write(text []byte) (int, error) {
	in := slices.Concat(w.rest, text)
	out := make([]byte, 0, len(in))
	w.rest = nil
	for i := 0; i < len(in); {
		if in[i] == '\r' {
			in[i] = ' '
		}
		if in[i] < utf8.RuneSelf && in[i] != 0x7f {
			out = append(out, in[i])
			i++
			continue
		}
		if !utf8.FullRune(in[i:]) {
			w.rest = bytes.Clone(in[i:])
			break
		}
		r, size := utf8.DecodeRune(in[i:])
		if shown(r) || r == utf8.RuneError {
			out = append(out, in[i:i+size]...)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (a *app) printJSON(value any) error { return writeJSON(a.stdout, value) }

// writeJSON writes a value as a line of JSON.
func writeJSON(to io.Writer, value any) error {
	text, err := encodeJSON(value)
	if err == nil {
		_, err = to.Write(append(text, '\n'))
	}
	return err
}

// stream writes an answer whose last list may be large, and writes the list as it is read. head is
// what comes before the list, and tail returns what comes after it. encode returns the JSON text of
// an element, which is written as it is, or nil to leave the element out. An answer that fails is
// cut short.
func stream[T any](
	a *app, head string, items iter.Seq2[T, error], encode func(T) ([]byte, error), tail func() string,
) error {
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	out.WriteString(head + "[") //nolint:errcheck // Flush returns the error
	comma := ""
	for item, err := range items {
		var text []byte
		if err == nil {
			text, err = encode(item)
		}
		if err != nil {
			return err
		}
		if text != nil {
			out.WriteString(comma) //nolint:errcheck // Flush returns the error
			out.Write(text)        //nolint:errcheck // Flush returns the error
			comma = ","
		}
	}
	out.WriteString("]" + tail() + "\n") //nolint:errcheck // Flush returns the error
	return out.Flush()
}

// endObject ends an answer that has nothing after its list.
func endObject() string { return "}" }

// answer ends a command. With --json it prints value, else text prints for people.
func (a *app) answer(value any, text func()) error {
	if a.json {
		return a.printJSON(value)
	}
	text()
	return a.failed
}

// answerLine is answer with a line for people; see print.
func (a *app) answerLine(value any, format string, args ...any) error {
	return a.answer(value, func() { a.print(format, args...) })
}

// print writes for people to stdout, and makes texts among args printable. After an error it writes
// nothing; the command ends with the error.
func (a *app) print(format string, args ...any) {
	a.write(line(format, args...))
}

// line returns a formatted text with printable args.
func line(format string, args ...any) string {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = printable(text)
		}
	}
	return fmt.Sprintf(format, args...)
}

// printLines prints each line of a text, without the characters of ends at its end.
func (a *app) printLines(text, ends string) {
	for part := range strings.Lines(text) {
		a.print("%s\n", strings.TrimRight(part, ends))
	}
}

// write prints text as it is.
func (a *app) write(text string) {
	if a.failed == nil {
		_, a.failed = io.WriteString(a.stdout, text)
	}
}

// noteBelow adds a note that people see below the answer. A repeated note is shown once.
func (a *app) noteBelow(format string, args ...any) {
	if note := line(format, args...); !slices.Contains(a.afterwards, note) {
		a.afterwards = append(a.afterwards, note)
	}
}

// note writes a note for people to stderr, apart from the answer.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		io.WriteString(a.stderr, line(format, args...)+"\n") //nolint:errcheck // a note may be lost
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// A screen describes stdout for people; the zero value is no terminal.
type screen struct {
	terminal      bool
	colours       bool // it has them, and the user wants them (no-color.org)
	width, height int  // columns and lines; 0 if unknown
}

func screenOf(stdout io.Writer) screen {
	if !isTerminal(stdout) {
		return screen{}
	}
	s := screen{terminal: true, colours: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, height, err := term.GetSize(int(stdout.(*os.File).Fd())); err == nil {
		s.width, s.height = width, height
	}
	return s
}

// printFacts writes names with their values, aligned.
func (a *app) printFacts(facts ...string) {
	longest := 0
	for pair := range slices.Chunk(facts, 2) {
		longest = max(longest, utf8.RuneCountInString(pair[0]))
	}
	for pair := range slices.Chunk(facts, 2) {
		a.print("%-*s  %s\n", longest, pair[0], pair[1])
	}
}

// printSheet writes facts, and tables below them.
func (a *app) printSheet(facts []string, tables ...*grid) {
	a.paged(func() {
		a.printFacts(facts...)
		for _, g := range tables {
			a.print("\n")
			a.printGrid(g)
		}
	})
}

// printable escapes control characters and bytes that are not UTF-8: ids and texts come from agents
// and must not move the terminal's cursor or break a line.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !shown(r) }) < 0 {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, s[0])
		case strings.ContainsRune("\n\t\r", r):
			out.WriteString(strings.Trim(strconv.Quote(string(r)), `"`))
		case !shown(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
		s = s[size:]
	}
	return out.String()
}

// shown reports whether a terminal may show a character. It is false for control characters,
// bidirectional marks and line separators.
func shown(r rune) bool {
	return r != utf8.RuneError && !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) &&
		r != '\u2028' && r != '\u2029'
}

// cut shortens a text to a number of characters.
func cut(s string, characters int) string {
	if utf8.RuneCountInString(s) <= characters {
		return s
	}
	return string([]rune(s)[:characters-1]) + "…"
}

// each applies a function to the elements of a list. The result is never nil, which JSON would
// write as null.
func each[S, T any](list []S, make func(S) T) []T {
	made := []T{}
	for _, item := range list {
		made = append(made, make(item))
	}
	return made
}

// orEmpty returns an empty list for a nil one, which JSON would write as null.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// orNull returns nil for the zero value, so that JSON has null.
func orNull[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// size formats a number of bytes for people.
func size[N int | int64](n N) string { return humanize.IBytes(uint64(max(0, n))) }

// comma formats a number for people.
func comma[N int | int64](n N) string { return humanize.Comma(int64(n)) }

// count formats a number with its noun: 1 run, 2,000 runs.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return comma(n) + " " + noun + "s"
}

// instant formats a time for scripts and for grids: to the second, in UTC, in one width, so that it
// sorts as text. The zero time is "".
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// when formats a time for a fact: an instant, and for people how long ago that is.
func (a *app) when(t time.Time) string {
	text := instant(t)
	if age := ago(text, time.Now()); a.screen.terminal && age != text {
		return text + " (" + age + ")"
	}
	return text
}

// longAgo is the age from which a time is shown as a date, not as an age.
const longAgo = 100 * 24 * time.Hour

// ago returns how long ago an instant was. It returns other text as it is, made printable.
func ago(text string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return printable(text)
	}
	passed := now.Sub(t)
	switch {
	case passed <= -time.Second && passed > -longAgo:
		return "in " + roughly(-passed)
	case passed < 0 || passed >= longAgo:
		return t.UTC().Format(time.DateOnly)
	}
	return roughly(passed) + " ago"
}

// roughly formats a duration in its largest unit.
func roughly(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= unit.of {
			return fmt.Sprintf("%d%s", d/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
