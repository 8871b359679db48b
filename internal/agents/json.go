package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
)

// MarshalJSON gives the members in the original's order; those that nobody gave are left out. Keys that the original does
// not know are not in it; see TOML.
func (e Record) MarshalJSON() ([]byte, error) { return marshalFields(e.fields(), e.timeText) }

// MarshalJSON gives the members in the original's order; those that nobody gave are left out.
func (u Usage) MarshalJSON() ([]byte, error) { return marshalFields(u.fields(), nil) }

// MarshalJSON gives the members in the original's order; those that nobody gave are left out.
func (q Query) MarshalJSON() ([]byte, error) { return marshalFields(q.fields(), q.timeText) }

func marshalFields(fields []field, text timeWriter) ([]byte, error) {
	dst := []byte{'{'}
	for _, f := range fields {
		value := jsonValue(f, text)
		if value == nil {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendQuote(dst, f.name), ':')
		if number, ok := value.(json.Number); ok { // not through Marshal: it refuses what Rust's readers take
			dst = append(dst, number...)
			continue
		}
		var err error
		if dst, err = appendJSON(dst, value); err != nil {
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

// jsonValue is nil for what is left out.
func jsonValue(f field, text timeWriter) any {
	switch v := f.holds.(type) {
	case *string:
		return *v
	case **string:
		if *v != nil {
			return **v
		}
	case **uint32:
		if *v != nil {
			return **v
		}
	case **uint64:
		if *v != nil {
			return **v
		}
	case *time.Time:
		return text(f.name, *v)
	case **time.Time:
		if *v != nil {
			return text(f.name, **v)
		}
	case **float32:
		if *v != nil && !math.IsNaN(float64(**v)) && !math.IsInf(float64(**v), 0) { // JSON has no word for those
			return json.Number(floatText(**v))
		}
	case *[]string:
		if *v == nil {
			return []string{}
		}
		return *v
	case *Status:
		return string(*v)
	case *Usage:
		return *v
	case *[]Query:
		if *v == nil {
			return []Query{}
		}
		return *v
	}
	return nil
}

// UnmarshalJSON reads what MarshalJSON writes. Missing and null are the same, members that the original does not know
// are passed over, and its five required members must be there.
func (e *Record) UnmarshalJSON(data []byte) error {
	*e = Record{}
	return unmarshalFields(data, e.fields(), requiredOfEntry, e.keepExact)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (u *Usage) UnmarshalJSON(data []byte) error {
	*u = Usage{}
	return unmarshalFields(data, u.fields(), nil, nil)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (q *Query) UnmarshalJSON(data []byte) error {
	*q = Query{}
	return unmarshalFields(data, q.fields(), requiredOfQuery, func(_, text string) { q.Exact = text })
}

func unmarshalFields(data []byte, fields []field, required []string, keep func(name, text string)) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for _, f := range fields {
		raw, ok := members[f.name]
		if !ok || string(raw) == "null" {
			if slices.Contains(required, f.name) {
				return &DecodeError{Reason: fmt.Sprintf("missing field `%s`", f.name)}
			}
			continue
		}
		if err := setFromJSON(f, raw, keep); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// Set sets one field by its name in documents; null clears it.
func (e *Record) Set(name string, value json.RawMessage) error {
	for _, f := range e.fields() {
		if f.name == name {
			return setFromJSON(f, value, e.keepExact)
		}
	}
	return fmt.Errorf("%w: a record has no member %s", db.ErrInvalid, name)
}

func setFromJSON(f field, raw json.RawMessage, keep func(name, text string)) error {
	var text string
	switch into := f.holds.(type) {
	case *time.Time:
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		t, exact, err := chrono.Parse(text)
		keep(f.name, exact)
		*into = t
		return err
	case **time.Time:
		if string(raw) == "null" {
			*into = nil
			return nil
		}
		var t time.Time
		*into = &t
		return setFromJSON(field{f.name, &t}, raw, keep)
	case *Status:
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		s, err := checkStatus(text, 0)
		*into = s
		return err
	case *[]string:
		var elements []*string // a null among them is none of the original's strings
		if err := json.Unmarshal(raw, &elements); err != nil {
			return err
		}
		if slices.Contains(elements, nil) {
			return &DecodeError{Reason: "invalid type: null, expected a string"}
		}
		*into = nil
		for _, element := range elements {
			*into = append(*into, *element)
		}
		return nil
	case **float32:
		// By way of a float64, as the original reads it.
		var wide *float64
		if err := json.Unmarshal(raw, &wide); err != nil {
			return err
		}
		*into = nil
		if wide != nil {
			f := float32(*wide)
			*into = &f
		}
		return nil
	}
	return json.Unmarshal(raw, f.holds)
}
