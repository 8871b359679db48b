package serdejson

import "slices"

// How the originals' library (serde, with derived readers) reads JSON into its types: which shapes it
// accepts for a struct and an enum, and its errors for all others.

// A Structure is a struct as serde's derived reader sees it: an object, or an array of its fields.
type Structure struct {
	Name     string   // in error texts
	Names    []string // of the fields in order of declaration, which is the order in an array
	Required int      // an array must have at least this many elements
}

// A Member is a member of an object, or an element of an array if Key is nil. Both are as they stand
// in the input.
type Member struct{ Key, Value []byte }

// Content holds what an object or array contains, perhaps without a tag.
type Content struct {
	Members []Member
	Array   bool
}

// ContentOf returns the content of an object or array that a scanner has accepted. It appends to few.
func ContentOf(text []byte, few []Member) Content {
	s := NewScanner(text)
	c := Content{Members: few, Array: s.Peek() == '['}
	for key := range s.Elements() {
		value, _ := s.Ignore()
		c.Members = append(c.Members, Member{key, value})
	}
	return c
}

// Unit accepts the content of a variant without data: an object may hold anything, an array must be
// empty.
func (c Content) Unit() error {
	if c.Array && len(c.Members) > 0 {
		return Errorf("invalid length %d, expected 0 elements in sequence", len(c.Members))
	}
	return nil
}

// Read returns the fields in a value.
func (st *Structure) Read(text []byte) Fields {
	if c := text[0]; c != '{' && c != '[' {
		return Fields{Names: st.Names, Err: Errorf("invalid type: %s, expected %s", Unexpected(text), st.Name)}
	}
	var few [8]Member
	return st.Take(ContentOf(text, few[:0]))
}

// Take returns the fields in a content.
func (st *Structure) Take(c Content) (f Fields) {
	f.Names = st.Names
	if c.Array {
		for i, m := range c.Members[:min(len(c.Members), len(st.Names))] {
			f.Values[i] = m.Value
		}
		switch n := len(c.Members); {
		case n < st.Required:
			f.Fail("invalid length %d, expected %s with %s", n, st.Name, Count(len(st.Names), "element"))
		case n > len(st.Names):
			f.Fail("invalid length %d, expected %s in sequence", n, Count(len(st.Names), "element"))
		}
		return f
	}
	next := 0
	for _, m := range c.Members {
		// Writers keep the order, so the search continues where the last one ended.
		for range st.Names {
			if next >= len(st.Names) {
				next = 0
			}
			if !KeyIs(m.Key, st.Names[next]) {
				next++
				continue
			}
			if f.Values[next] != nil {
				f.Fail("duplicate field `%s`", st.Names[next])
			}
			f.Values[next] = m.Value
			next++
			break
		}
	}
	return f
}

// Word is a required enum without data: a string, or an object whose only member has the word as its
// key and a unit as its value. It returns the word's index.
func (f *Fields) Word(i int, words []string, isUnit func(value []byte) bool) int {
	return take(f, f.Need(i), func(text []byte) (int, error) {
		switch text[0] {
		case '"':
			return Variant(text, words)
		case '{':
		default:
			return 0, Errorf("invalid type: %s, expected string or map", Unexpected(text))
		}
		var few [2]Member
		c := ContentOf(text, few[:0])
		if len(c.Members) != 1 {
			return 0, Errorf("invalid value: map, expected map with a single key")
		}
		index, err := Variant(c.Members[0].Key, words)
		if unit := c.Members[0].Value; err == nil && !isUnit(unit) {
			err = Errorf("invalid type: %s, expected unit", Unexpected(unit))
		}
		return index, err
	})
}

// Variant returns the index of a word.
func Variant(text []byte, words []string) (int, error) {
	if text[0] != '"' {
		return 0, Errorf("invalid type: %s, expected variant identifier", Unexpected(text))
	}
	if i := IndexKey(words, text); i >= 0 {
		return i, nil
	}
	return 0, Errorf("unknown variant `%s`, expected %s", Unquote(text), OneOf(words))
}

// IndexKey returns the index of a key as it is in the input; -1 if it is none of the names.
func IndexKey(names []string, key []byte) int {
	return slices.IndexFunc(names, func(name string) bool { return KeyIs(key, name) })
}

// Tagged returns the tag of an enum whose variant is in a member "kind", or first in an array, and the
// rest of its content. It appends to few.
func Tagged(text []byte, enum string, few []Member) (tag []byte, rest Content, err error) {
	if text[0] != '{' && text[0] != '[' {
		return nil, rest, Errorf("invalid type: %s, expected internally tagged enum %s", Unexpected(text), enum)
	}
	rest = ContentOf(text, few)
	at := -1
	for i, m := range rest.Members {
		if rest.Array && i == 0 || !rest.Array && KeyIs(m.Key, "kind") {
			if at >= 0 {
				return nil, rest, Errorf("duplicate field `kind`")
			}
			at = i
		}
	}
	if at < 0 {
		return nil, rest, Errorf("missing field `kind`")
	}
	tag = rest.Members[at].Value
	rest.Members = slices.Delete(rest.Members, at, at+1)
	return tag, rest, nil
}
