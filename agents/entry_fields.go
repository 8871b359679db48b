package agents

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/internal/txn"
)

// A field is one key of an entry: its name in documents and a pointer to its value, which is one of
// *string, **string, **uint32, **uint64, *time.Time, **time.Time, *[]string, **float32, *Status,
// *UsageSummary and *[]ContextQuery.
type field struct {
	name  string
	holds any
}

// fieldsOf returns the fields of an *Entry, *UsageSummary or *ContextQuery in the order of the
// original's struct, which is that of its JSON. All code that reads or writes whole records uses
// it. A field's name is its json tag, or the name of its column if it has none.
func fieldsOf(record any) []field {
	v := reflect.ValueOf(record).Elem()
	names, known := fieldNames.Load(v.Type())
	if !known {
		names = namesOf(v.Type())
		fieldNames.Store(v.Type(), names)
	}
	list := make([]field, 0, v.NumField())
	for i, name := range names.([]string) {
		if name != "" {
			list = append(list, field{name, v.Field(i).Addr().Interface()})
		}
	}
	return list
}

var fieldNames sync.Map // by type, as namesOf returns them

// namesOf returns the name of each field in documents; "" is in none.
func namesOf(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(cmp.Or(f.Tag.Get("json"), f.Tag.Get("db")), ",")
		names = append(names, name)
	}
	return names
}

// time is the time that the field holds; nil for other fields, and for a time that is not set.
func (f field) time() *time.Time {
	switch v := f.holds.(type) {
	case *time.Time:
		return v
	case **time.Time:
		return *v
	}
	return nil
}

// A timeWriter spells a time as it was read.
type timeWriter func(name string, t time.Time) string

// value is what the field holds, for writing: a string, uint64, float32, []string, UsageSummary or
// []ContextQuery; nil if it is left out.
func (f field) value(text timeWriter) any {
	held := reflect.ValueOf(f.holds).Elem()
	if held.Kind() == reflect.Pointer {
		if held.IsNil() {
			return nil
		}
		held = held.Elem()
	}
	switch v := held.Interface().(type) {
	case time.Time:
		return text(f.name, v)
	case Status:
		return string(v)
	case uint32:
		return uint64(v)
	case []string:
		return append([]string{}, v...)
	case []ContextQuery:
		return append([]ContextQuery{}, v...)
	default:
		return v
	}
}

// timeText is how the original writes the time called name.
func (e *Entry) timeText(name string, t time.Time) string { return chrono.Text(t, e.kept.exact[name]) }

func (q *ContextQuery) timeText(_ string, t time.Time) string { return chrono.Text(t, q.exact) }

func (e *Entry) keepExact(name, text string) {
	if text == "" {
		return
	}
	e.kept.exact = maps.Clone(e.kept.exact) // shared with the entries that this one was copied from
	if e.kept.exact == nil {
		e.kept.exact = map[string]string{}
	}
	e.kept.exact[name] = text
}

// under returns the entry with the id of its file, which may differ from that of its document. The
// document stays as it is until something else in the entry changes.
func (e Entry) under(id string) Entry {
	if e.kept.document == nil {
		e.kept.document = e.encode()
	}
	e.SessionID, e.kept.documentOf = id, id
	return e
}

// A configError reports a wrong argument in the words of the old registry. It unwraps to a sentinel
// of package db.
type configError struct {
	Text string
	Hint string // what a person can do about it
	Is   error
}

func (e *configError) Error() string { return "configuration error: " + e.Text }

// Unwrap returns the sentinel.
func (e *configError) Unwrap() error { return e.Is }

// invalid returns a configError that is a db.ErrInvalid.
func invalid(hint, format string, args ...any) error {
	return &configError{Text: fmt.Sprintf(format, args...), Hint: hint, Is: db.ErrInvalid}
}

// checkID refuses what can't be an agent's id.
func checkID(id string) error {
	bad := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	if id == "" || strings.ContainsFunc(id, bad) {
		return invalid("use a to z, 0 to 9 and -, such as agents.GenerateID makes",
			"invalid session ID '%s': only lowercase alphanumeric and hyphens allowed", id)
	}
	return nil
}

// check refuses an entry that can't be stored, or that an old program could not read again.
func (e *Entry) check() error {
	err := cmp.Or(checkID(e.SessionID), txn.CheckID("agent", e.SessionID), e.Status.check(e.SessionID))
	if err != nil {
		return err
	}
	fields := fieldsOf(e)
	for i := range e.ContextQueries {
		fields = append(fields, fieldsOf(&e.ContextQueries[i])...)
	}
	for _, f := range fields {
		if !f.writable() {
			return invalid("give text in UTF-8 and times of the years that RFC 3339 knows",
				"agent %s: %s is not valid UTF-8, or a year beyond 262142", e.SessionID, f.name)
		}
	}
	return nil
}

// check refuses anything but the four states.
func (s Status) check(id string) error {
	if !slices.Contains(statuses, s) {
		return invalid("give active, abandoned, complete or merged",
			"agent %s: status %q is none of active, abandoned, complete, merged", id, s)
	}
	return nil
}

func (f field) writable() bool {
	if t := f.time(); t != nil {
		return chrono.InRange(*t)
	}
	switch v := f.value(nil).(type) {
	case string:
		return utf8.ValidString(v)
	case []string:
		return utf8.ValidString(strings.Join(v, ""))
	}
	return true
}
