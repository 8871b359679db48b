package live

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"selvedge/db"
)

// Statuses are the words of a run's status.
var Statuses = []string{"created", "planning", "executing", "verifying", "completed", "failed", "cancelled"}

// KnownStatus reports whether a word is a status.
func KnownStatus(word string) bool { return slices.Contains(Statuses, word) }

// A Snapshot is what a run sums up to. Times are Unix milliseconds.
type Snapshot struct {
	ID          string
	SessionID   string
	Status      string
	Prompt      string
	CreatedAtMs uint64
	UpdatedAtMs uint64
	ResultText  *string
	Error       *string
	EventCount  uint64
	Further     []byte // a JSON object with the members that this version doesn't know; nil: none
}

// An EventRecord is an event with its place in the run.
type EventRecord struct {
	Sequence    uint64
	TimestampMs uint64 // Unix milliseconds
	Event       Event
	Further     []byte // as in Snapshot
}

// A Record is a run with its events: what a session's file has an array of.
type Record struct {
	Snapshot Snapshot
	Events   []EventRecord
}

// NextSequence is what the run's event_count has to be: no less than the one that the record names,
// more than its last sequence, and no less than its events. A count of its own can be too small (a
// program that was interrupted) or larger than the events (one that trimmed them). There is nothing
// behind the last number.
func (r *Record) NextSequence() uint64 {
	count := max(r.Snapshot.EventCount, uint64(len(r.Events)))
	if n := len(r.Events); n > 0 {
		last := r.Events[n-1].Sequence
		count = max(count, last, last+1)
	}
	return count
}

// ordered reports whether the events can be found by their sequences: they grow, and an event's id
// can hold them.
func (r *Record) ordered() bool {
	for i := range r.Events {
		if s := r.Events[i].Sequence; s > maxPlace || i > 0 && s <= r.Events[i-1].Sequence {
			return false
		}
	}
	return true
}

// Size is the record's length as compact JSON, what a cap on bytes counts.
func (e *EventRecord) Size() int64 {
	if e.plain() {
		return plainSize(e.Sequence, e.TimestampMs, len(e.Event.Text))
	}
	return int64(len(e.AppendJSON(nil)))
}

func plainSize(sequence, at uint64, event int) int64 {
	const frame = len(`{"sequence":,"timestamp_ms":,"event":}`)
	return int64(frame + digits(sequence) + digits(at) + event)
}

// plain reports whether the columns of an event's row give the record back.
func (e *EventRecord) plain() bool {
	return e.Further == nil && e.Sequence <= maxInt64 && e.TimestampMs <= maxMillis
}

func digits(n uint64) int {
	d := 1
	for ; n > 9; n /= 10 {
		d++
	}
	return d
}

// Check reports, as db.ErrInvalid, why a record can't be kept.
func (r *Record) Check() error {
	s := &r.Snapshot
	if err := db.CheckID("run", s.ID); err != nil {
		return err
	}
	if err := db.CheckID("session", s.SessionID); err != nil {
		return err
	}
	if !KnownStatus(s.Status) {
		return fmt.Errorf("%w: the status %q is unknown", db.ErrInvalid, s.Status)
	}
	for _, t := range []struct {
		what string
		text *string
	}{{"prompt", &s.Prompt}, {"result text", s.ResultText}, {"error", s.Error}} {
		if t.text != nil {
			if err := CheckText(t.what, *t.text); err != nil {
				return err
			}
		}
	}
	if err := checkFurther(s.Further, EventLevels-2); err != nil {
		return err
	}
	for i := range r.Events {
		if err := r.Events[i].check(); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

func (e *EventRecord) check() error {
	if err := e.Event.Check(); err != nil {
		return err
	}
	return checkFurther(e.Further, EventLevels-1)
}

// Check is for events that were not read by ReadEvent.
func (e Event) Check() error {
	switch {
	case e.Text == nil:
		return db.Invalid("make it with NewEvent, or with the function of its type", "there is no event")
	case !utf8.ValidString(e.Field):
		return db.Invalid("make its texts valid UTF-8", "the event is not valid UTF-8")
	}
	return nil
}

// CheckText reports, as db.ErrInvalid, that a text is not UTF-8.
func CheckText(what, text string) error {
	if !utf8.ValidString(text) {
		return db.Invalid("make it valid UTF-8", "the %s is not valid UTF-8", what)
	}
	return nil
}

// checkFurther is for the members of an object that stands inside that many others in a file.
func checkFurther(text []byte, above int) error {
	if text == nil {
		return nil
	}
	m, reason := wholeMembers(text, above)
	if reason == "" && m.array {
		reason = "it is an array"
	}
	if reason != "" {
		return fmt.Errorf("%w: the further members can't be read: %s", db.ErrInvalid, reason)
	}
	return nil
}
