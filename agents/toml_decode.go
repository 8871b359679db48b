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

// DecodeTOML reads an entry from a file of the old registry. Unknown keys are kept, and TOML writes
// them again. The error says in which line the text is no entry, and why.
func DecodeTOML(data []byte) (Entry, error) {
	root, err := parseDocument(data)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := fill(root, e.fields(), requiredOfEntry, e.keepExact); err != nil {
		return Entry{}, err
	}
	e.wasRead(nil)
	if !bytes.Equal(e.encode(), data) {
		e.kept.document, e.kept.documentOf = bytes.Clone(data), e.SessionID
	}
	return e, nil
}

// fill sets the fields that the table has. keep gets the text of times that a time.Time can't hold.
func fill(t *tomlTable, fields []field, required []string, keep func(name, text string)) error {
	for _, f := range fields {
		v := t.values[f.name]
		if v == nil {
			if slices.Contains(required, f.name) {
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
		*into, err = v.asString("a string")
	case **string:
		*into, err = optional(v.asString("a string"))
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
		*into, err = v.asStrings()
	case *Status:
		*into, err = v.asStatus()
	case *UsageSummary:
		err = v.asUsage(into)
	case *[]ContextQuery:
		*into, err = v.asQueries()
	}
	return err
}

func optional[T any](v T, err error) (*T, error) { return &v, err }

func (v *tomlValue) wrongType(expected string) error {
	return &decodeError{Line: v.line, Reason: fmt.Sprintf("invalid type: %s, expected %s", v.describe(),
		expected)}
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

func (v *tomlValue) asString(expected string) (string, error) {
	if v.kind != unstable.String {
		return "", v.wrongType(expected)
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
		return 0, &decodeError{
			Line:   v.line,
			Reason: fmt.Sprintf("invalid value: integer `%s`, expected %s", v.text, expected),
		}
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
		return 0, &decodeError{Line: v.line, Reason: "floating-point number overflowed"}
	}
	return f, nil
}

// parseFloat32 goes by way of a float64, as the original does it: only what is too large for that
// is an error.
func parseFloat32(text string) (float32, error) {
	switch text {
	case "-nan", "+nan": // which ParseFloat does not know
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
		return time.Time{}, &decodeError{Line: v.line, Reason: err.Error()}
	}
	keep(name, exact)
	return t, nil
}

func (v *tomlValue) asStrings() ([]string, error) {
	if v.kind != unstable.Array {
		return nil, v.wrongType("a sequence")
	}
	var list []string
	for _, item := range v.items {
		text, err := item.asString("a string")
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

// asStatus takes the word, and also the table that serde allows in its place: [status] with one empty member.
func (v *tomlValue) asStatus() (Status, error) {
	word := v.text
	switch {
	case v.kind == unstable.Table && len(v.table.keys) == 1:
		word = v.table.keys[0]
		inner := v.table.values[word]
		empty := inner.kind == unstable.Array && len(inner.items) == 0 || inner.kind == unstable.Table &&
			len(inner.table.keys) == 0
		if !empty {
			return "", &decodeError{Line: v.line, Reason: "expected empty table"}
		}
	case v.kind != unstable.String:
		return "", v.wrongType("string or table")
	}
	return checkStatus(word, v.line)
}

func checkStatus(word string, line int) (Status, error) {
	if s := Status(word); slices.Contains(statuses, s) {
		return s, nil
	}
	return "", &decodeError{Line: line, Reason: fmt.Sprintf(
		"unknown variant `%s`, expected one of `active`, `abandoned`, `complete`, `merged`", word)}
}

func (v *tomlValue) asUsage(into *UsageSummary) error {
	*into = UsageSummary{}
	switch v.kind {
	case unstable.Table:
		return fill(v.table, into.fields(), nil, nil)
	case unstable.Array:
		return v.inOrder(into.fields(), nil)
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

func (v *tomlValue) asQueries() ([]ContextQuery, error) {
	if v.kind != unstable.Array {
		return nil, v.wrongType("a sequence")
	}
	var list []ContextQuery
	for _, item := range v.items {
		var q ContextQuery
		if err := item.asQuery(&q); err != nil {
			return nil, err
		}
		list = append(list, q)
	}
	return list, nil
}

func (v *tomlValue) asQuery(into *ContextQuery) error {
	keep := func(_, text string) { into.exact = text }
	fields := into.fields()
	var err error
	switch {
	case v.kind == unstable.Table:
		err = fill(v.table, fields, requiredOfQuery, keep)
	case v.kind != unstable.Array:
		return v.wrongType("struct ContextQueryEntry")
	case len(v.items) < len(fields):
		return &decodeError{Line: v.line, Reason: fmt.Sprintf("invalid length %d, expected struct "+
			"ContextQueryEntry with %d elements", len(v.items), len(fields))}
	default:
		err = v.inOrder(fields, keep)
	}
	if err == nil && into.QueriedAt.IsZero() {
		into.exact = chrono.Format(into.QueriedAt) // was given, and so is not now
	}
	return err
}
