package workers

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"selvedge/internal/serdejson"
)

// A DecodeError says why a text is not what the original reads, in the words of its library.
type DecodeError struct{ Reason string }

func (e *DecodeError) Error() string { return e.Reason }

func decodeErrorf(format string, args ...any) error {
	return &DecodeError{Reason: fmt.Sprintf(format, args...)}
}

// A structure is a struct of the original as its derived reader sees it: an object, or an array of its fields in order.
type structure struct {
	name     string   // as error texts call it
	fields   []string // in order of declaration
	required int      // an array must have at least this many elements
	inner    map[string]shape
}

// A shape is that of a field which is a structure, or a list of them.
type shape struct {
	of   *structure
	list bool
}

// check reports why the original would not read text, as far as that lies in the text alone. What stands in members that a
// structure doesn't know is only skipped there: to any depth, and whatever its numbers and surrogates mean.
func (st *structure) check(text []byte) error {
	if !utf8.Valid(text) {
		return &DecodeError{Reason: serdejson.NotUTF8}
	}
	s := serdejson.NewScanner(text)
	if (shape{of: st}).skip(s) {
		if s.Peek(); !s.AtEnd() {
			s.PeekFail("trailing characters")
		}
	}
	if reason := s.Reason(); reason != "" {
		return &DecodeError{Reason: reason}
	}
	return nil
}

// skip reads over a value of the shape; the zero shape is any value.
func (sh shape) skip(s *serdejson.Scanner) bool {
	c := s.Peek()
	object := c == '{' && !sh.list
	if sh.of == nil || !object && c != '[' {
		_, ok := s.Value()
		return ok
	}
	if !s.Enter() {
		return false
	}
	for i := 0; ; i++ {
		key, more, ok := []byte(nil), false, false
		if object {
			key, more, ok = s.NextKey(i == 0)
		} else {
			more, ok = s.NextElement(i == 0)
		}
		if !ok || !more {
			return ok
		}
		switch {
		case sh.list:
			ok = shape{of: sh.of}.skip(s)
		case object && sh.of.at(key) < 0:
			ok = s.Ignore()
		case object:
			ok = sh.of.shapeAt(sh.of.at(key)).skip(s)
		default:
			ok = sh.of.shapeAt(i).skip(s)
		}
		if !ok {
			return false
		}
	}
}

// at is the place of the field with that key; -1 where there is none.
func (st *structure) at(key []byte) int {
	return slices.IndexFunc(st.fields, func(name string) bool { return serdejson.KeyIs(key, name) })
}

func (st *structure) shapeAt(i int) shape {
	if i >= len(st.fields) {
		return shape{}
	}
	return st.inner[st.fields[i]]
}

// fields are the values of a structure's fields by place; nil where one is absent. The first error stays and stops the
// rest, so that a reader takes field after field and asks once.
type fields struct {
	of     *structure
	values [12][]byte
	err    error
}

// A member is a member of an object, or with a nil key an element of an array, as it stands in a text that check has
// accepted.
type member struct{ key, value []byte }

func membersOf(text []byte) (list []member, array bool) {
	s := serdejson.NewScanner(text)
	array = s.Peek() == '['
	s.Enter()
	for first := true; ; first = false {
		var m member
		var more bool
		if array {
			more, _ = s.NextElement(first)
		} else {
			m.key, more, _ = s.NextKey(first)
		}
		if !more {
			return list, array
		}
		m.value = valueAt(s, text)
		list = append(list, m)
	}
}

// valueAt steps over the next value of a text that check has accepted.
func valueAt(s *serdejson.Scanner, text []byte) []byte {
	s.Peek()
	start := s.Pos()
	s.Ignore()
	return text[start:s.Pos()]
}

// read takes the structure out of a value.
func (st *structure) read(text []byte) fields {
	if c := text[0]; c != '{' && c != '[' {
		return fields{of: st, err: decodeErrorf("invalid type: %s, expected %s", serdejson.Unexpected(text), st.name)}
	}
	return st.take(membersOf(text))
}

func (st *structure) take(members []member, array bool) fields {
	f := fields{of: st}
	if array {
		switch n := len(members); {
		case n < st.required:
			f.fail("invalid length %d, expected %s with %s", n, st.name, elements(len(st.fields)))
		case n > len(st.fields):
			f.fail("invalid length %d, expected %s in sequence", n, elements(len(st.fields)))
		default:
			for i, m := range members {
				f.values[i] = m.value
			}
		}
		return f
	}
	for _, m := range members {
		i := st.at(m.key)
		if i < 0 {
			continue
		}
		if f.values[i] != nil {
			f.fail("duplicate field `%s`", st.fields[i])
		}
		f.values[i] = m.value
	}
	return f
}

func elements(n int) string {
	if n == 1 {
		return "1 element"
	}
	return fmt.Sprintf("%d elements", n)
}

func (f *fields) fail(format string, args ...any) { f.keep(decodeErrorf(format, args...)) }

func (f *fields) keep(err error) {
	if f.err == nil {
		f.err = err
	}
}

// need is a field that must be there.
func (f *fields) need(i int) []byte {
	if f.values[i] == nil {
		f.fail("missing field `%s`", f.of.fields[i])
	}
	if f.err != nil {
		return nil
	}
	return f.values[i]
}

// given is a field that may be absent or null.
func (f *fields) given(i int) []byte {
	if f.err != nil || len(f.values[i]) == 0 || f.values[i][0] == 'n' {
		return nil
	}
	return f.values[i]
}

func decodeString(text []byte) (string, error) {
	if text[0] != '"' {
		return "", decodeErrorf("invalid type: %s, expected a string", serdejson.Unexpected(text))
	}
	return serdejson.Unquote(text), nil
}

func (f *fields) text(i int) string {
	text := f.need(i)
	if text == nil {
		return ""
	}
	s, err := decodeString(text)
	f.keep(err)
	return s
}

func (f *fields) optionalText(i int) *string {
	text := f.given(i)
	if text == nil {
		return nil
	}
	s, err := decodeString(text)
	f.keep(err)
	return &s
}

// number reads an unsigned number of the original's type of that name.
func (f *fields) number(i int, typeName string) uint64 {
	text := f.need(i)
	if text == nil {
		return 0
	}
	if !serdejson.IsNumber(text) {
		f.fail("invalid type: %s, expected %s", serdejson.Unexpected(text), typeName)
		return 0
	}
	n := serdejson.ParseNumber(text)
	switch {
	case n.Kind == 'f':
		f.fail("invalid type: %s, expected %s", serdejson.Unexpected(text), typeName)
	case n.Kind == 'i' || typeName == "u32" && n.Uint > math.MaxUint32:
		f.fail("invalid value: %s, expected %s", serdejson.Unexpected(text), typeName)
	}
	return n.Uint
}

// word reads an enum without data: its word, or an object with a null at its word.
func (f *fields) word(i int, words []string) string {
	text := f.need(i)
	if text == nil {
		return ""
	}
	if text[0] == '{' {
		members, _ := membersOf(text)
		if len(members) != 1 {
			f.fail("invalid value: map, expected map with a single key")
			return ""
		}
		word, err := variant(members[0].key, words)
		f.keep(err)
		if value := members[0].value; value[0] != 'n' {
			f.fail("invalid type: %s, expected unit", serdejson.Unexpected(value))
		}
		return word
	}
	if text[0] != '"' {
		f.fail("invalid type: %s, expected string or map", serdejson.Unexpected(text))
		return ""
	}
	word, err := variant(text, words)
	f.keep(err)
	return word
}

func variant(text []byte, words []string) (string, error) {
	word, err := decodeString(text)
	if err != nil {
		return "", decodeErrorf("invalid type: %s, expected variant identifier", serdejson.Unexpected(text))
	}
	for _, w := range words {
		if w == word {
			return w, nil
		}
	}
	return word, decodeErrorf("unknown variant `%s`, expected %s", word, serdejson.OneOf(words))
}

// tagged reads an enum whose variant stands in a member "kind", or first in an array. With an error about an unknown
// variant it gives the word all the same.
func tagged(text []byte, enum string, words []string) (word string, rest []member, array bool, err error) {
	if text[0] != '{' && text[0] != '[' {
		return "", nil, false, decodeErrorf("invalid type: %s, expected internally tagged enum %s", serdejson.Unexpected(text), enum)
	}
	members, array := membersOf(text)
	at := -1
	for i, m := range members {
		if array && i == 0 || !array && serdejson.KeyIs(m.key, "kind") {
			if at >= 0 {
				return "", nil, array, decodeErrorf("duplicate field `kind`")
			}
			at = i
		}
	}
	if at < 0 {
		return "", nil, array, decodeErrorf("missing field `kind`")
	}
	tag := members[at].value
	rest = append(append(rest, members[:at]...), members[at+1:]...)
	word, err = variant(tag, words)
	return word, rest, array, err
}
