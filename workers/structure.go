package workers

import "selvedge/internal/serdejson"

// A structure is a struct of the old program, with what its fields are.
type structure struct {
	serdejson.Structure
	fields []field
}

// A shape is the shape of a field: a structure, a list of them, or any value.
type shape struct {
	of   *structure
	list bool
}

// check reports a text that can't be read because of its syntax. Members that a structure doesn't
// know are only skipped: to any depth, and whatever their numbers and surrogates mean.
func (st *structure) check(text []byte) error {
	if reason := serdejson.Read(text, 0, (shape{of: st}).skip); reason != "" {
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
	i := 0
	for key := range s.Elements() {
		at := i
		if object {
			at = sh.of.at(key)
		}
		switch {
		case sh.list:
			shape{of: sh.of}.skip(s)
		case at < 0:
			s.Ignore()
		case at < len(sh.of.fields):
			sh.of.fields[at].skip(s)
		default:
			s.Value()
		}
		i++
	}
	return s.Reason() == ""
}

// at returns the index of the field with that key; -1 if there is none.
func (st *structure) at(key []byte) int { return serdejson.IndexKey(st.Names, key) }

// membersOf returns the members of a text that check has accepted.
func membersOf(text []byte) []serdejson.Member { return serdejson.ContentOf(text, nil).Members }

// trimBlanks returns the one value of a text that check has accepted.
func trimBlanks(text []byte) []byte {
	value, _ := serdejson.NewScanner(text).Ignore()
	return value
}

func isNull(value []byte) bool { return value[0] == 'n' }
