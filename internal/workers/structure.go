package workers

import (
	"slices"
	"unicode/utf8"

	"selvedge/internal/serdejson"
)

// A DecodeError says why a text is not what the original reads, in the words of its library.
type DecodeError = serdejson.DecodeError

// A structure is a struct of the original as its derived reader sees it: an object, or an array of
// its fields in order.
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

// check reports why the original would not read text, as far as that lies in the text alone. What
// stands in members that a structure doesn't know is only skipped there: to any depth, and whatever
// its numbers and surrogates mean.
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

// fields are those of a structure.
type fields struct{ serdejson.Fields }

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
		return fields{serdejson.Fields{
			Names: st.fields,
			Err:   serdejson.Errorf("invalid type: %s, expected %s", serdejson.Unexpected(text), st.name),
		}}
	}
	return st.take(membersOf(text))
}

func (st *structure) take(members []member, array bool) fields {
	f := fields{serdejson.Fields{Names: st.fields}}
	if array {
		switch n := len(members); {
		case n < st.required:
			f.Fail("invalid length %d, expected %s with %s", n, st.name, serdejson.Count(len(st.fields), "element"))
		case n > len(st.fields):
			f.Fail("invalid length %d, expected %s in sequence", n, serdejson.Count(len(st.fields), "element"))
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
			f.Fail("duplicate field `%s`", st.fields[i])
		}
		f.Values[i] = m.value
	}
	return f
}

// word reads an enum without data: its word, or an object with a null at its word.
func (f *fields) word(i int, words []string) string {
	text := f.Need(i)
	if text == nil {
		return ""
	}
	if text[0] == '{' {
		members, _ := membersOf(text)
		if len(members) != 1 {
			f.Fail("invalid value: map, expected map with a single key")
			return ""
		}
		word, err := variant(members[0].key, words)
		f.Keep(err)
		if value := members[0].value; value[0] != 'n' {
			f.Fail("invalid type: %s, expected unit", serdejson.Unexpected(value))
		}
		return word
	}
	if text[0] != '"' {
		f.Fail("invalid type: %s, expected string or map", serdejson.Unexpected(text))
		return ""
	}
	word, err := variant(text, words)
	f.Keep(err)
	return word
}

func variant(text []byte, words []string) (string, error) {
	word, err := serdejson.String(text)
	if err != nil {
		return "", serdejson.Errorf("invalid type: %s, expected variant identifier", serdejson.Unexpected(text))
	}
	for _, w := range words {
		if w == word {
			return w, nil
		}
	}
	return word, serdejson.Errorf("unknown variant `%s`, expected %s", word, serdejson.OneOf(words))
}

// tagged reads an enum whose variant stands in a member "kind", or first in an array. With an error
// about an unknown variant it gives the word all the same.
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
	rest = append(append(rest, members[:at]...), members[at+1:]...)
	word, err = variant(tag, words)
	return word, rest, array, err
}
