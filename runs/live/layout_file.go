package live

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"selvedge/internal/serdejson"
)

// A fileElement is an element of the array of records in a file.
type fileElement struct {
	Text   []byte // as in the file
	Offset int    // in the file
	Level  int    // of indentation if the element begins a line, else -1
	Record RunRecord
	Reason string // why it cannot be read; "" if it can
}

// fileDamage is a part of a file that belongs to no element.
type fileDamage struct {
	Offset int
	Text   []byte
	Reason string
}

func damaged(text []byte, at int, reason string) *fileDamage {
	return &fileDamage{at, text[at:], reason}
}

// parseFile reads the records of a file one by one, so that a bad record affects no other. The file
// is an array of records, a session's document with run_records in it, or bare records one after
// the other. The damage is what cannot be read, and everything after it.
func parseFile(text []byte) (elements []fileElement, damage *fileDamage) {
	at, above := skipBlanks(text, 0), 1
	switch {
	case bytes.HasPrefix(text, []byte("A3SE\x01")):
		return elements, damaged(text, 0, "is sealed: without its key it can't be read")
	case at == len(text):
		return elements, damaged(text, 0, "EOF while parsing a value")
	case text[at] == '{':
		inside, ok := runRecords(text[at:])
		if !ok {
			return readBare(text, at)
		}
		at, above = at+inside, 2
	case text[at] != '[':
		return elements, damaged(text, 0, "is not an array of run records")
	}
	at, elements, damage = readArray(text, at, above)
	if damage != nil || above == 2 { // runs are in no other part of a document
		return elements, damage
	}
	if at = skipBlanks(text, at); at < len(text) {
		return elements, damaged(text, at, "has something behind its array of run records")
	}
	return elements, nil
}

// whyUnreadable returns why the original reads nothing of a file, and from which byte on; "" if it
// reads it.
func whyUnreadable(text []byte) (offset int, reason string) {
	elements, damage := parseFile(text)
	for i := range elements {
		e := &elements[i]
		if e.Reason != "" {
			return e.Offset, e.Reason
		}
		for j := range e.Record.Events {
			event := &e.Record.Events[j].Event
			if _, known := eventTypes()[event.kind]; !known {
				return e.Offset + typeAt(e.Text, event.kind),
					fmt.Sprintf("unknown variant `%s`: an event of a later version", event.kind)
			}
		}
	}
	if damage != nil {
		return damage.Offset, damage.Reason
	}
	return 0, ""
}

// typeAt returns the offset at which a record names a type of event; 0 if the record escapes the
// name.
func typeAt(record []byte, kind string) int {
	if at := regexp.MustCompile(`"type"\s*:\s*"` + regexp.QuoteMeta(kind) + `"`).FindIndex(record); at != nil {
		return at[0]
	}
	return 0
}

// runRecords finds the array of records in a session's document.
func runRecords(text []byte) (at int, ok bool) {
	s := serdejson.NewScanner(text)
	for key := range s.Elements() {
		if serdejson.KeyIs(key, "run_records") && s.Peek() == '[' {
			return s.Pos(), true
		}
		s.Value()
	}
	return 0, false
}

// holdsMore reports whether a session's document says anything beside its runs.
func holdsMore(text []byte) bool {
	if _, ok := runRecords(text); !ok {
		return false
	}
	s := serdejson.NewScanner(text)
	for key := range s.Elements() {
		value, ok := s.Value()
		if !ok || !serdejson.KeyIs(key, "run_records") && !serdejson.KeyIs(key, "schema_version") &&
			!slices.Contains([]string{"null", "[]", "{}", `""`}, string(value)) {
			return true
		}
	}
	return s.Reason() != ""
}

// readArray reads the array at an offset; end is the offset after it. Its elements are nested in
// this many arrays and objects.
func readArray(text []byte, at, above int) (end int, elements []fileElement, damage *fileDamage) {
	at++
	for first := true; ; first = false {
		at = skipBlanks(text, at)
		switch {
		case at < len(text) && text[at] == ']':
			return at + 1, elements, nil
		case first:
		case at < len(text) && text[at] == ',':
			at = skipBlanks(text, at+1)
		case at < len(text):
			return at, elements, damaged(text, at, "expected `,` or `]`")
		}
		length, ok := valueLength(text[at:])
		if !ok {
			if at == len(text) {
				return at, elements, damaged(text, at, "is cut off behind its last whole run record")
			}
			return at, elements, damaged(text, at, "is cut off")
		}
		elements = append(elements, readElement(text, at, length, above))
		at += length
	}
}

// readBare reads records one after the other.
func readBare(text []byte, at int) (elements []fileElement, damage *fileDamage) {
	const reason = "is not an array of run records"
	for at = skipBlanks(text, at); at < len(text); at = skipBlanks(text, at) {
		length, ok := valueLength(text[at:])
		var element fileElement
		if ok = ok && text[at] == '{'; ok {
			element = readElement(text, at, length, 0)
		}
		if !ok || element.Reason != "" && len(elements) == 0 {
			return elements, damaged(text, at, reason)
		}
		elements = append(elements, element)
		at += length
	}
	return elements, &fileDamage{Reason: reason + "; those in it were taken all the same"}
}

func readElement(text []byte, at, length, above int) fileElement {
	e := fileElement{Text: text[at : at+length], Offset: at, Level: level(text, at)}
	e.Record, e.Reason = readRecord(e.Text, above, true)
	if e.Reason == "" {
		if err := e.Record.check(); err != nil {
			e.Reason = err.Error()
		}
	}
	return e
}

// level returns the indentation before an offset, in steps of two; -1 if the offset does not begin
// a line.
func level(text []byte, at int) int {
	blanks := 0
	for at > 0 && text[at-1] == ' ' {
		at--
		blanks++
	}
	if at == 0 || text[at-1] != '\n' || blanks%2 != 0 {
		return -1
	}
	return blanks / 2
}

// valueLength finds the end of a value by brackets and quotes alone, so that it also finds the end
// of a value that cannot be read.
func valueLength(text []byte) (int, bool) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) {
				return 0, false
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 || i+1 < len(text) && !strings.ContainsRune(",]} \t\r\n", rune(text[i+1])) {
				continue
			}
		}
		if depth <= 0 {
			return i + 1, depth == 0
		}
	}
	return 0, false
}

func skipBlanks(text []byte, at int) int {
	return len(text) - len(bytes.TrimLeft(text[at:], " \n\r\t"))
}

// A fileWriter writes a file as the original does: pretty JSON without a line feed at the end.
type fileWriter struct{ records int }

// Append appends a record, given as compact JSON, or verbatim as an element of a file.
func (w *fileWriter) Append(dst, record []byte, verbatim bool) []byte {
	if w.records++; w.records == 1 {
		dst = append(dst, '[')
	} else {
		dst = append(dst, ',')
	}
	dst = append(dst, "\n  "...)
	if verbatim {
		return append(dst, record...)
	}
	return appendIndented(dst, record, 1)
}

// End appends the end of the file.
func (w *fileWriter) End(dst []byte) []byte {
	if w.records == 0 {
		return append(dst, "[]"...)
	}
	return append(dst, "\n]"...)
}

// regular reports whether an export writes the element's own bytes from its rows.
func (e *fileElement) regular() bool {
	return e.Level >= 0 && e.Record.nextSequence() == e.Record.Snapshot.EventCount &&
		bytes.Equal(appendIndented(nil, e.Record.json(), e.Level), e.Text)
}

func (d *fileDamage) String() string { return fmt.Sprintf("offset %d: %s", d.Offset, d.Reason) }

// safeName returns the original's file name for a session, without the extension. Several ids can
// share it.
func safeName(sessionID string) string {
	one := strings.NewReplacer("/", "_", `\`, "_").Replace(sessionID)
	return strings.ReplaceAll(one, "..", "_")
}
