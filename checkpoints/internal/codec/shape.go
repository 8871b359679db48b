package codec

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// How the original's library (serde, with derived readers) turns JSON into its types. A shape reads
// one type. For a value that does not fit, it reports the original's error. On request it writes
// the value as the original would, with defaults filled in and unknown members removed. The types
// themselves are in types.go.

// A shape reads a value at the reader's position. False means that the value did not fit; the
// reader has the reason.
type shape func(r *reader) bool

// A reader reads a document by shapes.
type reader struct {
	s *serdejson.Scanner
	// out receives the value; nothing is written while check is set.
	out   []byte
	check bool
	// plain keeps tagged enums as they are, and leaves out members that Go's zero value stands for.
	plain    bool
	document []byte
	// loose is set inside a tagged enum, whose members the original holds in memory before it reads
	// them: an error in them has no position of its own and gets that of the struct or list around the
	// enum.
	loose  bool
	reason string // of an error that has no position yet
}

func (r *reader) fail(format string, args ...any) bool {
	r.reason = fmt.Sprintf(format, args...)
	if !r.loose {
		r.s.Fail(r.reason)
	}
	return false
}

// settle adds the position to an error inside an object or array. The original first looks for the
// end, and steps over that or, in an array, over a comma and blanks.
func (r *reader) settle(end byte) bool {
	if r.loose || r.s.Reason() != "" {
		return false
	}
	switch c := r.s.Peek(); {
	case c == end:
		r.s.Seek(r.s.Pos() + 1)
	case c == ',' && end == ']':
		r.s.Seek(r.s.Pos() + 1)
		r.s.Peek()
	}
	return r.s.Fail(r.reason)
}

func (r *reader) write(text string) {
	if !r.check {
		r.out = append(r.out, text...)
	}
}

// mismatch reports a value of another kind than expected. It consumes nothing of an array or
// object.
func (r *reader) mismatch(expected string) bool {
	c := r.s.Peek()
	text := []byte{c}
	if c != '{' && c != '[' {
		var ok bool
		if text, ok = r.s.Value(); !ok {
			return false
		}
	}
	return r.fail("invalid type: %s, expected %s", serdejson.Unexpected(text), expected)
}

const numberFirst = "-0123456789"

var scalars = map[string]shape{
	"any":   scalar("", "", asItIs),
	"map":   scalar("{", "a map", asItIs),
	"text":  scalar(`"`, "a string", asItIs),
	"bool":  scalar("tf", "a boolean", asItIs),
	"u32":   unsigned("u32", math.MaxUint32),
	"u64":   unsigned("u64", math.MaxUint64),
	"usize": unsigned("usize", math.MaxUint64),
	"f64": scalar(numberFirst, "f64", func(text []byte) (string, error) {
		f, _ := strconv.ParseFloat(string(text), 64) // the scanner has checked the range
		return string(serdejson.AppendFloat(nil, f)), nil
	}),
	"time": scalar(`"`, "an RFC 3339 formatted date and time string", func(text []byte) (string, error) {
		at, exact, err := chrono.Parse(serdejson.Unquote(text))
		return `"` + chrono.Text(at, exact) + `"`, err
	}),
}

// scalar is a value that begins with one of the characters of first, or with any if first is empty;
// value converts it as the original does.
func scalar(first, expected string, value func(text []byte) (string, error)) shape {
	return func(r *reader) bool {
		if first != "" && strings.IndexByte(first, r.s.Peek()) < 0 {
			return r.mismatch(expected)
		}
		text, ok := r.s.Value()
		if !ok {
			return false
		}
		written, err := value(text)
		if err != nil {
			return r.fail("%s", err.Error())
		}
		r.write(written)
		return true
	}
}

// unit is null; nothing is written for it.
var unit = scalar("n", "unit", func([]byte) (string, error) { return "", nil })

func asItIs(text []byte) (string, error) { return string(text), nil }

func unsigned(name string, largest uint64) shape {
	return scalar(numberFirst, name, func(text []byte) (string, error) {
		_, err := serdejson.Uint(text, largest, name)
		return string(text), err
	})
}

// optional is a value or null.
func optional(of shape) shape {
	return func(r *reader) bool {
		if r.s.Peek() == 'n' {
			return scalars["any"](r)
		}
		return of(r)
	}
}

func list(of shape) shape {
	return func(r *reader) bool {
		if r.s.Peek() != '[' {
			return r.mismatch("a sequence")
		}
		r.write("[")
		body := len(r.out)
		for range r.s.Elements() {
			if len(r.out) > body {
				r.write(",")
			}
			if !of(r) {
				return r.settle(']')
			}
		}
		r.write("]")
		return r.s.Reason() == ""
	}
}

// word is an enum without data: a string, or an object whose only member is that word with null.
func word(words []string) shape {
	return func(r *reader) bool {
		read := r.wordInObject
		switch c := r.s.Peek(); {
		case c == '"':
			read = r.variant
		case c == '{' && r.loose:
			read = r.heldWord
		case c == '{':
		case r.loose:
			return r.mismatch("string or map")
		default:
			return r.s.FailIn("a value", "expected value")
		}
		at, ok := read(words)
		if ok {
			r.write(`"` + words[at] + `"`)
		}
		return ok
	}
}

// variant reads one of the words, and returns its index.
func (r *reader) variant(words []string) (int, bool) {
	quoted, ok := r.s.Value()
	if !ok {
		return 0, false
	}
	return r.find(words, quoted)
}

// find returns the index of a word.
func (r *reader) find(words []string, quoted []byte) (int, bool) {
	at, err := serdejson.Variant(quoted, words)
	if err != nil {
		return 0, r.fail("%s", err)
	}
	return at, true
}

func (r *reader) wordInObject(words []string) (int, bool) {
	if !r.s.Enter() {
		return 0, false
	}
	switch r.s.Peek() {
	case '"':
	case '}':
		return 0, r.s.PeekFail("expected value")
	default:
		return 0, r.s.FailIn("an object", "key must be a string")
	}
	at, ok := r.variant(words)
	if !ok || !r.s.Colon() || !unit(r) {
		return 0, false
	}
	if r.s.Peek() != '}' && !r.s.AtEnd() {
		return 0, r.s.Fail("expected value")
	}
	_, _, ok = r.s.NextKey(false)
	return at, ok
}

// heldWord is wordInObject for an object that the original already holds in memory; an empty object
// stands for null there.
func (r *reader) heldWord(words []string) (int, bool) {
	var name, inner []byte
	members := 0
	for name = range r.s.Elements() {
		inner, _ = r.s.Value()
		members++
	}
	switch {
	case r.s.Reason() != "":
		return 0, false
	case members != 1:
		return 0, r.fail("invalid value: map, expected map with a single key")
	}
	at, ok := r.find(words, name)
	if c, _ := serdejson.AppendCanonical(nil, inner); ok && string(c) != "null" && string(c) != "{}" {
		return 0, r.fail("invalid type: %s, expected unit", serdejson.Unexpected(inner))
	}
	return at, ok
}
