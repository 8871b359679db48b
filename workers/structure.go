package workers

import (
	"slices"
	"unicode/utf8"

	"selvedge/internal/serdejson"
)

// A structure is a struct as the old program's derived reader sees it: an object, or an array of
// its fields in order.
type structure struct {
	name     string   // in error texts
	names    []string // of the fields, in order of declaration
	fields   []field
	required int // an array must have at least this many elements
}

// A shape is the shape of a field: a structure, a list of them, or any value.
type shape struct {
	of   *structure
	list bool
}

// check reports a text that can't be read because of its syntax. Members that a structure doesn't
// know are only skipped: to any depth, and whatever their numbers and surrogates mean.
func (st *structure) check(text []byte) error {
	if !utf8.Valid(text) {
		return &serdejson.DecodeError{Reason: serdejson.NotUTF8}
	}
	s := serdejson.NewScanner(text)
	if (shape{of: st}).skip(s) {
		if s.Peek(); !s.AtEnd() {
			s.PeekFail("trailing characters")
		}
	}
	if reason := s.Reason(); reason != "" {
		return &serdejson.DecodeError{Reason: reason}
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

// at returns the index of the field with that key; -1 if there is none.
func (st *structure) at(key []byte) int {
	return slices.IndexFunc(st.names, func(name string) bool { return serdejson.KeyIs(key, name) })
}

func (st *structure) shapeAt(i int) shape {
	if i >= len(st.fields) {
		return shape{}
	}
	return st.fields[i].shape
}

// values are the values of a structure's fields in a text.
type values struct{ serdejson.Fields }

// A member is a member of an object, or with a nil key an element of an array, as it stands in a
// text that check has accepted.
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

// trimBlanks returns the one value of a text that check has accepted.
func trimBlanks(text []byte) []byte { return valueAt(serdejson.NewScanner(text), text) }

// valueAt steps over the next value of a text that check has accepted.
func valueAt(s *serdejson.Scanner, text []byte) []byte {
	s.Peek()
	start := s.Pos()
	s.Ignore()
	return text[start:s.Pos()]
}

// read returns the values of the fields in a value.
func (st *structure) read(text []byte) values {
	if c := text[0]; c != '{' && c != '[' {
		return values{serdejson.Fields{
			Names: st.names,
			Err:   serdejson.Errorf("invalid type: %s, expected %s", serdejson.Unexpected(text), st.name),
		}}
	}
	return st.take(membersOf(text))
}

func (st *structure) take(members []member, array bool) values {
	f := values{serdejson.Fields{Names: st.names}}
	if array {
		switch n := len(members); {
		case n < st.required:
			f.Fail("invalid length %d, expected %s with %s", n, st.name, serdejson.Count(len(st.names), "element"))
		case n > len(st.names):
			f.Fail("invalid length %d, expected %s in sequence", n, serdejson.Count(len(st.names), "element"))
		default:
			for i, m := range members {
				f.Values[i] = m.value
			}
		}
		return f
	}
	for _, m := range members {
		i := st.at(m.key)
		if i < 0 {
			continue
		}
		if f.Values[i] != nil {
			f.Fail("duplicate field `%s`", st.names[i])
		}
		f.Values[i] = m.value
	}
	return f
}

// word reads an enum without data: its word, or an object with a null at its word.
func (f *values) word(i int, words []string) string {
	text := f.Need(i)
	if text == nil {
		return ""
	}
	var unit []byte
	switch text[0] {
	case '"':
	case '{':
		members, _ := membersOf(text)
		if len(members) != 1 {
			f.Fail("invalid value: map, expected map with a single key")
			return ""
		}
		text, unit = members[0].key, members[0].value
	default:
		f.Fail("invalid type: %s, expected string or map", serdejson.Unexpected(text))
		return ""
	}
	word, err := variant(text, words)
	f.Keep(err)
	if unit != nil && unit[0] != 'n' {
		f.Fail("invalid type: %s, expected unit", serdejson.Unexpected(unit))
	}
	return word
}

func variant(text []byte, words []string) (string, error) {
	word, err := serdejson.String(text)
	if err != nil {
		return "", serdejson.Errorf("invalid type: %s, expected variant identifier", serdejson.Unexpected(text))
	}
	if slices.Contains(words, word) {
		return word, nil
	}
	return word, serdejson.Errorf("unknown variant `%s`, expected %s", word, serdejson.OneOf(words))
}

// tagged reads an enum with its variant in a member "kind", or first in an array. With an error
// about an unknown variant it also returns the word.
func tagged(text []byte, enum string, words []string) (word string, rest []member, array bool, err error) {
	if text[0] != '{' && text[0] != '[' {
		return "", nil, false, serdejson.Errorf("invalid type: %s, expected internally tagged enum %s",
			serdejson.Unexpected(text), enum)
	}
	members, array := membersOf(text)
	at := -1
	for i, m := range members {
		if array && i == 0 || !array && serdejson.KeyIs(m.key, "kind") {
			if at >= 0 {
				return "", nil, array, serdejson.Errorf("duplicate field `kind`")
			}
			at = i
		}
	}
	if at < 0 {
		return "", nil, array, serdejson.Errorf("missing field `kind`")
	}
	tag := members[at].value
	word, err = variant(tag, words)
	return word, slices.Delete(members, at, at+1), array, err
}
