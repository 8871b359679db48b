package checkpoints

import (
	"bytes"
	"slices"

	"selvedge/internal/serdejson"
)

// rewrite writes a workflow that was read from a document and then changed: unchanged values keep
// their text, and members that only the document has stay in their places.
func rewrite(document []byte, before, after *PausedWorkflow) ([]byte, error) {
	was, err := encode(before)
	if err != nil {
		return nil, err
	}
	is, err := encode(after)
	if err != nil {
		return nil, err
	}
	changed := overlay(document, was, is, structured)
	if bytes.Equal(changed, document) {
		return document, nil
	}
	w := &writer{}
	w.pretty(changed)
	return w.out, nil
}

// A form is how much of the structure of a value is known.
type form int

const (
	structured form = iota // its members are known
	freeMap                // a map of free-form values
	freeForm               // a free-form value: the caller's, to the byte
)

// member is the form of the member of that name.
func (f form) member(name string) form {
	if f != structured {
		return freeForm
	}
	switch name {
	case "wf_state", "metadata":
		return freeMap
	case "step", "compensation", "value", "output":
		return freeForm
	}
	return structured
}

// overlay applies the change from was to is to text, which holds the values of was and perhaps
// more.
func overlay(text, was, is []byte, of form) []byte {
	if bytes.Equal(was, is) {
		return text
	}
	o, w, i := partsOf(text), partsOf(was), partsOf(is)
	if of == freeForm || o.open == 0 || o.open != w.open || w.open != i.open {
		return is
	}
	if i.open == '[' {
		return overlayArray(o, w, i, of)
	}
	return overlayObject(o, w, i, of)
}

// parts are the members of an object, or the elements of an array; open is 0 for anything else.
type parts struct {
	open   byte
	keys   []string // of an object
	values [][]byte
}

func partsOf(text []byte) parts {
	s := serdejson.NewScanner(text)
	p := parts{open: s.Peek()}
	if p.open != '{' && p.open != '[' {
		return parts{}
	}
	for key := range s.Elements() {
		if p.open == '{' {
			p.keys = append(p.keys, serdejson.Unquote(key))
		}
		value, _ := s.Ignore()
		p.values = append(p.values, value)
	}
	return p
}

// find returns the last member of that name, which is the one that counts.
func (p parts) find(key string) ([]byte, bool) {
	for i, name := range slices.Backward(p.keys) {
		if name == key {
			return p.values[i], true
		}
	}
	return nil, false
}

func overlayArray(o, was, is parts, of form) []byte {
	out := []byte{'['}
	for i, value := range is.values {
		if i > 0 {
			out = append(out, ',')
		}
		if i < len(o.values) && i < len(was.values) {
			value = overlay(o.values[i], was.values[i], value, of)
		}
		out = append(out, value...)
	}
	return append(out, ']')
}

func overlayObject(o, was, is parts, of form) []byte {
	out := []byte{'{'}
	add := func(key string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(serdejson.AppendQuoted(out, key), ':'), value...)
	}
	for n, key := range o.keys {
		now, stays := is.find(key)
		before, wasThere := was.find(key)
		switch {
		case stays && wasThere:
			add(key, overlay(o.values[n], before, now, of.member(key)))
		case stays:
			add(key, now)
		case !wasThere:
			add(key, o.values[n])
		}
	}
	for n, key := range is.keys {
		if _, there := o.find(key); !there {
			before, wasThere := was.find(key)
			// A default that the document leaves out stays out.
			if !wasThere || !bytes.Equal(before, is.values[n]) {
				add(key, is.values[n])
			}
		}
	}
	return append(out, '}')
}
