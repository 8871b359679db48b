package live

import (
	"fmt"
	"slices"

	"selvedge/internal/serdejson"
)

// members holds the members of an object as spans of the text, or the elements of an array that
// represents an object: serde also reads a struct from an array of its fields.
type members struct {
	serdejson.Content
	few [12]serdejson.Member // room for most objects
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
	m.Array, m.Members = c == '[', m.few[:0]
	for key := range s.Elements() {
		value, _ := s.Value()
		m.Members = append(m.Members, serdejson.Member{Key: key, Value: value})
	}
	return m, s.Reason()
}

// takeType reads the type of an event: its member "type", or the first element of an array, which
// it removes.
func (m *members) takeType() (string, string) {
	var tag []byte
	if m.Array && len(m.Members) > 0 {
		tag, m.Members = m.Members[0].Value, m.Members[1:]
	}
	for _, one := range m.Members { // an element has no key
		if serdejson.KeyIs(one.Key, "type") {
			if tag != nil {
				return "", "duplicate field `type`"
			}
			tag = one.Value
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

// find returns the index of a field's value, or -1 if it is absent.
func (m *members) find(fields []field, i int) (at int, reason string) {
	at = -1
	if m.Array && i < len(m.Members) {
		return i, ""
	}
	for k, one := range m.Members { // an element has no key
		if serdejson.KeyIs(one.Key, fields[i].name) {
			if at >= 0 {
				return at, fmt.Sprintf("duplicate field `%s`", fields[i].name)
			}
			at = k
		}
	}
	return at, ""
}

// check reads the members as these fields. Unknown members are ignored.
func (m *members) check(fields []field) string {
	invalidLength := func() string {
		return fmt.Sprintf("invalid length %d, expected %d elements", len(m.Members), len(fields))
	}
	if m.Array && len(m.Members) > len(fields) {
		return invalidLength()
	}
	for i := range fields {
		f := &fields[i]
		at, reason := m.find(fields, i)
		switch {
		case reason != "":
		case at >= 0:
			reason = f.shape.read(m.Members[at].Value)
		case m.Array && !f.element:
			reason = invalidLength()
		case !m.Array && !f.absent:
			reason = fmt.Sprintf("missing field `%s`", f.name)
		}
		if reason != "" {
			return reason
		}
	}
	return ""
}

// value returns the value of a member that check has accepted; nil if it is absent.
func (m *members) value(fields []field, name string) []byte {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if at, _ := m.find(fields, i); at >= 0 {
		return m.Members[at].Value
	}
	return nil
}

// further returns a JSON object with the members that are none of these fields; nil if there are
// none.
func (m *members) further(fields []field) []byte {
	if m.Array {
		return nil
	}
	var out []byte
	for _, one := range m.Members {
		if slices.ContainsFunc(fields, func(f field) bool { return serdejson.KeyIs(one.Key, f.name) }) {
			continue
		}
		separator := byte(',')
		if out == nil {
			separator = '{'
		}
		out = appendCompact(append(append(append(out, separator), one.Key...), ':'), one.Value)
	}
	if out == nil {
		return nil
	}
	return append(out, '}')
}
