package live

import (
	"bytes"

	"selvedge/db"
	"selvedge/internal/live"
	"selvedge/internal/serdejson"
	"selvedge/internal/usage"
)

// An Event is one event of an agent: a JSON object whose "type" says which, kept byte for byte. The
// zero value is no event.
type Event struct{ stored live.Event }

// NewEvent checks a JSON text. db.ErrInvalid: it is not an object, its type is missing, it is
// nested more than 123 levels deep, or it is one of the 41 known types and has a member that is
// missing or of the wrong type. Types that nobody knows are taken as they are, and so are members.
// Blanks around the object are dropped.
func NewEvent(text []byte) (Event, error) {
	text = bytes.Trim(text, " \t\r\n")
	e, reason := live.ReadEvent(text)
	if reason != "" {
		return Event{}, db.Invalid("an event is a JSON object with a type, and the members of that type",
			"the event can't be read: %s", reason)
	}
	e.Text = bytes.Clone(text)
	return Event{e}, nil
}

// Type is the event's own word for what it is, as in "agent_start".
func (e Event) Type() string { return e.stored.Kind }

// JSON is the event as it was given. It must not be changed.
func (e Event) JSON() []byte { return e.stored.Text }

// Usage is what a turn_end or an agent_end says that models used; other events count nothing. An
// agent_end sums its turn_ends up.
func (e Event) Usage() db.Usage {
	if e.stored.Kind != "turn_end" && e.stored.Kind != "agent_end" {
		return db.Usage{}
	}
	return usage.Of(e.stored.Text)
}

// MarshalJSON gives the event; json.Marshal compacts and escapes what it gets, JSON and AppendJSON don't.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.stored.Text == nil {
		return []byte("null"), nil
	}
	return e.stored.Text, nil
}

// UnmarshalJSON is NewEvent.
func (e *Event) UnmarshalJSON(text []byte) (err error) {
	*e, err = NewEvent(text)
	return err
}

// AgentStart is the event that begins a run's work: executing, and the prompt is filled in where it
// was empty.
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
	e.stored.Text = append(e.stored.Text[:len(e.stored.Text)-1],
		`,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cache_read_tokens":null,"cache_write_tokens":null},`+
			`"verification_summary":{"status":"skipped","report_count":0,"required_check_count":0,"pending_required_check_count":0,"failed_check_count":0,"residual_risk_count":0}}`...)
	return e
}

func textEvent(kind, member, value string) Event {
	text := append([]byte(`{"type":"`), kind...)
	text = append(append(append(text, `","`...), member...), `":`...)
	return Event{live.Event{Kind: kind, Field: value, Text: append(serdejson.AppendQuoted(text, value), '}')}}
}
