package codec

import (
	"bytes"
	"slices"

	"selvedge/internal/serdejson"
)

// A structure is a struct of the original.
type structure struct {
	name   string  // as error texts call it
	fields []field // in order of declaration, which is the order in an array, and in what the original writes
	sorted []int   // the fields in byte order of their names
}

// A field is a member of a structure.
type field struct {
	name string
	of   shape
	// missing is what an absent member stands for: required, made up by the original at each load, or this JSON.
	missing string
	// dropped is the JSON that the original leaves out when it writes; "" if it always writes the member.
	dropped string
	// inLists is set if a list that stands for the struct must have the member all the same.
	inLists bool
}

// isZero reports whether Go's zero value says what an absent member stands for.
func (f field) isZero() bool {
	return f.missing == null || f.missing == emptyList || f.missing == emptyMap
}

const (
	required = ""
	madeUp   = "made up" // an id or the clock: not written, for two loads differ
)

func (st *structure) read(r *reader) bool {
	switch r.s.Peek() {
	case '{':
		return st.readObject(r)
	case '[':
		return st.readArray(r)
	}
	return r.mismatch(st.name)
}

func (st *structure) readObject(r *reader) bool {
	if !r.s.Enter() {
		return false
	}
	var room [16][]byte
	got := room[:len(st.fields)]
	for first := true; ; first = false {
		key, more, ok := r.s.NextKey(first)
		if !ok {
			return false
		}
		if !more {
			return st.finish(r, got)
		}
		i := st.find(key)
		if i < 0 {
			// Inside a tagged enum the original reads it into memory, elsewhere it only looks for its end.
			if r.loose {
				_, ok = r.s.Value()
			} else {
				ok = r.s.Ignore()
			}
			if !ok {
				return false
			}
			continue
		}
		if got[i] != nil {
			r.s.SeekKeyEnd()
			r.reason = "duplicate field `" + st.fields[i].name + "`"
			return r.settle('}')
		}
		if got[i], ok = r.member(st.fields[i].of); !ok {
			return r.settle('}')
		}
	}
}

// find gives the place of a key, or -1.
func (st *structure) find(key []byte) int {
	return slices.IndexFunc(st.fields, func(f field) bool { return serdejson.KeyIs(key, f.name) })
}

// member reads a value and gives its canonical form.
func (r *reader) member(of shape) ([]byte, bool) {
	if r.check {
		return []byte{}, of(r)
	}
	before := r.out
	r.out = []byte{}
	ok := of(r)
	value := r.out
	r.out = before
	return value, ok
}

// readArray reads the members in order of declaration: the original takes a list for a struct.
func (st *structure) readArray(r *reader) bool {
	return r.s.Enter() && st.readElements(r, true)
}

// readElements stands behind the bracket or, in a tagged enum, behind the tag.
func (st *structure) readElements(r *reader, first bool) bool {
	got := make([][]byte, len(st.fields))
	for i := range st.fields {
		more, ok := r.s.NextElement(first && i == 0)
		if !ok {
			return false
		}
		if !more {
			return st.finishArray(r, got, i)
		}
		if got[i], ok = r.member(st.fields[i].of); !ok {
			return r.settle(']')
		}
	}
	if r.s.Peek() != ']' {
		return r.tooMany(len(st.fields))
	}
	r.s.NextElement(false)
	return st.finish(r, got)
}

// tooMany reports what stands in a list behind the members that were read.
func (r *reader) tooMany(read int) bool {
	if r.loose {
		more := 0
		for ok := true; ok; {
			if ok, _ = r.s.NextElement(false); ok {
				_, ok = r.s.Value()
				more++
			}
		}
		return r.fail("invalid length %d, expected %s in sequence", read+more, serdejson.Count(read, "element"))
	}
	if r.s.AtEnd() {
		return r.s.PeekFail("EOF while parsing a list")
	}
	if r.s.Peek() == ',' {
		r.s.Seek(r.s.Pos() + 1)
		if r.s.Peek() == ']' {
			return r.s.PeekFail("trailing comma")
		}
	}
	return r.s.PeekFail("trailing characters")
}

func (st *structure) finishArray(r *reader, got [][]byte, n int) bool {
	for _, f := range st.fields[n:] {
		if f.missing == required || f.inLists {
			return r.fail("invalid length %d, expected %s with %s", n, st.name,
				serdejson.Count(len(st.fields), "element"))
		}
		n++
	}
	return st.finish(r, got)
}

// finish looks for what is missing and writes the rest. The members are in canonical form by place:
// nil is absent, and an empty one was only checked.
func (st *structure) finish(r *reader, got [][]byte) bool {
	for i, f := range st.fields {
		if got[i] == nil && f.missing == required {
			return r.fail("missing field `%s`", f.name)
		}
	}
	if r.check {
		return true
	}
	r.out = append(r.out, '{')
	separator := ""
	for _, i := range st.sorted {
		f, value := st.fields[i], got[i]
		if value == nil {
			if f.missing == madeUp || r.plain && f.isZero() {
				continue
			}
			value = []byte(f.missing)
		}
		if f.dropped != "" && string(value) == f.dropped && (!r.plain || f.dropped == null) {
			continue
		}
		r.out = append(append(r.out, separator...), '"')
		r.out = append(append(append(r.out, f.name...), '"', ':'), value...)
		separator = ","
	}
	r.out = append(r.out, '}')
	return true
}

// A tagged is an enum of the original whose variant stands in a member "type" beside the variant's
// own members.
type tagged struct {
	name     string
	words    []string
	variants []*structure // by place in words
}

func (t *tagged) read(r *reader) bool {
	c := r.s.Peek()
	from := r.s.Pos()
	find, read := t.tagInObject, (*structure).readObject // the tag, and the variant's members
	switch c {
	case '{':
	case '[':
		find = t.tagInArray
		read = func(variant *structure, r *reader) bool { return variant.readElements(r, false) }
	default:
		return r.mismatch("internally tagged enum " + t.name)
	}
	start, tag, ok := find(r)
	if !ok {
		return false
	}
	end := r.s.Pos()
	r.s.Seek(start)
	loose, check := r.loose, r.check
	r.loose, r.check = true, check || r.plain // the original reads the members after the whole enum
	content, ok := r.member(func(r *reader) bool { return read(t.variants[tag], r) })
	r.loose, r.check = loose, check
	r.s.Seek(end)
	switch {
	case !ok || check:
	case r.plain:
		r.out = append(r.out, bytes.TrimSpace(r.document[from:end])...)
	default: // with the tag in its place among the members, in byte order
		object := []byte(`{"type":"` + t.words[tag] + `"`)
		if len(content) > 2 {
			object = append(object, ',')
		}
		r.out = serdejson.AppendCanonical(r.out, append(object, content[1:]...))
	}
	return ok
}

// tagInArray reads an enum to its end, whose tag is its first element. It gives the place behind the tag too.
func (t *tagged) tagInArray(r *reader) (rest, tag int, ok bool) {
	if !r.s.Enter() {
		return 0, 0, false
	}
	more, ok := r.s.NextElement(true)
	switch {
	case !ok:
		return 0, 0, false
	case !more:
		return 0, 0, r.fail("missing field `type`")
	}
	if tag, ok = t.variant(r); !ok {
		return 0, 0, r.settle(']')
	}
	for rest = r.s.Pos(); ; {
		more, ok := r.s.NextElement(false)
		if !ok || !more {
			return rest, tag, ok
		}
		if _, ok := r.s.Value(); !ok {
			return 0, 0, false
		}
	}
}

// tagInObject reads an enum to its end, and gives its place.
func (t *tagged) tagInObject(r *reader) (start, tag int, ok bool) {
	start, tag = r.s.Pos(), -1
	if !r.s.Enter() {
		return 0, 0, false
	}
	for first := true; ; first = false {
		key, more, ok := r.s.NextKey(first)
		switch {
		case !ok:
			return 0, 0, false
		case !more && tag < 0:
			return 0, 0, r.fail("missing field `type`")
		case !more:
			return start, tag, true
		case !serdejson.KeyIs(key, "type"):
			if _, ok := r.s.Value(); !ok {
				return 0, 0, false
			}
			continue
		case tag >= 0:
			r.s.SeekKeyEnd()
			r.reason = "duplicate field `type`"
			return 0, 0, r.settle('}')
		}
		if tag, ok = t.variant(r); !ok {
			return 0, 0, r.settle('}')
		}
	}
}

// variant reads the tag. Held in memory it may be a number too, which counts variants.
func (t *tagged) variant(r *reader) (int, bool) {
	c := r.s.Peek()
	if c == '"' {
		return r.variant(t.words)
	}
	if !r.loose || !isNumber(c) {
		return 0, r.mismatch("variant identifier")
	}
	text, ok := r.s.Value()
	n := serdejson.ParseNumber(text)
	switch {
	case !ok:
		return 0, false
	case n.Kind != 'u':
		return 0, r.fail("invalid type: %s, expected variant identifier", serdejson.Unexpected(text))
	case n.Uint >= uint64(len(t.words)):
		return 0, r.fail("invalid value: %s, expected variant index 0 <= i < %d", serdejson.Unexpected(text),
			len(t.words))
	}
	return int(n.Uint), true
}
