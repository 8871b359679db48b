package live

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/txn"
)

// RunStatus is the state of a run.
type RunStatus string

// The statuses. The store itself never sets Verifying: it comes from restored records.
const (
	Created   RunStatus = "created"
	Planning  RunStatus = "planning"
	Executing RunStatus = "executing"
	Verifying RunStatus = "verifying"
	Completed RunStatus = "completed"
	Failed    RunStatus = "failed"
	Cancelled RunStatus = "cancelled"
	// Waiting is the status that Get, Page and All show for a run that has not ended and that has a
	// question, or an effect of unknown outcome, for a person to decide: see package selvedge. The
	// old calls and events never show it.
	Waiting RunStatus = "waiting"
)

var statuses = []string{"created", "planning", "executing", "verifying", "completed", "failed", "cancelled"}

// known reports whether s is one of the seven.
func (s RunStatus) known() bool { return slices.Contains(statuses, string(s)) }

// Ended reports whether the run is over. Of the three ends only Cancelled is final: an event can
// still reopen a completed or failed run.
func (s RunStatus) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// A RunSnapshot summarizes a run. Times are Unix milliseconds.
type RunSnapshot struct {
	ID          string
	SessionID   string
	Status      RunStatus
	Prompt      string
	CreatedAtMs uint64
	UpdatedAtMs uint64  // of the last event or mark
	ResultText  *string // nil: no agent_end counted
	Error       *string // nil: no error, or an agent_end cleared it
	// EventCount is the number of events ever recorded, and the next event's sequence. Caps remove
	// events and do not change it.
	EventCount uint64
	// Further is a JSON object with the members of a restored snapshot that this version does not
	// know; nil: none.
	Further []byte
}

// A RunEventRecord is an event and its place in the run.
type RunEventRecord struct {
	Sequence    uint64
	TimestampMs uint64 // Unix milliseconds
	Event       Event
	// Further is as in RunSnapshot.
	Further []byte
}

// A RunRecord is a run with its events.
type RunRecord struct {
	Snapshot RunSnapshot
	Events   []RunEventRecord
}

// nextSequence returns the run's event_count: at least the recorded count, the number of events,
// and the last sequence plus one. The recorded count can be too small (an interrupted program) or
// larger than the events (a program that trimmed them). Nothing follows the largest number.
func (r *RunRecord) nextSequence() uint64 {
	count := max(r.Snapshot.EventCount, uint64(len(r.Events)))
	if n := len(r.Events); n > 0 {
		last := r.Events[n-1].Sequence
		count = max(count, last, last+1)
	}
	return count
}

// ordered reports whether the events can be found by their sequences: these increase, and fit an
// event's id.
func (r *RunRecord) ordered() bool {
	for i := range r.Events {
		if s := r.Events[i].Sequence; s > maxPlace || i > 0 && s <= r.Events[i-1].Sequence {
			return false
		}
	}
	return true
}

// size returns the record's length as compact JSON, which a cap on bytes counts.
func (e *RunEventRecord) size() int64 {
	if e.plain() {
		return plainSize(e.Sequence, e.TimestampMs, len(e.Event.text))
	}
	return int64(len(e.appendJSON(nil)))
}

func plainSize(sequence, at uint64, event int) int64 {
	const frame = len(`{"sequence":,"timestamp_ms":,"event":}`)
	return int64(frame + digits(sequence) + digits(at) + event)
}

// plain reports whether the columns of an event's row hold the whole record.
func (e *RunEventRecord) plain() bool {
	return e.Further == nil && e.Sequence <= maxInt64 && e.TimestampMs <= maxMillis
}

func digits(n uint64) int {
	var few [20]byte
	return len(strconv.AppendUint(few[:0], n, 10))
}

// check returns db.ErrInvalid, with the reason, for a record that cannot be stored.
func (r *RunRecord) check() error {
	s := &r.Snapshot
	err := cmp.Or(txn.CheckID("run", s.ID), txn.CheckID("session", s.SessionID))
	if err == nil && !s.Status.known() {
		err = fmt.Errorf("%w: the status %q is unknown", db.ErrInvalid, s.Status)
	}
	err = cmp.Or(err, checkText("prompt", &s.Prompt), checkText("result text", s.ResultText),
		checkText("error", s.Error), checkFurther(s.Further, eventLevels-2))
	if err != nil {
		return err
	}
	for i := range r.Events {
		e := &r.Events[i]
		err := e.Event.check()
		if err == nil {
			err = checkFurther(e.Further, eventLevels-1)
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

// checkText returns db.ErrInvalid for a text that is not UTF-8; nil is none.
func checkText(what string, text *string) error {
	if text != nil && !utf8.ValidString(*text) {
		return txn.Invalid("make it valid UTF-8", "the %s is not valid UTF-8", what)
	}
	return nil
}

// checkFurther checks the members of an object that is nested in this many arrays and objects in a
// file.
func checkFurther(text []byte, above int) error {
	if text == nil {
		return nil
	}
	m, reason := wholeMembers(text, above, true)
	if reason == "" && m.Array {
		reason = "it is an array"
	}
	if reason != "" {
		return fmt.Errorf("%w: the further members can't be read: %s", db.ErrInvalid, reason)
	}
	return nil
}
