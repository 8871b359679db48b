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
	open := opening(text)
	if of == freeForm || open == 0 || open != opening(was) || open != opening(is) {
		return is
	}
	o, w, i := serdejson.ContentOf(text, nil), serdejson.ContentOf(was, nil), serdejson.ContentOf(is, nil)
	if i.Array {
		return overlayArray(o, w, i, of)
	}
	return overlayObject(o, w, i, of)
}

// opening is the brace or the bracket with which a text begins; 0 if it is no object and no array.
func opening(text []byte) byte {
	if c := serdejson.NewScanner(text).Peek(); c == '{' || c == '[' {
		return c
	}
	return 0
}

// last returns the last member of that name, which is the one that counts.
func last(c serdejson.Content, name string) (value []byte, found bool) {
	for _, m := range slices.Backward(c.Members) {
		if serdejson.KeyIs(m.Key, name) {
			return m.Value, true
		}
	}
	return nil, false
}

func overlayArray(o, was, is serdejson.Content, of form) []byte {
	out := []byte{'['}
	for i, m := range is.Members {
		if i > 0 {
			out = append(out, ',')
		}
		value := m.Value
		if i < len(o.Members) && i < len(was.Members) {
			value = overlay(o.Members[i].Value, was.Members[i].Value, value, of)
		}
		out = append(out, value...)
	}
	return append(out, ']')
}

func overlayObject(o, was, is serdejson.Content, of form) []byte {
	out := []byte{'{'}
	add := func(key string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(serdejson.AppendQuoted(out, key), ':'), value...)
	}
	for _, m := range o.Members {
		key := serdejson.Unquote(m.Key)
		now, stays := last(is, key)
		before, wasThere := last(was, key)
		switch {
		case stays && wasThere:
			add(key, overlay(m.Value, before, now, of.member(key)))
		case stays:
			add(key, now)
		case !wasThere:
			add(key, m.Value)
		}
	}
	for _, m := range is.Members {
		key := serdejson.Unquote(m.Key)
		if _, there := last(o, key); !there {
			before, wasThere := last(was, key)
			// A default that the document leaves out stays out.
			if !wasThere || !bytes.Equal(before, m.Value) {
				add(key, m.Value)
			}
		}
	}
	return append(out, '}')
}
