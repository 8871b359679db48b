package agents

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// MarshalJSON writes the members in the order of the fields, without those that are nil. Keys that
// a later program added are only in TOML.
func (e Entry) MarshalJSON() ([]byte, error) { return marshalFields(e.fields(), e.timeText) }

// MarshalJSON writes the members in the order of the fields, without those that are nil.
func (q ContextQuery) MarshalJSON() ([]byte, error) { return marshalFields(q.fields(), q.timeText) }

func marshalFields(fields []field, text timeWriter) (dst []byte, err error) {
	dst = []byte{'{'}
	for _, f := range fields {
		value := f.value(text)
		number, isFloat := value.(float32)
		wide := float64(number)
		if value == nil || math.IsNaN(wide) || math.IsInf(wide, 0) { // JSON has no word for the latter two
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

// UnmarshalJSON reads what MarshalJSON writes. Missing and null are the same, unknown members
// are ignored, and session_id, thread, base_state, started_at and status must be there.
func (e *Entry) UnmarshalJSON(data []byte) error {
	v, err := valueOfJSON(data)
	if err == nil && v.kind != unstable.Table {
		err = v.wrongType("struct AgentEntry")
	}
	if err != nil {
		return err
	}
	*e = Entry{}
	err = fill(v.table, e.fields(), requiredOfEntry, e.keepExact)
	e.wasRead(nil)
	return err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (q *ContextQuery) UnmarshalJSON(data []byte) error {
	v, err := valueOfJSON(data)
	if err != nil {
		return err
	}
	*q = ContextQuery{}
	return v.asQuery(q)
}

// valueOfJSON gives a value as one of TOML, which fields are set from. Members that are null are
// left out.
func valueOfJSON(raw json.RawMessage) (*tomlValue, error) {
	v := &tomlValue{text: string(raw)}
	var err error
	switch raw[0] {
	case '"':
		v.kind = unstable.String
		err = json.Unmarshal(raw, &v.text)
	case 't', 'f':
		v.kind = unstable.Bool
	case 'n': // of no kind that TOML has
	case '[':
		v.kind = unstable.Array
		var items []json.RawMessage
		err = json.Unmarshal(raw, &items)
		for i := 0; i < len(items) && err == nil; i++ {
			var item *tomlValue
			item, err = valueOfJSON(items[i])
			v.items = append(v.items, item)
		}
	case '{':
		v.kind, v.table = unstable.Table, newTable(byValue)
		var members map[string]json.RawMessage
		err = json.Unmarshal(raw, &members)
		for name, member := range members {
			var value *tomlValue
			if value, err = valueOfJSON(member); err != nil {
				break
			}
			if value.kind != unstable.Invalid {
				v.table.add(name, value)
			}
		}
	default:
		v.kind = unstable.Float
		if _, wrong := strconv.ParseInt(v.text, 10, 64); wrong == nil && v.text != "-0" {
			v.kind = unstable.Integer
		} else if _, wrong := strconv.ParseUint(v.text, 10, 64); wrong == nil {
			v.kind = unstable.Integer
		}
	}
	return v, err
}
