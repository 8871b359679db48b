package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
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

// A jsonEscaper writes JSON with escapes for characters that JSON allows in a string but that no
// terminal should get: C1 controls, bidirectional marks and line separators. Texts come from agents,
// and raw records are written byte for byte.
type jsonEscaper struct {
	to   io.Writer
	rest []byte // the beginning of a character whose other bytes are still to come
}

func (w *jsonEscaper) Write(text []byte) (int, error) {
	in := slices.Concat(w.rest, text)
	out := make([]byte, 0, len(in))
	w.rest = nil
	for i := 0; i < len(in); {
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

func (a *app) printJSON(value any) error {
	text, err := encodeJSON(value)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(text)
	return err
}

// A jsonArray is the last list of an answer, written as it is read: it may be large. The elements
// come as JSON texts, which an encoder would change. An answer that fails is cut short: nothing
// ends it.
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

// say writes the answer with --json, else a text for people.
func (a *app) say(answer any, format string, args ...any) error {
	if a.json {
		return a.printJSON(answer)
	}
	return a.print(format, args...)
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

// A screen is what stdout is for people; the zero value is no terminal.
type screen struct {
	terminal      bool
	colours       bool // it has them, and its user wants them (no-color.org)
	width, height int  // columns and lines; 0 where it doesn't tell
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
	return a.paged(func() error {
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
	})
}

// printable escapes control characters and bytes that are not UTF-8: ids and texts come from agents
// and must not move the terminal's cursor or break a line.
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

// shown is false for control characters, bidirectional marks and line separators.
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

// count is a number with its noun: 1 run, 2,000 runs.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(int64(n)) + " " + noun + "s"
}
