package serdejson

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
)

// maxLevels is the number of nested arrays and objects that the originals read.
const maxLevels = 127

// A Scanner has a position in a document, which must be valid UTF-8. It returns parts of the document
// and copies nothing. After a failure its methods return false, and Reason says why.
type Scanner struct {
	data    []byte
	pos     int
	keyEnd  int  // after the last key, before its colon
	levels  int  // how many more levels of arrays and objects may be opened
	lenient bool // in what the originals skip: numbers and surrogates are not checked
	reason  string
}

// NewScanner returns a scanner at the beginning of data.
func NewScanner(data []byte) *Scanner { return &Scanner{data: data, levels: maxLevels} }

// NewSkimmer returns a scanner for a document that was accepted. It reads all of it as Ignore does,
// since what the originals skip may be nested deeper than what they read, and may hold numbers and
// surrogates that they refuse elsewhere.
func NewSkimmer(data []byte) *Scanner {
	return &Scanner{data: data, levels: math.MaxInt, lenient: true}
}

// Reason is the first failure, in the words of the originals with line and column; "" if there was
// none.
func (s *Scanner) Reason() string { return s.reason }

// Pos is the scanner's position, in bytes from the beginning of the document.
func (s *Scanner) Pos() int { return s.pos }

// Seek goes to another position at the same depth.
func (s *Scanner) Seek(pos int) { s.pos = pos }

// SeekKeyEnd goes back to the end of the key that NextKey read last.
func (s *Scanner) SeekKeyEnd() { s.pos = s.keyEnd }

// Fail reports what was just consumed.
func (s *Scanner) Fail(reason string) bool { return s.failAt(reason, s.pos) }

// PeekFail reports the next character.
func (s *Scanner) PeekFail(reason string) bool { return s.failAt(reason, min(len(s.data), s.pos+1)) }

// FailIn is PeekFail or, at the end, reports that the text ended while parsing what.
func (s *Scanner) FailIn(what, reason string) bool {
	if s.AtEnd() {
		reason = "EOF while parsing " + what
	}
	return s.PeekFail(reason)
}

func (s *Scanner) failAt(reason string, at int) bool {
	if s.reason == "" {
		start := bytes.LastIndexByte(s.data[:at], '\n') + 1
		line := 1 + bytes.Count(s.data[:start], []byte{'\n'})
		s.reason = fmt.Sprintf("%s at line %d column %d", reason, line, at-start)
	}
	return false
}

// Peek skips blanks and returns the next character, 0 at the end. (A NUL is not JSON either.)
func (s *Scanner) Peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// AtEnd reports whether nothing is left.
func (s *Scanner) AtEnd() bool { return s.pos >= len(s.data) }

// Value skips one value and returns its text.
func (s *Scanner) Value() ([]byte, bool) {
	c := s.Peek()
	start := s.pos
	ok := false
	switch {
	case c == '"':
		ok = s.text()
	case c == '{' || c == '[':
		ok = s.nested()
	case c == '-' || isDigit(c):
		ok = s.number()
	case c == 'n':
		ok = s.literal("null")
	case c == 't':
		ok = s.literal("true")
	case c == 'f':
		ok = s.literal("false")
	default:
		s.FailIn("a value", "expected value")
	}
	return s.data[start:s.pos], ok
}

// Ignore skips a value as the originals skip members that they don't know: to any depth, without
// checking numbers and surrogates. It returns the value's text.
func (s *Scanner) Ignore() ([]byte, bool) {
	defer func(was bool) { s.lenient = was }(s.lenient)
	s.lenient = true
	s.Peek()
	start := s.pos
	var open []byte // no recursion: a hostile document could exhaust the stack, which ends a Go program
	for {
		c := s.Peek()
		first := c == '{' || c == '['
		if first {
			open = append(open, c)
			s.levels--
			s.pos++
		} else if _, ok := s.Value(); !ok {
			return nil, false
		}
		for more := false; !more; first = false {
			if len(open) == 0 {
				return s.data[start:s.pos], true
			}
			var ok bool
			if _, more, ok = s.next(open[len(open)-1], first); !ok {
				return nil, false
			}
			if !more {
				open = open[:len(open)-1]
			}
		}
	}
}

func (s *Scanner) literal(word string) bool {
	for i := range len(word) {
		if !s.skip(word[i]) {
			return s.FailIn("a value", "expected ident")
		}
	}
	return true
}

// nested skips an array or an object.
func (s *Scanner) nested() bool {
	for range s.Elements() {
		s.Value()
	}
	return s.reason == ""
}

// Elements goes through the object or the array at the position, and yields the key of each member,
// or nil for each element. The body of the loop reads the value. A failure ends the loop: see
// [Scanner.Reason].
func (s *Scanner) Elements() iter.Seq[[]byte] {
	return func(yield func(key []byte) bool) {
		open := s.Peek()
		ok := s.Enter()
		for first := true; ok; first = false {
			key, more, _ := s.next(open, first)
			ok = more && yield(key) && s.reason == ""
		}
	}
}

// next is NextKey in an object, and NextElement in an array.
func (s *Scanner) next(open byte, first bool) (key []byte, more, ok bool) {
	if open == '{' {
		return s.NextKey(first)
	}
	more, ok = s.NextElement(first)
	return nil, more, ok
}

// Enter opens the array or object at the position.
func (s *Scanner) Enter() bool {
	if s.levels == 0 {
		return s.PeekFail("recursion limit exceeded")
	}
	s.levels--
	s.pos++
	return true
}

func (s *Scanner) leave() {
	s.levels++
	s.pos++
}

// NextKey reads the next key and its colon, or the closing brace. The position must be after '{' or
// after a member's value.
func (s *Scanner) NextKey(first bool) (key []byte, more, ok bool) {
	c, in, reason := s.Peek(), "an object", "key must be a string"
	switch {
	case c == '}':
		s.leave()
		return nil, false, true
	case first:
	case c != ',':
		return nil, false, s.FailIn(in, "expected `,` or `}`")
	default:
		s.pos++
		if c = s.Peek(); !s.lenient {
			in = "a value"
			if c == '}' {
				reason = "trailing comma"
			}
		}
	}
	if c != '"' {
		return nil, false, s.FailIn(in, reason)
	}
	start := s.pos
	if !s.text() {
		return nil, false, false
	}
	key, s.keyEnd = s.data[start:s.pos], s.pos
	if !s.Colon() {
		return nil, false, false
	}
	return key, true, true
}

// Colon skips the colon behind a key.
func (s *Scanner) Colon() bool {
	if s.Peek() != ':' {
		return s.FailIn("an object", "expected `:`")
	}
	s.pos++
	return true
}

// NextElement skips the comma or the closing bracket. The position must be after '[' or an element.
func (s *Scanner) NextElement(first bool) (more, ok bool) {
	switch c := s.Peek(); {
	case c == ']':
		s.leave()
		return false, true
	case first && !s.AtEnd():
		return true, true
	case c != ',':
		return false, s.FailIn("a list", "expected `,` or `]`")
	}
	s.pos++
	if c := s.Peek(); s.AtEnd() || c == ']' && !s.lenient {
		return false, s.FailIn("a value", "trailing comma")
	}
	return true, true
}

// number skips a number and checks that it is not beyond a float.
func (s *Scanner) number() bool {
	start := s.pos
	s.skip('-')
	whole := s.pos
	if !s.digits() {
		return false
	}
	if s.data[whole] == '0' && s.pos > whole+1 {
		s.pos = whole + 1
		return s.PeekFail("invalid number")
	}
	whole = s.pos
	if s.skip('.') && !s.digits() {
		return false
	}
	significant := s.data[start:s.pos]
	if (s.skip('e') || s.skip('E')) && !s.exponent(significant) {
		return false
	}
	// Fewer than 300 digits without an exponent stay below the largest float, about 1.8e308.
	if s.lenient || s.pos == whole && s.pos-start < 300 {
		return true
	}
	if _, err := strconv.ParseFloat(string(s.data[start:s.pos]), 64); err != nil {
		return s.Fail("number out of range")
	}
	return true
}

// exponent skips what follows the significant digits and the e. The originals refuse an exponent at
// the digit that exceeds 32 bits, unless the number is 0 anyway.
func (s *Scanner) exponent(significant []byte) bool {
	negative := s.skip('-')
	if !negative {
		s.skip('+')
	}
	start := s.pos
	if !s.digits() {
		return false
	}
	if s.lenient || negative || !bytes.ContainsAny(significant, "123456789") {
		return true
	}
	n := 0
	for i, c := range s.data[start:s.pos] {
		if n = 10*n + int(c-'0'); n > math.MaxInt32 {
			s.pos = start + i + 1
			return s.Fail("number out of range")
		}
	}
	return true
}

// skip skips a character, and reports whether it was there.
func (s *Scanner) skip(c byte) bool {
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// digits skips digits, at least one.
func (s *Scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	switch {
	case s.pos > start:
		return true
	case s.lenient:
		return s.PeekFail("invalid number")
	}
	return s.FailIn("a value", "invalid number")
}

// text skips a string, quotes included.
func (s *Scanner) text() bool {
	s.pos++
	for {
		s.pos += plainPrefix(s.data[s.pos:])
		if s.AtEnd() {
			return s.Fail("EOF while parsing a string")
		}
		c := s.data[s.pos]
		s.pos++
		switch {
		case c == '"':
			return true
		case c != '\\':
			if s.lenient {
				s.pos-- // the originals stop before it there
			}
			return s.Fail("control character (\\u0000-\\u001F) found while parsing a string")
		case !s.escape():
			return false
		}
	}
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// plainPrefix is the number of bytes before the first quote, backslash or control character. It
// looks at eight bytes at a time: in hits, the high bit of an ASCII byte is set if that byte is one
// of the three. A borrow can only set bits above the first true hit, so the lowest one is always
// right.
func plainPrefix(b []byte) int {
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n : n+8])
		quote := w ^ everyByte*'"'
		slash := w ^ everyByte*'\\'
		hits := (quote - everyByte) | (slash - everyByte) | (w - everyByte*0x20)
		if hits &= highBits &^ w; hits != 0 {
			return n + bits.TrailingZeros64(hits)/8
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
	}
	return n
}

// escape skips what follows a backslash.
func (s *Scanner) escape() bool {
	switch {
	case !s.AtEnd() && strings.IndexByte(`"\/bfnrt`, s.data[s.pos]) >= 0:
		s.pos++
		return true
	case !s.skip('u'):
		return s.FailIn("a string", "invalid escape")
	}
	unit, ok := s.hex()
	switch {
	case !ok:
		return false
	case s.lenient || !utf16.IsSurrogate(unit):
		return true
	case unit >= 0xDC00:
		return s.Fail("lone leading surrogate in hex escape")
	}
	if !s.skip('\\') || !s.skip('u') {
		return s.FailIn("a string", "unexpected end of hex escape")
	}
	unit, ok = s.hex()
	if ok && (unit < 0xDC00 || unit > 0xDFFF) {
		return s.Fail("lone leading surrogate in hex escape")
	}
	return ok
}

func (s *Scanner) hex() (rune, bool) {
	if len(s.data)-s.pos < 4 {
		s.pos = len(s.data)
		return 0, s.Fail("EOF while parsing a string")
	}
	s.pos += 4
	unit, ok := hexUnit(s.data[s.pos-4:])
	return unit, ok || s.Fail("invalid escape")
}

func hexUnit(b []byte) (unit rune, ok bool) {
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}
