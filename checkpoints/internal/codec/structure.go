package codec

import (
	"bytes"

	"selvedge/internal/serdejson"
)

func (st *structure) read(r *reader) bool {
	switch c := r.s.Peek(); {
	case c != '{' && c != '[':
		return r.mismatch(st.name)
	case st.variants != nil:
		return st.readTagged(r, c)
	case c == '{':
		return st.readMembers(r)
	}
	return r.s.Enter() && st.readElements(r, true)
}

func (st *structure) readMembers(r *reader) bool {
	got := make([][]byte, len(st.fields))
	for key := range r.s.Elements() {
		i, ok := serdejson.IndexKey(st.names, key), false
		switch {
		case i < 0 && r.loose: // the original reads it into memory
			r.s.Value()
		case i < 0: // it only looks for its end
			r.s.Ignore()
		case got[i] != nil:
			r.s.SeekKeyEnd()
			r.reason = "duplicate field `" + st.names[i] + "`"
			return r.settle('}')
		default:
			if got[i], ok = r.member(st.fields[i].of); !ok {
				return r.settle('}')
			}
		}
	}
	return r.s.Reason() == "" && st.finish(r, got)
}

// member reads a value and returns what would be written.
func (r *reader) member(of shape) ([]byte, bool) {
	before := r.out
	r.out = []byte{}
	ok := of(r)
	value := r.out
	r.out = before
	return value, ok
}

// readElements reads the members in order of declaration: the original takes a list for a struct.
// The reader is positioned after the bracket or, in a tagged enum, after the tag.
func (st *structure) readElements(r *reader, first bool) bool {
	got := make([][]byte, len(st.fields))
	more := true
	for i, f := range st.fields {
		var ok bool
		if more {
			if more, ok = r.s.NextElement(first && i == 0); !ok {
				return false
			}
		}
		switch {
		case !more && (f.mark == "" || f.mark == "@"):
			return r.fail("invalid length %d, expected %s with %s", i, st.name,
				serdejson.Count(len(st.fields), "element"))
		case more:
			if got[i], ok = r.member(f.of); !ok {
				return r.settle(']')
			}
		}
	}
	if more {
		if r.s.Peek() != ']' {
			return r.tooMany(len(st.fields))
		}
		r.s.NextElement(false)
	}
	return st.finish(r, got)
}

// tooMany reports the error of a list with more elements than the members that were read.
func (r *reader) tooMany(read int) bool {
	if r.loose {
		n := read
		for more, _ := r.s.NextElement(false); more; more, _ = r.s.NextElement(false) {
			r.s.Value()
			n++
		}
		return r.fail("invalid length %d, expected %s in sequence", n, serdejson.Count(read, "element"))
	}
	if r.s.Peek() == ',' {
		r.s.Seek(r.s.Pos() + 1)
		if r.s.Peek() == ']' {
			return r.s.PeekFail("trailing comma")
		}
		return r.s.PeekFail("trailing characters")
	}
	return r.s.FailIn("a list", "trailing characters")
}

// finish checks for missing members and writes the others. got has the members by index: nil is
// absent, and an empty one was only checked.
func (st *structure) finish(r *reader, got [][]byte) bool {
	for i, f := range st.fields {
		if got[i] == nil && f.mark == "" {
			return r.fail("missing field `%s`", st.names[i])
		}
	}
	r.write("{")
	body := len(r.out)
	for i, f := range st.fields {
		value, zero := string(got[i]), f.missing == "null" || f.missing == "[]" || f.missing == "{}"
		switch {
		case got[i] == nil && (f.mark == "!" || r.plain && zero):
			continue
		case got[i] == nil:
			value = f.missing
		}
		if f.mark == "~" && value == f.missing && (!r.plain || value == "null") {
			continue
		}
		if len(r.out) > body {
			r.write(",")
		}
		r.write(`"` + st.names[i] + `":` + value)
	}
	r.write("}")
	return true
}

// readTagged finds the variant first, and then reads its members.
func (st *structure) readTagged(r *reader, open byte) bool {
	from := r.s.Pos()
	start, tag, ok := st.readTag(r, open)
	if !ok {
		return false
	}
	end := r.s.Pos()
	r.s.Seek(start)
	loose, check := r.loose, r.check
	r.loose, r.check = true, check || r.plain // the original reads the members after the whole enum
	content, ok := r.member(func(r *reader) bool {
		if open == '{' {
			return st.variants[tag].readMembers(r)
		}
		return st.variants[tag].readElements(r, false)
	})
	r.loose, r.check = loose, check
	r.s.Seek(end)
	switch {
	case !ok || check:
	case r.plain:
		r.out = append(r.out, bytes.TrimSpace(r.document[from:end])...)
	default:
		r.write(`{"type":"` + st.names[tag] + `"`)
		if len(content) > len("{}") {
			r.write(",")
		}
		r.write(string(content[1:]))
	}
	return ok
}

// readTag reads an enum to its end, and returns the index of its variant. The variant's members
// begin at start: with the object, or after the tag, which is the first element of an array.
func (st *structure) readTag(r *reader, open byte) (start, tag int, ok bool) {
	start, tag = r.s.Pos(), -1
	for key := range r.s.Elements() {
		switch isTag := open == '[' && tag < 0 || serdejson.KeyIs(key, "type"); {
		case !isTag:
			r.s.Value()
		case tag >= 0:
			r.s.SeekKeyEnd()
			r.reason = "duplicate field `type`"
			return 0, 0, r.settle('}')
		default:
			if tag, ok = st.variant(r); !ok {
				return 0, 0, r.settle(open + 2) // in ASCII the closing character is the opening one plus two
			}
			if open == '[' {
				start = r.s.Pos()
			}
		}
	}
	if ok = r.s.Reason() == ""; ok && tag < 0 {
		ok = r.fail("missing field `type`")
	}
	return start, tag, ok
}

// variant reads the tag. In memory (loose) it may also be a number, the index of the variant.
func (st *structure) variant(r *reader) (int, bool) {
	c := r.s.Peek()
	if c == '"' {
		return r.variant(st.names)
	}
	if !r.loose || c != '-' && (c < '0' || c > '9') {
		return 0, r.mismatch("variant identifier")
	}
	text, ok := r.s.Value()
	n := serdejson.ParseNumber(text)
	switch {
	case !ok:
		return 0, false
	case n.Kind != 'u':
		return 0, r.fail("invalid type: %s, expected variant identifier", serdejson.Unexpected(text))
	case n.Uint >= uint64(len(st.names)):
		return 0, r.fail("invalid value: %s, expected variant index 0 <= i < %d", serdejson.Unexpected(text),
			len(st.names))
	}
	return int(n.Uint), true
}
