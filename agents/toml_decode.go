package agents

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"selvedge/internal/chrono"
)

// DecodeTOML reads an entry from a file of the old registry. Unknown keys are kept, and
// [Entry.TOML] writes them back. The error names the line and the reason.
func DecodeTOML(data []byte) (Entry, error) {
	root, err := parseDocument(data)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := fill(root, fieldsOf(&e), e.keepExact); err != nil {
		return Entry{}, err
	}
	e.wasRead(nil)
	if !bytes.Equal(e.encode(), data) {
		e.kept.document, e.kept.documentOf = bytes.Clone(data), e.SessionID
	}
	return e, nil
}

// fill sets the fields that the table has. A string, a time or a status that may not be nil is
// required. keep receives the text of times that a time.Time can't hold.
func fill(t *tomlTable, fields []field, keep func(name, text string)) error {
	for _, f := range fields {
		v := t.values[f.name]
		if v == nil {
			switch f.holds.(type) {
			case *string, *time.Time, *Status:
				return &decodeError{Reason: fmt.Sprintf("missing field `%s`", f.name)}
			}
			continue
		}
		if err := v.into(f, keep); err != nil {
			return err
		}
	}
	return nil
}

func (v *tomlValue) into(f field, keep func(name, text string)) (err error) {
	switch into := f.holds.(type) {
	case *string:
		*into, err = v.asString()
	case **string:
		*into, err = optional(v.asString())
	case **uint32:
		var n uint64
		n, err = v.asUint(32)
		*into, err = optional(uint32(n), err)
	case **uint64:
		*into, err = optional(v.asUint(64))
	case *time.Time:
		*into, err = v.asTime(f.name, keep)
	case **time.Time:
		*into, err = optional(v.asTime(f.name, keep))
	case **float32:
		*into, err = optional(v.asFloat32())
	case *[]string:
		*into, err = listOf(v, (*tomlValue).asString)
	case *Status:
		*into, err = v.asStatus()
	case *UsageSummary:
		err = v.asUsage(into)
	case *[]ContextQuery:
		*into, err = listOf(v, (*tomlValue).asQuery)
	}
	return err
}

func optional[T any](v T, err error) (*T, error) { return &v, err }

func (v *tomlValue) wrongType(expected string) error {
	return v.fail("invalid type: %s, expected %s", v.describe(), expected)
}

func (v *tomlValue) fail(format string, args ...any) error {
	return &decodeError{Line: v.line, Reason: fmt.Sprintf(format, args...)}
}

// describe names the value as the original's errors do.
func (v *tomlValue) describe() string {
	switch v.kind {
	case unstable.String:
		return fmt.Sprintf("string %q", v.text)
	case unstable.Integer:
		return fmt.Sprintf("integer `%s`", v.text)
	case unstable.Float:
		return fmt.Sprintf("floating point `%s`", v.text)
	case unstable.Bool:
		return fmt.Sprintf("boolean `%s`", v.text)
	case unstable.Array:
		return "sequence"
	case unstable.Invalid: // of JSON
		return "null"
	}
	return "map" // a date literal, too
}

func (v *tomlValue) asString() (string, error) {
	if v.kind != unstable.String {
		return "", v.wrongType("a string")
	}
	return v.text, nil
}

func (v *tomlValue) asUint(bits int) (uint64, error) {
	expected := fmt.Sprintf("u%d", bits)
	if v.kind != unstable.Integer {
		return 0, v.wrongType(expected)
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.ReplaceAll(v.text, "_", ""), "+"), 0, bits)
	if err != nil && v.text != "-0" {
		return 0, v.fail("invalid value: integer `%s`, expected %s", v.text, expected)
	}
	return n, nil
}

func (v *tomlValue) asFloat32() (float32, error) {
	if v.kind != unstable.Float && v.kind != unstable.Integer {
		return 0, v.wrongType("f32")
	}
	text := strings.ReplaceAll(v.text, "_", "")
	if v.kind == unstable.Integer {
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			return float32(n), nil
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 0, 64)
		if err != nil {
			return 0, v.wrongType("f32")
		}
		return float32(n), nil
	}
	f, err := parseFloat32(text)
	if err != nil {
		return 0, v.fail("floating-point number overflowed")
	}
	return f, nil
}

// parseFloat32 converts through a float64, as the original does: only a value too large for that is
// an error.
func parseFloat32(text string) (float32, error) {
	if strings.TrimLeft(text, "+-") == "nan" { // ParseFloat takes no sign before it
		return float32(math.NaN()), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	return float32(f), err
}

func (v *tomlValue) asTime(name string, keep func(name, text string)) (time.Time, error) {
	const expected = "an RFC 3339 formatted date and time string"
	if v.kind != unstable.String {
		return time.Time{}, v.wrongType(expected)
	}
	t, exact, err := chrono.Parse(v.text)
	if err != nil {
		return time.Time{}, v.fail("%s", err)
	}
	keep(name, exact)
	return t, nil
}

func listOf[T any](v *tomlValue, one func(*tomlValue) (T, error)) (list []T, err error) {
	if v.kind != unstable.Array {
		return nil, v.wrongType("a sequence")
	}
	for _, item := range v.items {
		value, err := one(item)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// asStatus accepts the word, and also the table that serde allows instead: [status] with one empty
// member.
func (v *tomlValue) asStatus() (Status, error) {
	word := v.text
	switch {
	case v.kind == unstable.Table && len(v.table.keys) == 1:
		word = v.table.keys[0]
		inner := v.table.values[word]
		empty := inner.kind == unstable.Array && len(inner.items) == 0 || inner.kind == unstable.Table &&
			len(inner.table.keys) == 0
		if !empty {
			return "", v.fail("expected empty table")
		}
	case v.kind != unstable.String:
		return "", v.wrongType("string or table")
	}
	if s := Status(word); slices.Contains(statuses, s) {
		return s, nil
	}
	return "", v.fail("unknown variant `%s`, expected one of `active`, `abandoned`, `complete`, `merged`", word)
}

func (v *tomlValue) asUsage(into *UsageSummary) error {
	*into = UsageSummary{}
	switch v.kind {
	case unstable.Table:
		return fill(v.table, fieldsOf(into), nil)
	case unstable.Array:
		return v.inOrder(fieldsOf(into), nil)
	case unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		return nil // a map, to the original, with none of the members
	}
	return v.wrongType("struct AgentUsageSummary")
}

// inOrder sets the fields from the elements of an array, which serde takes for a struct. The last
// ones may be missing if none of them is required.
func (v *tomlValue) inOrder(fields []field, keep func(name, text string)) error {
	for i, item := range v.items[:min(len(v.items), len(fields))] {
		if err := item.into(fields[i], keep); err != nil {
			return err
		}
	}
	return nil
}

func (v *tomlValue) asQuery() (q ContextQuery, err error) {
	keep := func(_, text string) { q.exact = text }
	fields := fieldsOf(&q)
	switch {
	case v.kind == unstable.Table:
		err = fill(v.table, fields, keep)
	case v.kind != unstable.Array:
		err = v.wrongType("struct ContextQueryEntry")
	case len(v.items) < len(fields):
		err = v.fail("invalid length %d, expected struct ContextQueryEntry with %d elements", len(v.items),
			len(fields))
	default:
		err = v.inOrder(fields, keep)
	}
	if err == nil && q.QueriedAt.IsZero() {
		q.exact = chrono.Format(q.QueriedAt) // present, so it does not default to now
	}
	return q, err
}
