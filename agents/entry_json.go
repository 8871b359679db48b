package agents

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// MarshalJSON writes the members in the order of the fields, without those that are nil. Keys that
// a later program added appear only in TOML.
func (e Entry) MarshalJSON() ([]byte, error) { return marshalFields(fieldsOf(&e), e.timeText) }

// MarshalJSON writes the members in the order of the fields, without those that are nil.
func (q ContextQuery) MarshalJSON() ([]byte, error) { return marshalFields(fieldsOf(&q), q.timeText) }

func marshalFields(fields []field, text timeWriter) (dst []byte, err error) {
	dst = []byte{'{'}
	for _, f := range fields {
		value := f.value(text)
		number, isFloat := value.(float32)
		wide := float64(number)
		if value == nil || math.IsNaN(wide) || math.IsInf(wide, 0) { // JSON can't express these
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendQuote(dst, f.name), ':')
		if isFloat {
			dst = append(dst, floatText(number)...)
		} else if dst, err = appendJSON(dst, value); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendJSON(dst []byte, v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...), nil
}

// UnmarshalJSON reads what MarshalJSON writes. A missing member is the same as null, and unknown
// members are ignored. The members session_id, thread, base_state, started_at and status are
// required.
func (e *Entry) UnmarshalJSON(data []byte) error {
	v, err := valueOfJSON(data)
	if err == nil && v.kind != unstable.Table {
		err = v.wrongType("struct AgentEntry")
	}
	if err != nil {
		return err
	}
	*e = Entry{}
	err = fill(v.table, fieldsOf(e), e.keepExact)
	e.wasRead(nil)
	return err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (q *ContextQuery) UnmarshalJSON(data []byte) error {
	v, err := valueOfJSON(data)
	if err == nil {
		*q, err = v.asQuery()
	}
	return err
}

// valueOfJSON converts a JSON value to a TOML value, from which fields are set.
func valueOfJSON(raw json.RawMessage) (*tomlValue, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	return tomlOf(value), err
}

// tomlOf leaves out members that are null.
func tomlOf(value any) *tomlValue {
	switch value := value.(type) {
	case string:
		return &tomlValue{kind: unstable.String, text: value}
	case bool:
		return &tomlValue{kind: unstable.Bool, text: strconv.FormatBool(value)}
	case json.Number:
		v := &tomlValue{kind: unstable.Float, text: value.String()}
		_, signed := strconv.ParseInt(v.text, 10, 64)
		_, unsigned := strconv.ParseUint(v.text, 10, 64)
		if signed == nil && v.text != "-0" || unsigned == nil {
			v.kind = unstable.Integer
		}
		return v
	case []any:
		v := &tomlValue{kind: unstable.Array}
		for _, item := range value {
			v.items = append(v.items, tomlOf(item))
		}
		return v
	case map[string]any:
		v := &tomlValue{kind: unstable.Table, table: newTable(byValue)}
		for name, member := range value {
			if member != nil {
				v.table.add(name, tomlOf(member))
			}
		}
		return v
	}
	return &tomlValue{} // TOML has no null
}
