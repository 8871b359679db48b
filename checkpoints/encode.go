package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"selvedge/checkpoints/internal/codec"
	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// encode writes p with an indent of two blanks a level, members in the order of the fields, and
// keys of maps in byte order. Free-form values are copied byte for byte. The result may be a document that
// can't be read.
func encode(p *PausedWorkflow) ([]byte, error) {
	w := &writer{exact: p.createdAtText}
	w.value(reflect.ValueOf(p).Elem())
	if w.err != nil {
		return nil, w.err
	}
	return w.out, nil
}

// A writer writes a document. After the first error it continues, but the result is invalid.
type writer struct {
	out   []byte
	depth int
	name  string // of the member in progress
	exact string // PausedWorkflow.createdAtText
	err   error
}

// value writes a value of any type in a PausedWorkflow.
func (w *writer) value(v reflect.Value) {
	switch value := v.Interface().(type) {
	case json.RawMessage:
		w.raw(value)
		return
	case map[string]json.RawMessage:
		w.object(func() {
			for _, name := range slices.Sorted(maps.Keys(value)) {
				w.key(name)
				w.raw(value[name])
			}
		})
		return
	case time.Time:
		w.quoted(chrono.Text(value, w.exact))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.value(v.Elem())
	case reflect.Struct:
		w.object(func() { w.members(v) })
	case reflect.Slice:
		w.open('[')
		for i := range v.Len() {
			w.item()
			w.value(v.Index(i))
		}
		w.close(']')
	case reflect.String:
		w.quoted(v.String())
	case reflect.Bool:
		w.out = strconv.AppendBool(w.out, v.Bool())
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			w.fail(fmt.Errorf("%s is %v, which JSON can't hold", w.name, f))
		}
		w.out = serdejson.AppendFloat(w.out, v.Float())
	default:
		w.out = strconv.AppendUint(w.out, v.Uint(), 10)
	}
}

// members writes the fields of a struct that have a json tag.
func (w *writer) members(v reflect.Value) {
	for field, value := range v.Fields() {
		name, optional := strings.CutSuffix(field.Tag.Get("json"), ",omitempty")
		if name == "" || optional && (value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0) {
			continue
		}
		w.key(name)
		w.value(value)
	}
}

func (w *writer) object(members func()) {
	w.open('{')
	members()
	w.close('}')
}

func (w *writer) open(c byte) {
	w.out = append(w.out, c)
	w.depth++
}

// item begins a member or element on a line of its own.
func (w *writer) item() {
	if last := w.out[len(w.out)-1]; last != '{' && last != '[' {
		w.out = append(w.out, ',')
	}
	w.line()
}

func (w *writer) close(c byte) {
	w.depth--
	if last := w.out[len(w.out)-1]; last != '{' && last != '[' {
		w.line()
	}
	w.out = append(w.out, c)
}

func (w *writer) line() {
	w.out = append(w.out, '\n')
	for range w.depth {
		w.out = append(w.out, ' ', ' ')
	}
}

func (w *writer) key(name string) {
	w.name = name
	w.item()
	w.quoted(name)
	w.out = append(w.out, ':', ' ')
}

func (w *writer) quoted(s string) {
	if !utf8.ValidString(s) {
		w.fail(fmt.Errorf("%q is not valid UTF-8", s))
	}
	w.out = serdejson.AppendQuoted(w.out, s)
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// raw writes a free-form value; nil is null.
func (w *writer) raw(value json.RawMessage) {
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	if reason := serdejson.Check(value, 0); reason != "" {
		w.fail(fmt.Errorf("%s: %w", w.name, &codec.Error{Reason: reason}))
		return
	}
	w.out = append(w.out, bytes.TrimSpace(value)...)
}

// deepest is the level from which on values keep their own line breaks. Unknown members may be
// nested to any depth, and the indent and the stack grow with it.
const deepest = 128

// pretty writes an accepted document with its own tokens and this writer's line breaks.
func (w *writer) pretty(value []byte) { w.prettyAt(serdejson.NewSkimmer(value), structured) }

// prettyAt writes the value at which s is positioned.
func (w *writer) prettyAt(s *serdejson.Scanner, of form) {
	c := s.Peek()
	if c != '{' && c != '[' || of == freeForm || w.depth >= deepest {
		value, _ := s.Ignore()
		w.out = append(w.out, value...)
		return
	}
	w.open(c)
	for key := range s.Elements() {
		w.item()
		inner := of
		if c == '{' {
			w.out = append(append(w.out, key...), ':', ' ')
			inner = of.member(string(key[1 : len(key)-1]))
		}
		w.prettyAt(s, inner)
	}
	w.close(c + 2) // in ASCII the closing character is the opening one plus two
}
