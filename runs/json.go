package runs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A small strict JSON scanner with the rules of the original's serde_json: 127 levels at most, no lone surrogates, no
// number beyond a float, and its error texts with line and column. It hands out spans of the input and copies nothing.
// Input must be valid UTF-8; whoever starts a scan checks that.

// maxLevels is the number of nested arrays and objects in a line that the original reads.
const maxLevels = 127

// scanner stands at data[pos]. After a failure reason is set and its methods answer false.
type scanner struct {
	data   []byte
	pos    int
	levels int // arrays and objects that may still be opened
	reason string
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// fail reports what was just consumed, peekFail the next character; the original counts columns that way.
func (s *scanner) fail(reason string) bool { return s.failAt(reason, s.pos) }

func (s *scanner) peekFail(reason string) bool { return s.failAt(reason, min(len(s.data), s.pos+1)) }

func (s *scanner) failAt(reason string, at int) bool {
	if s.reason == "" {
		s.reason = reason + position(s.data, at)
	}
	return false
}

func position(data []byte, at int) string {
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	return fmt.Sprintf(" at line %d column %d", 1+bytes.Count(data[:start], []byte{'\n'}), at-start)
}

// peek skips blanks and returns the next character, 0 at the end. (A NUL in the input is no JSON either.)
func (s *scanner) peek() byte {
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

func (s *scanner) atEnd() bool { return s.pos >= len(s.data) }

// value skips one value and returns its text.
func (s *scanner) value() ([]byte, bool) {
	c := s.peek()
	start := s.pos
	ok := false
	switch {
	case c == '"':
		ok = s.text()
	case c == '{' || c == '[':
		ok = s.nested(c)
	case c == '-' || isDigit(c):
		ok = s.number()
	case c == 'n':
		ok = s.literal("null")
	case c == 't':
		ok = s.literal("true")
	case c == 'f':
		ok = s.literal("false")
	case s.atEnd():
		s.peekFail("EOF while parsing a value")
	default:
		s.peekFail("expected value")
	}
	return s.data[start:s.pos], ok
}

func (s *scanner) literal(word string) bool {
	for i := range len(word) {
		if s.atEnd() {
			return s.fail("EOF while parsing a value")
		}
		s.pos++
		if s.data[s.pos-1] != word[i] {
			return s.fail("expected ident")
		}
	}
	return true
}

// nested skips an array or an object.
func (s *scanner) nested(open byte) bool {
	if !s.enter() {
		return false
	}
	for first := true; ; first = false {
		var more, ok bool
		if open == '{' {
			_, more, ok = s.nextKey(first)
		} else {
			more, ok = s.nextElement(first)
		}
		if !ok || !more {
			return ok
		}
		if _, ok := s.value(); !ok {
			return false
		}
	}
}

// enter opens the array or object at pos.
func (s *scanner) enter() bool {
	if s.levels == 0 {
		return s.peekFail("recursion limit exceeded")
	}
	s.levels--
	s.pos++
	return true
}

func (s *scanner) leave() {
	s.levels++
	s.pos++
}

// nextKey stands behind '{' or a member's value. It reads the next key and its colon, or the closing brace.
func (s *scanner) nextKey(first bool) (key []byte, more, ok bool) {
	c := s.peek()
	switch {
	case c == '}':
		s.leave()
		return nil, false, true
	case c == ',' && !first:
		s.pos++
		switch c = s.peek(); {
		case c == '"':
		case c == '}':
			return nil, false, s.peekFail("trailing comma")
		case s.atEnd():
			return nil, false, s.peekFail("EOF while parsing a value")
		default:
			return nil, false, s.peekFail("key must be a string")
		}
	case s.atEnd():
		return nil, false, s.peekFail("EOF while parsing an object")
	case !first:
		return nil, false, s.peekFail("expected `,` or `}`")
	case c != '"':
		return nil, false, s.peekFail("key must be a string")
	}
	start := s.pos
	if !s.text() {
		return nil, false, false
	}
	key = s.data[start:s.pos]
	if s.peek() != ':' {
		if s.atEnd() {
			return nil, false, s.peekFail("EOF while parsing an object")
		}
		return nil, false, s.peekFail("expected `:`")
	}
	s.pos++
	return key, true, true
}

// nextElement stands behind '[' or an element. It steps over the comma, or over the closing bracket.
func (s *scanner) nextElement(first bool) (more, ok bool) {
	c := s.peek()
	switch {
	case c == ']':
		s.leave()
		return false, true
	case s.atEnd():
		return false, s.peekFail("EOF while parsing a list")
	case first:
		return true, true
	case c != ',':
		return false, s.peekFail("expected `,` or `]`")
	}
	s.pos++
	c = s.peek()
	switch {
	case c == ']':
		return false, s.peekFail("trailing comma")
	case s.atEnd():
		return false, s.peekFail("EOF while parsing a value")
	}
	return true, true
}

// number skips a number and checks that it is not beyond a float.
func (s *scanner) number() bool {
	start := s.pos
	if s.data[s.pos] == '-' {
		s.pos++
	}
	switch {
	case s.atEnd():
		return s.fail("EOF while parsing a value")
	case s.data[s.pos] == '0':
		s.pos++
		if !s.atEnd() && isDigit(s.data[s.pos]) {
			return s.peekFail("invalid number")
		}
	case isDigit(s.data[s.pos]):
		s.digits()
	default:
		s.pos++
		return s.fail("invalid number")
	}
	whole := s.pos
	if !s.atEnd() && s.data[s.pos] == '.' {
		s.pos++
		if s.digits() == 0 {
			if s.atEnd() {
				return s.peekFail("EOF while parsing a value")
			}
			return s.peekFail("invalid number")
		}
	}
	if !s.atEnd() && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if !s.atEnd() && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if s.atEnd() {
			return s.fail("EOF while parsing a value")
		}
		if s.digits() == 0 {
			s.pos++
			return s.fail("invalid number")
		}
	}
	// Fewer than 300 digits without an exponent stay below the largest float, about 1.8e308.
	if s.pos == whole && s.pos-start < 300 {
		return true
	}
	if _, err := strconv.ParseFloat(string(s.data[start:s.pos]), 64); err != nil {
		return s.fail("number out of range")
	}
	return true
}

func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	return s.pos - start
}

// text skips a string, quotes included.
func (s *scanner) text() bool {
	s.pos++
	for {
		s.pos += plainPrefix(s.data[s.pos:])
		if s.atEnd() {
			return s.fail("EOF while parsing a string")
		}
		c := s.data[s.pos]
		s.pos++
		switch {
		case c == '"':
			return true
		case c != '\\':
			return s.fail("control character (\\u0000-\\u001F) found while parsing a string")
		case !s.escape():
			return false
		}
	}
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// plainPrefix is the number of bytes before the first quote, backslash or control character. It looks at eight bytes at a
// time: in hits, the high bit of a byte is set if that byte is one of the three. A borrow can only set bits above the
// first true hit, so the lowest one is always right.
func plainPrefix(b []byte) int {
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote := w ^ everyByte*'"'
		slash := w ^ everyByte*'\\'
		hits := ((quote - everyByte) &^ quote) | ((slash - everyByte) &^ slash) | ((w - everyByte*0x20) &^ w)
		if hits &= highBits; hits != 0 {
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
func (s *scanner) escape() bool {
	if s.atEnd() {
		return s.fail("EOF while parsing a string")
	}
	s.pos++
	switch s.data[s.pos-1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
	default:
		return s.fail("invalid escape")
	}
	unit, ok := s.hex()
	switch {
	case !ok:
		return false
	case unit < 0xD800 || unit > 0xDFFF:
		return true
	case unit >= 0xDC00:
		return s.fail("lone leading surrogate in hex escape")
	}
	for _, want := range []byte{'\\', 'u'} {
		if s.atEnd() {
			return s.fail("EOF while parsing a string")
		}
		s.pos++
		if s.data[s.pos-1] != want {
			return s.fail("unexpected end of hex escape")
		}
	}
	unit, ok = s.hex()
	if ok && (unit < 0xDC00 || unit > 0xDFFF) {
		return s.fail("lone leading surrogate in hex escape")
	}
	return ok
}

func (s *scanner) hex() (rune, bool) {
	if len(s.data)-s.pos < 4 {
		s.pos = len(s.data)
		return 0, s.fail("EOF while parsing a string")
	}
	s.pos += 4
	unit, ok := hexUnit(s.data[s.pos-4:])
	if !ok {
		return 0, s.fail("invalid escape")
	}
	return unit, true
}

func hexUnit(b []byte) (unit rune, ok bool) {
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			unit = unit<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			unit = unit<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return unit, true
}

// unquote reads a string that the scanner has accepted.
func unquote(text []byte) string {
	inner := text[1 : len(text)-1]
	next := bytes.IndexByte(inner, '\\')
	if next < 0 {
		return string(inner)
	}
	var out strings.Builder
	out.Grow(len(inner))
	for ; next >= 0; next = bytes.IndexByte(inner, '\\') {
		out.Write(inner[:next])
		c := inner[next+1]
		inner = inner[next+2:]
		switch c {
		case 'b':
			out.WriteByte('\b')
		case 'f':
			out.WriteByte('\f')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 't':
			out.WriteByte('\t')
		case 'u':
			r, _ := hexUnit(inner)
			inner = inner[4:]
			if utf16.IsSurrogate(r) {
				low, _ := hexUnit(inner[2:])
				r, inner = utf16.DecodeRune(r, low), inner[6:]
			}
			out.WriteRune(r)
		default:
			out.WriteByte(c)
		}
	}
	out.Write(inner)
	return out.String()
}

// keyIs compares a key as it stands in the input; keys with escapes are rare, so only they are decoded.
func keyIs(key []byte, name string) bool {
	if len(key) == len(name)+2 {
		return string(key[1:len(key)-1]) == name
	}
	return len(key) > len(name)+2 && bytes.IndexByte(key, '\\') >= 0 && unquote(key) == name
}

// appendQuoted writes a string as serde_json does: only what must be escaped is, with short forms where there are some
// and lower-case hex where not.
func appendQuoted(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(append(dst, '"'), s...)
	begin := len(dst) - len(s)
	plain := plainPrefix(dst[begin:])
	dst = dst[:begin+plain]
	start := plain
	for i := plain; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, s[start:]...), '"')
}

// checkJSON reports why the original would not read raw where above arrays and objects enclose it; "" if it would.
func checkJSON(raw []byte, above int) string {
	if !utf8.Valid(raw) {
		return notUTF8
	}
	s := scanner{data: raw, levels: maxLevels - above}
	if _, ok := s.value(); ok && s.peek() != 0 || !s.atEnd() {
		s.peekFail("trailing characters")
	}
	return s.reason
}
