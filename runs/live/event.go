package live

import (
	"bytes"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/serdejson"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

// An Event is one event of an agent: a JSON object whose "type" names its kind, kept byte for byte.
// The zero value is no event. A function or struct of this package makes an event of each known type,
// and NewEvent makes any event of its JSON.
type Event struct {
	text  []byte
	kind  string // the member "type"
	field string // the prompt of agent_start, the text of agent_end, the message of error
	err   error  // why the function of its type could not make it
}

// eventLevels is how many arrays and objects enclose an event in a file: the file's array, the
// record, the array of its events and the event's own record.
const eventLevels = 4

// fieldOf names the member of an event that changes the run's texts, by the event's type.
var fieldOf = map[string]string{"agent_start": "prompt", "agent_end": "text", "error": "message"}

// NewEvent checks a JSON text. db.ErrInvalid: it is not an object, its type is missing, it is
// nested more than 123 levels deep, or it is one of the 41 known types and has a member that is
// missing or of the wrong type. Unknown types and unknown members are accepted as they are. Blanks
// around the object are dropped.
func NewEvent(text []byte) (Event, error) {
	text = bytes.Trim(text, " \t\r\n")
	e, reason := readEvent(text, eventLevels, false)
	if reason != "" {
		return Event{}, txn.Invalid("an event is a JSON object with a type, and the members of that type",
			"the event can't be read: %s", reason)
	}
	e.text = bytes.Clone(text)
	return e, nil
}

// Type returns the event's "type", such as "agent_start".
func (e Event) Type() string { return e.kind }

// JSON returns the event as it was given. The caller must not change it. It is nil for an event that
// Append refuses because a value was wrong.
func (e Event) JSON() []byte { return e.text }

// Usage returns the model usage that a turn_end or an agent_end reports; it is zero for other
// events. An agent_end holds the sum of its turn_ends.
func (e Event) Usage() db.Usage {
	if e.kind != "turn_end" && e.kind != "agent_end" {
		return db.Usage{}
	}
	return usage.Of(e.text)
}

// MarshalJSON returns the event. Unlike JSON, json.Marshal compacts and escapes it.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.text == nil && e.err == nil {
		return []byte("null"), nil
	}
	return e.text, e.err
}

// UnmarshalJSON is NewEvent.
func (e *Event) UnmarshalJSON(text []byte) (err error) {
	*e, err = NewEvent(text)
	return err
}

// check returns db.ErrInvalid for an event that NewEvent did not make.
func (e Event) check() error {
	switch {
	case e.err != nil:
		return e.err
	case e.text == nil:
		return txn.Invalid("make it with NewEvent, or with the function of its type", "there is no event")
	case !utf8.ValidString(e.field):
		return txn.Invalid("make its texts valid UTF-8", "the event is not valid UTF-8")
	}
	return nil
}

// readEvent reads an event that is nested in this many arrays and objects; reason is why it cannot
// be one. With arrays, the event may be an array of the type and then the members in order: files
// may have such events, callers may not.
func readEvent(text []byte, above int, arrays bool) (e Event, reason string) {
	m, reason := wholeMembers(text, above, arrays)
	if reason != "" {
		return e, reason
	}
	e = Event{text: text}
	if e.kind, reason = m.takeType(); reason != "" {
		return Event{}, reason
	}
	if s, known := eventTypes()[e.kind]; known {
		if reason := m.check(s.fields); reason != "" {
			return Event{}, reason
		}
		if name, ok := fieldOf[e.kind]; ok {
			e.field = serdejson.Unquote(m.value(s.fields, name))
		}
	}
	return e, ""
}
