package live

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"

	"selvedge/internal/serdejson"
	"selvedge/internal/txn"
)

// makeEvent returns an event of a known type. members has their values in the order of the type: a
// struct or a []any. The further pairs are as in withMembers. Append refuses the event if NewEvent would.
func makeEvent(kind string, members any, further ...any) Event {
	text := append(serdejson.AppendQuoted([]byte(`{"type":`), kind), ',')
	text = append(eventTypes()[kind].appendFields(text, reflect.ValueOf(members)), '}')
	return checked(kind, withMembers(text, further...))
}

// checked reads the event again. This finds invalid UTF-8, JSON and words.
func checked(kind string, text []byte) Event {
	e, err := NewEvent(text)
	if err != nil {
		return Event{kind: kind, err: err}
	}
	return e
}

// appendFields writes the members of an object as serde does. object has their values: a struct, whose
// fields are in the order of the type, or a slice.
func (sh *shape) appendFields(dst []byte, object reflect.Value) []byte {
	at := object.Field
	if object.Kind() == reflect.Slice {
		at = func(i int) reflect.Value { return object.Index(i).Elem() }
	}
	first := true
	for i, f := range sh.fields {
		v := at(i)
		// serde leaves out an empty default and an empty optional object, and writes null for other options.
		optional := f.shape.nullable && (f.shape.sort == sortAny || f.shape.sort == sortObject)
		if (f.element || optional) && isNone(v) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = f.shape.appendValue(append(serdejson.AppendQuoted(dst, f.name), ':'), v)
	}
	return dst
}

func isNone(v reflect.Value) bool { return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 }

func (sh *shape) appendValue(dst []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(dst, "null"...)
		}
		return sh.appendValue(dst, v.Elem())
	case reflect.String:
		return serdejson.AppendQuoted(dst, v.String())
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool())
	case reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10)
	case reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10)
	case reflect.Float32, reflect.Float64:
		return appendFloat(dst, v)
	case reflect.Struct:
		return append(sh.appendFields(append(dst, '{'), v), '}')
	}
	switch raw, ok := reflect.TypeAssert[json.RawMessage](v); {
	case ok:
		return appendRaw(dst, raw)
	case sh.sort == sortObject:
		return append(sh.appendFields(append(dst, '{'), v), '}')
	}
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = sh.of.appendValue(dst, v.Index(i))
	}
	return append(dst, ']')
}

// appendFloat writes the shortest digits that read back as the number in its own size.
func appendFloat(dst []byte, v reflect.Value) []byte {
	f, _ := strconv.ParseFloat(strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits()), 64)
	return serdejson.AppendFloat(dst, f)
}

// appendRaw writes a caller's JSON; nil is null. Text that is no JSON value could add members to the
// event: NewEvent refuses the letter that stands for it.
func appendRaw(dst []byte, raw json.RawMessage) []byte {
	switch {
	case raw == nil:
		return append(dst, "null"...)
	case serdejson.Check(raw, 0) != "":
		return append(dst, 'x')
	}
	return append(dst, bytes.Trim(raw, " \t\r\n")...)
}

// withMembers returns a JSON object with further members: pairs of a name and a number, a text, JSON or
// a pointer to one. Nil is left out.
func withMembers(object []byte, pairs ...any) []byte {
	if len(pairs) == 0 {
		return object
	}
	dst := slices.Clone(object[:len(object)-1])
	for pair := range slices.Chunk(pairs, 2) {
		v := reflect.ValueOf(pair[1])
		if k := v.Kind(); (k == reflect.Pointer || k == reflect.Slice) && v.IsNil() {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = (&shape{}).appendValue(append(serdejson.AppendQuoted(dst, pair[0].(string)), ':'), v)
	}
	return append(dst, '}')
}

// deltas are the types of events whose words belong to an attempt.
var deltas = []string{"text_delta", "reasoning_delta", "tool_input_delta", "tool_output_delta"}

// In returns a text_delta, reasoning_delta, tool_input_delta or tool_output_delta with the members turn
// and attempt: the turn it belongs to, and which attempt at that turn. A viewer can then drop the words
// of an attempt that did not last. Append refuses other events, and a second In, with db.ErrInvalid.
func (e Event) In(turn, attempt uint64) Event {
	if e.err == nil {
		e = checked(e.kind, e.text)
	}
	if e.err != nil {
		return e
	}
	m, _ := wholeMembers(e.text, eventLevels, false)
	has := func(f field) bool { return m.value(turnFields, f.name) != nil }
	if !slices.Contains(deltas, e.kind) || slices.ContainsFunc(turnFields, has) {
		return Event{kind: e.kind, err: txn.Invalid("call In once, on a delta",
			"an event of type %q takes no further turn and attempt", e.kind)}
	}
	return checked(e.kind, withMembers(e.text, "turn", turn, "attempt", attempt))
}

var turnFields = []field{{name: "turn"}, {name: "attempt"}}

// Turn returns the turn and the attempt that In added. ok is false if the event has none.
func (e Event) Turn() (turn, attempt uint64, ok bool) {
	if !slices.Contains(deltas, e.kind) || e.err != nil {
		return 0, 0, false
	}
	var n [2]uint64
	m, reason := wholeMembers(e.text, eventLevels, true)
	for i, f := range turnFields {
		if reason != "" || m.Array {
			return 0, 0, false
		}
		var err error
		if n[i], err = strconv.ParseUint(string(m.value(turnFields, f.name)), 10, 64); err != nil {
			return 0, 0, false
		}
	}
	return n[0], n[1], true
}
