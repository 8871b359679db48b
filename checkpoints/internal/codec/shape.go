package codec

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// How the original's library (serde, with derived readers) turns JSON into its types. A shape reads
// one type: it says what the original would say about a value that does not fit and, on request,
// writes the value as the original would, with defaults filled in and unknown members gone. The
// types themselves are in schema.go.

// A shape reads a value where the reader stands; false means that it did not fit, and the reader knows why.
type shape func(r *reader) bool

// A reader reads a document by shapes.
type reader struct {
	s *serdejson.Scanner
	// out gets the canonical form; nothing is written while check is set.
	out   []byte
	check bool
	// plain keeps free-form values as they are, and leaves out what Go's zero value says.
	plain    bool
	document []byte
	// loose is set inside a tagged enum, whose members the original holds in memory before it reads
	// them: what is wrong there has no position of its own and gets that of the struct or list around
	// the enum.
	loose  bool
	reason string // what is wrong, while it has no position yet
}

func (r *reader) fail(format string, args ...any) bool {
	r.reason = fmt.Sprintf(format, args...)
	if !r.loose {
		r.s.Fail(r.reason)
	}
	return false
}

// settle gives what went wrong inside an object or array a position. The original first looks for
// its end, and steps over that or, in an array, over a comma and blanks.
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

// mismatch reports a value of another kind than expected. Of an array or object nothing is consumed.
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

// scalar reads a value whose first character is one of those in first.
func (r *reader) scalar(first func(byte) bool, expected string) ([]byte, bool) {
	if !first(r.s.Peek()) {
		return nil, r.mismatch(expected)
	}
	return r.s.Value()
}

func isQuote(c byte) bool  { return c == '"' }
func isNumber(c byte) bool { return c == '-' || '0' <= c && c <= '9' }
func isBool(c byte) bool   { return c == 't' || c == 'f' }

func text(r *reader) bool {
	t, ok := r.scalar(isQuote, "a string")
	if ok && !r.check {
		r.out = serdejson.AppendCanonical(r.out, t)
	}
	return ok
}

func boolean(r *reader) bool {
	t, ok := r.scalar(isBool, "a boolean")
	if ok {
		r.write(string(t))
	}
	return ok
}

func float(r *reader) bool {
	t, ok := r.scalar(isNumber, "f64")
	if ok && !r.check {
		f, _ := strconv.ParseFloat(string(t), 64) // the scanner has checked the range
		r.out = serdejson.AppendFloat(r.out, f)
	}
	return ok
}

var (
	u32   = unsigned("u32", math.MaxUint32)
	u64   = unsigned("u64", math.MaxUint64)
	usize = unsigned("usize", math.MaxUint64)
)

func unsigned(name string, largest uint64) shape {
	return func(r *reader) bool {
		t, ok := r.scalar(isNumber, name)
		if !ok {
			return false
		}
		switch n := serdejson.ParseNumber(t); {
		case n.Kind == 'f':
			return r.fail("invalid type: %s, expected %s", serdejson.Unexpected(t), name)
		case n.Kind == 'i' || n.Uint > largest:
			return r.fail("invalid value: %s, expected %s", serdejson.Unexpected(t), name)
		}
		r.write(string(t))
		return true
	}
}

func instant(r *reader) bool {
	t, ok := r.scalar(isQuote, "an RFC 3339 formatted date and time string")
	if !ok {
		return false
	}
	at, exact, err := chrono.Parse(serdejson.Unquote(t))
	if err != nil {
		return r.fail("%s", err.Error())
	}
	r.write(`"` + chrono.Text(at, exact) + `"`)
	return true
}

// anything is free-form JSON.
func anything(r *reader) bool {
	t, ok := r.s.Value()
	switch {
	case !ok || r.check:
	case r.plain:
		r.out = append(r.out, t...)
	default:
		r.out = serdejson.AppendCanonical(r.out, t)
	}
	return ok
}

// anyMap is an object of free-form members.
func anyMap(r *reader) bool {
	if r.s.Peek() != '{' {
		return r.mismatch("a map")
	}
	return anything(r)
}

// optional is a value or null.
func optional(of shape) shape {
	return func(r *reader) bool {
		if r.s.Peek() != 'n' {
			return of(r)
		}
		_, ok := r.s.Value()
		r.write("null")
		return ok
	}
}

func list(of shape) shape {
	return func(r *reader) bool {
		if r.s.Peek() != '[' {
			return r.mismatch("a sequence")
		}
		if !r.s.Enter() {
			return false
		}
		r.write("[")
		for first := true; ; first = false {
			more, ok := r.s.NextElement(first)
			if !ok {
				return false
			}
			if !more {
				r.write("]")
				return true
			}
			if !first {
				r.write(",")
			}
			if !of(r) {
				return r.settle(']')
			}
		}
	}
}

// word is an enum without data: a string, or an object whose only member is that word with null.
func word(words ...string) shape {
	return func(r *reader) bool {
		at, ok := 0, false
		switch c := r.s.Peek(); {
		case c == '"':
			at, ok = r.variant(words)
		case c != '{' && r.loose:
			return r.mismatch("string or map")
		case r.s.AtEnd():
			return r.s.PeekFail("EOF while parsing a value")
		case c != '{':
			return r.s.PeekFail("expected value")
		case r.loose:
			at, ok = r.heldWord(words)
		default:
			at, ok = r.wordInObject(words)
		}
		if ok {
			r.write(`"` + words[at] + `"`)
		}
		return ok
	}
}

// variant reads one of the words, and gives its place.
func (r *reader) variant(words []string) (int, bool) {
	quoted, ok := r.s.Value()
	if !ok {
		return 0, false
	}
	return r.find(words, quoted)
}

// find gives the place of a word.
func (r *reader) find(words []string, quoted []byte) (int, bool) {
	at := slices.IndexFunc(words, func(w string) bool { return serdejson.KeyIs(quoted, w) })
	if at < 0 {
		return 0, r.fail("unknown variant `%s`, expected %s", serdejson.Unquote(quoted), serdejson.OneOf(words))
	}
	return at, true
}

func (r *reader) wordInObject(words []string) (int, bool) {
	if !r.s.Enter() {
		return 0, false
	}
	switch c := r.s.Peek(); {
	case c == '"':
	case c == '}':
		return 0, r.s.PeekFail("expected value")
	case r.s.AtEnd():
		return 0, r.s.PeekFail("EOF while parsing an object")
	default:
		return 0, r.s.PeekFail("key must be a string")
	}
	at, ok := r.variant(words)
	if !ok {
		return 0, false
	}
	switch c := r.s.Peek(); {
	case r.s.AtEnd():
		return 0, r.s.PeekFail("EOF while parsing an object")
	case c != ':':
		return 0, r.s.PeekFail("expected `:`")
	}
	r.s.Seek(r.s.Pos() + 1)
	if r.s.Peek() != 'n' {
		return 0, r.mismatch("unit")
	}
	if _, ok := r.s.Value(); !ok {
		return 0, false
	}
	switch c := r.s.Peek(); {
	case r.s.AtEnd():
		return 0, r.s.Fail("EOF while parsing an object")
	case c != '}':
		return 0, r.s.Fail("expected value")
	}
	_, _, ok = r.s.NextKey(false)
	return at, ok
}

// heldWord is wordInObject for an object that the original already holds in memory; an empty object
// stands for null there.
func (r *reader) heldWord(words []string) (int, bool) {
	if !r.s.Enter() {
		return 0, false
	}
	var name, inner []byte
	members := 0
	for ; ; members++ {
		key, more, ok := r.s.NextKey(members == 0)
		if !ok {
			return 0, false
		}
		if !more {
			break
		}
		name = key
		if inner, ok = r.s.Value(); !ok {
			return 0, false
		}
	}
	if members != 1 {
		return 0, r.fail("invalid value: map, expected map with a single key")
	}
	at, ok := r.find(words, name)
	if c := string(serdejson.AppendCanonical(nil, inner)); ok && c != null && c != emptyMap {
		return 0, r.fail("invalid type: %s, expected unit", serdejson.Unexpected(inner))
	}
	return at, ok
}
