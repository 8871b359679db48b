package live

import (
	"unicode/utf8"

	"selvedge/internal/serdejson"
)

// An Event is one event of an agent: a JSON text, and what its run's row needs to know of it.
type Event struct {
	Text  []byte
	Kind  string // the member "type"
	Field string // of agent_start its prompt, of agent_end its text, of error its message
}

// EventLevels is how many arrays and objects an event stands inside in a file: the file's array,
// the record, the array of its events and the event's own record.
const EventLevels = 4

// told names, of the types that change a run's texts, the member that does.
var told = map[string]string{"agent_start": "prompt", "agent_end": "text", "error": "message"}

// ReadEvent reads an event that a caller gives; reason says why it can't be one. It is read as deep
// as it can be once it stands in a file.
func ReadEvent(text []byte) (e Event, reason string) { return readEvent(text, EventLevels, false) }

// readEvent reads an event that stands inside that many arrays and objects. With arrays it may be
// an array, first the type and then the members in their order: files may have such events, callers
// may not.
func readEvent(text []byte, above int, arrays bool) (e Event, reason string) {
	if !utf8.Valid(text) {
		return e, "it is not valid UTF-8"
	}
	s := serdejson.NewScannerInside(text, above)
	values, reason := spanMembers(s, arrays)
	if reason != "" {
		return e, reason
	}
	if s.Peek(); !s.AtEnd() {
		s.PeekFail("trailing characters")
		return e, s.Reason()
	}
	if reason = values.event(&e); reason != "" {
		return Event{}, reason
	}
	e.Text = text
	return e, ""
}

// event finds the type, checks the members, and picks the one that matters to the run.
func (m *members) event(e *Event) string {
	kind, reason := m.takeType()
	if reason != "" {
		return reason
	}
	e.Kind = kind
	fields, known := eventTypes[kind]
	if !known {
		return ""
	}
	if reason := m.check(fields); reason != "" {
		return reason
	}
	if name, ok := told[kind]; ok {
		e.Field = serdejson.Unquote(m.value(fields, name))
	}
	return ""
}
