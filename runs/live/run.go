package live

import (
	"selvedge/db"
	"selvedge/internal/live"
)

// RunStatus is where a run stands.
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
)

// Known reports whether s is one of the seven.
func (s RunStatus) Known() bool { return live.KnownStatus(string(s)) }

// Ended reports whether the run has come to an end. Of the three ends only Cancelled is final: an
// event can still take a completed or failed run up again.
func (s RunStatus) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// A RunSnapshot is what a run sums up to. Times are Unix milliseconds.
type RunSnapshot struct {
	ID          string
	SessionID   string
	Status      RunStatus
	Prompt      string
	CreatedAtMs uint64
	UpdatedAtMs uint64  // of the last event or mark
	ResultText  *string // nil: no agent_end counted
	Error       *string // nil: no error, or an agent_end cleared it
	// EventCount is the number of events ever recorded and the next event's sequence. Caps remove
	// events and leave it alone.
	EventCount uint64
	// Further is a JSON object with the members of a restored snapshot that this version doesn't know;
	// nil: none.
	Further []byte
}

// A RunEventRecord is an event with its place in the run.
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

func snapshotOf(s live.Snapshot) RunSnapshot {
	return RunSnapshot{
		ID: s.ID, SessionID: s.SessionID, Status: RunStatus(s.Status), Prompt: s.Prompt,
		CreatedAtMs: s.CreatedAtMs, UpdatedAtMs: s.UpdatedAtMs,
		ResultText: s.ResultText, Error: s.Error, EventCount: s.EventCount, Further: s.Further,
	}
}

func (s *RunSnapshot) stored() live.Snapshot {
	return live.Snapshot{
		ID: s.ID, SessionID: s.SessionID, Status: string(s.Status), Prompt: s.Prompt, CreatedAtMs: s.CreatedAtMs,
		UpdatedAtMs: s.UpdatedAtMs,
		ResultText:  s.ResultText, Error: s.Error, EventCount: s.EventCount, Further: s.Further,
	}
}

func eventRecordOf(e live.EventRecord) RunEventRecord {
	return RunEventRecord{
		Sequence: e.Sequence, TimestampMs: e.TimestampMs, Event: Event{e.Event},
		Further: e.Further,
	}
}

func (e *RunEventRecord) stored() live.EventRecord {
	return live.EventRecord{
		Sequence: e.Sequence, TimestampMs: e.TimestampMs, Event: e.Event.stored,
		Further: e.Further,
	}
}

func eventRecordsOf(list []live.EventRecord) []RunEventRecord {
	events := make([]RunEventRecord, len(list))
	for i := range list {
		events[i] = eventRecordOf(list[i])
	}
	return events
}

func recordOf(r live.Record) RunRecord {
	return RunRecord{Snapshot: snapshotOf(r.Snapshot), Events: eventRecordsOf(r.Events)}
}

func (r *RunRecord) stored() live.Record {
	stored := live.Record{Snapshot: r.Snapshot.stored(), Events: make([]live.EventRecord, len(r.Events))}
	for i := range r.Events {
		stored.Events[i] = r.Events[i].stored()
	}
	return stored
}

// AppendJSON appends the snapshot as compact JSON: absent texts are left out, further members come last.
func (s RunSnapshot) AppendJSON(dst []byte) []byte { return s.stored().AppendJSON(dst) }

// AppendJSON appends the record as compact JSON, with the event as it was given.
func (e RunEventRecord) AppendJSON(dst []byte) []byte { return e.stored().AppendJSON(dst) }

// AppendJSON appends the run and its events as compact JSON.
func (r RunRecord) AppendJSON(dst []byte) []byte { return r.stored().AppendJSON(dst) }

// MarshalJSON is AppendJSON.
func (s RunSnapshot) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSON is AppendJSON.
func (e RunEventRecord) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// MarshalJSON is AppendJSON.
func (r RunRecord) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// UnmarshalJSON reads a snapshot; db.ErrInvalid says what is wrong. The count of events is taken as it is.
func (s *RunSnapshot) UnmarshalJSON(text []byte) error {
	var stored live.Snapshot
	err := stored.Decode(text)
	if err == nil {
		*s = snapshotOf(stored)
	}
	return err
}

// UnmarshalJSON reads the record of an event, of an unknown type, too; db.ErrInvalid says what is wrong.
func (e *RunEventRecord) UnmarshalJSON(text []byte) error {
	var stored live.EventRecord
	err := stored.Decode(text)
	if err == nil {
		*e = eventRecordOf(stored)
	}
	return err
}

// UnmarshalJSON reads a run and its events; db.ErrInvalid says what is wrong.
func (r *RunRecord) UnmarshalJSON(text []byte) error {
	var stored live.Record
	err := stored.Decode(text)
	if err == nil {
		*r = recordOf(stored)
	}
	return err
}

func errLimit(limit int) error { return db.Invalid("ask for 1 or more", "the limit is %d", limit) }
