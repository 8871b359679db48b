package live

import (
	"fmt"

	"selvedge/internal/serdejson"
)

// members are the members of an object as spans of the text, or the elements of an array that
// stands for an object: serde reads a struct from an array of its fields, too.
type members struct {
	array  bool
	keys   [][]byte // quoted, as they stand; nil for an array
	values [][]byte
	few    [2][12][]byte // room for most objects
}

// spanMembers reads the value at the scanner.
func spanMembers(s *serdejson.Scanner, arrays bool) (*members, string) {
	m := &members{}
	c := s.Peek()
	if c != '{' && !(arrays && c == '[') {
		value, ok := s.Value()
		if !ok {
			return nil, s.Reason()
		}
		return nil, wrongType(value, "an object")
	}
	m.array = c == '['
	m.keys, m.values = m.few[0][:0], m.few[1][:0]
	if !s.Enter() {
		return nil, s.Reason()
	}
	for first := true; ; first = false {
		var key []byte
		var more, ok bool
		if m.array {
			more, ok = s.NextElement(first)
		} else {
			key, more, ok = s.NextKey(first)
		}
		if !ok {
			return nil, s.Reason()
		}
		if !more {
			return m, ""
		}
		value, ok := s.Value()
		if !ok {
			return nil, s.Reason()
		}
		if !m.array {
			m.keys = append(m.keys, key)
		}
		m.values = append(m.values, value)
	}
}

// takeType reads the tag of an event: its member "type", or the first element of an array, which is
// taken out.
func (m *members) takeType() (string, string) {
	var tag []byte
	if m.array {
		if len(m.values) > 0 {
			tag, m.values = m.values[0], m.values[1:]
		}
	} else {
		for i, key := range m.keys {
			if serdejson.KeyIs(key, "type") {
				if tag != nil {
					return "", "duplicate field `type`"
				}
				tag = m.values[i]
			}
		}
	}
	switch {
	case tag == nil:
		return "", "missing field `type`"
	case tag[0] != '"':
		return "", wrongType(tag, "a variant identifier")
	}
	return serdejson.Unquote(tag), ""
}

// check reads the members as these fields. Unknown members are nobody's business, known ones must
// not come twice.
func (m *members) check(fields []field) string {
	if m.array {
		return m.checkArray(fields)
	}
	for i := range fields {
		f := &fields[i]
		found := -1
		for k, key := range m.keys {
			if !f.is(key) {
				continue
			}
			if found >= 0 {
				return fmt.Sprintf("duplicate field `%s`", f.name)
			}
			found = k
		}
		switch {
		case found >= 0:
			if reason := f.shape.read(m.values[found]); reason != "" {
				return reason
			}
		case !f.absent:
			return fmt.Sprintf("missing field `%s`", f.name)
		}
	}
	return ""
}

func (m *members) checkArray(fields []field) string {
	if len(m.values) > len(fields) {
		return fmt.Sprintf("invalid length %d, expected %d elements", len(m.values), len(fields))
	}
	for i := range fields {
		switch {
		case i < len(m.values):
			if reason := fields[i].shape.read(m.values[i]); reason != "" {
				return reason
			}
		case !fields[i].element:
			return fmt.Sprintf("invalid length %d, expected %d elements", len(m.values), len(fields))
		}
	}
	return ""
}

// value is a member that check has seen; nil where it is absent.
func (m *members) value(fields []field, name string) []byte {
	for i := range fields {
		if fields[i].name != name {
			continue
		}
		if m.array {
			if i < len(m.values) {
				return m.values[i]
			}
			return nil
		}
		for k, key := range m.keys {
			if fields[i].is(key) {
				return m.values[k]
			}
		}
	}
	return nil
}

// further is a JSON object with the members that are none of these fields; nil when there are none.
func (m *members) further(fields []field) []byte {
	if m.array {
		return nil
	}
	var out []byte
	for k, key := range m.keys {
		known := false
		for i := range fields {
			known = known || fields[i].is(key)
		}
		if known {
			continue
		}
		if out == nil {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out = appendCompact(append(append(out, key...), ':'), m.values[k])
	}
	if out == nil {
		return nil
	}
	return append(out, '}')
}

func (f *field) is(key []byte) bool { return serdejson.KeyIs(key, f.name) }
