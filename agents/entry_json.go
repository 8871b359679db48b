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

// MarshalJSON writes the members in the order of the fields, without those that are nil. Keys that
// a later program added are only in TOML.
func (e Entry) MarshalJSON() ([]byte, error) { return marshalFields(e.fields(), e.timeText) }

// MarshalJSON writes the members in the order of the fields, without those that are nil.
func (u UsageSummary) MarshalJSON() ([]byte, error) { return marshalFields(u.fields(), nil) }

// MarshalJSON writes the members in the order of the fields, without those that are nil.
func (q ContextQuery) MarshalJSON() ([]byte, error) { return marshalFields(q.fields(), q.timeText) }

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
	case *UsageSummary:
		return *v
	case *[]ContextQuery:
		if *v == nil {
			return []ContextQuery{}
		}
		return *v
	}
	return nil
}

// UnmarshalJSON reads what MarshalJSON writes. Missing and null are the same, unknown members
// are ignored, and session_id, thread, base_state, started_at and status must be there.
func (e *Entry) UnmarshalJSON(data []byte) error {
	*e = Entry{}
	err := unmarshalFields(data, e.fields(), requiredOfEntry, e.keepExact)
	e.wasRead(nil)
	return err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (u *UsageSummary) UnmarshalJSON(data []byte) error {
	*u = UsageSummary{}
	return unmarshalFields(data, u.fields(), nil, nil)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (q *ContextQuery) UnmarshalJSON(data []byte) error {
	*q = ContextQuery{}
	err := unmarshalFields(data, q.fields(), requiredOfQuery, func(_, text string) { q.exact = text })
	if err == nil && q.QueriedAt.IsZero() {
		q.exact = chrono.Format(q.QueriedAt) // was given, and so is not now
	}
	return err
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
				return &decodeError{Reason: fmt.Sprintf("missing field `%s`", f.name)}
			}
			continue
		}
		if err := setFromJSON(f, raw, keep); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// set sets one field by its name in documents; null clears it.
func (e *Entry) set(name string, value json.RawMessage) error {
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
			return &decodeError{Reason: "invalid type: null, expected a string"}
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
