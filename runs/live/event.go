package live

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/serdejson"
)

// An Event is one event of an agent: a JSON object whose "type" says which, kept byte for byte. The zero value is no event.
type Event struct {
	text  []byte
	kind  string
	field string // of agent_start its prompt, of agent_end its text, of error its message
}

// NewEvent checks a JSON text. db.ErrInvalid: it is not an object, its type is missing, or it is one of the 41 types of
// the original and has a member that is missing or of the wrong type. Types that the original doesn't know are taken as
// they are, and so are members that it doesn't know. Blanks around the object are dropped.
func NewEvent(text []byte) (Event, error) {
	text = bytes.Trim(text, " \t\r\n")
	e, reason := readEvent(text, false)
	if reason != "" {
		return Event{}, fmt.Errorf("%w: the event can't be read: %s", db.ErrInvalid, reason)
	}
	e.text = bytes.Clone(text)
	return e, nil
}

// Type is the event's own word for what it is, as in "agent_start".
func (e Event) Type() string { return e.kind }

// JSON is the event as it was given. It must not be changed.
func (e Event) JSON() []byte { return e.text }

// MarshalJSON gives the event; json.Marshal compacts and escapes what it gets, JSON and AppendJSON don't.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.text == nil {
		return []byte("null"), nil
	}
	return e.text, nil
}

// UnmarshalJSON is NewEvent.
func (e *Event) UnmarshalJSON(text []byte) (err error) {
	*e, err = NewEvent(text)
	return err
}

// AgentStart is the event that begins a run's work: executing, and the prompt is filled in where it was empty.
func AgentStart(prompt string) Event { return textEvent("agent_start", "prompt", prompt) }

// PlanningStart is the event that puts a run into planning.
func PlanningStart(prompt string) Event { return textEvent("planning_start", "prompt", prompt) }

// TextDelta is a piece of the model's answer.
func TextDelta(text string) Event { return textEvent("text_delta", "text", text) }

// ErrorEvent is the event that fails a run.
func ErrorEvent(message string) Event { return textEvent("error", "message", message) }

// AgentEnd is the event that completes a run, with nothing used and nothing verified.
func AgentEnd(text string) Event {
	e := textEvent("agent_end", "text", text)
	e.text = append(e.text[:len(e.text)-1], `,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cache_read_tokens":null,"cache_write_tokens":null},`+
		`"verification_summary":{"status":"skipped","report_count":0,"required_check_count":0,"pending_required_check_count":0,"failed_check_count":0,"residual_risk_count":0}}`...)
	return e
}

func textEvent(kind, member, value string) Event {
	text := append([]byte(`{"type":"`), kind...)
	text = append(append(append(text, `","`...), member...), `":`...)
	return Event{kind: kind, field: value, text: append(serdejson.AppendQuoted(text, value), '}')}
}

// check is for events that were not made by NewEvent.
func (e Event) check() error {
	switch {
	case e.text == nil:
		return fmt.Errorf("%w: there is no event", db.ErrInvalid)
	case !utf8.ValidString(e.field):
		return fmt.Errorf("%w: the event is not valid UTF-8", db.ErrInvalid)
	}
	return nil
}

// told names, of the types that change a run's texts, the member that does.
var told = map[string]string{"agent_start": "prompt", "agent_end": "text", "error": "message"}

// readEvent reads an event; reason says why it can't. The original also reads an array, first the type and then the
// members in their order: its files may have such events, its callers may not.
func readEvent(text []byte, arrays bool) (e Event, reason string) {
	if !utf8.Valid(text) {
		return e, "it is not valid UTF-8"
	}
	s := serdejson.NewScanner(text)
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
	e.text = text
	return e, ""
}

// event finds the type, checks the members, and picks the one that matters to the run.
func (m *members) event(e *Event) string {
	kind, reason := m.takeType()
	if reason != "" {
		return reason
	}
	e.kind = kind
	fields, known := eventTypes[kind]
	if !known {
		return ""
	}
	if reason := m.check(fields); reason != "" {
		return reason
	}
	if name, ok := told[kind]; ok {
		e.field = serdejson.Unquote(m.value(fields, name))
	}
	return ""
}
