package live

import "slices"

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

var statuses = []string{
	string(Created), string(Planning), string(Executing), string(Verifying), string(Completed), string(Failed), string(Cancelled),
}

// Known reports whether s is one of the seven.
func (s RunStatus) Known() bool {
	return slices.Contains(statuses, string(s))
}

// Ended reports whether the run has come to an end. Of the three ends only Cancelled is final: an event can still take a
// completed or failed run up again.
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
	// EventCount is the number of events ever recorded and the next event's sequence. Caps remove events and leave it alone.
	EventCount uint64
	// Further is a JSON object with the members of a restored snapshot that this version doesn't know; nil: none.
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

// A RunRecord is a run with its events: what a session's file has an array of.
type RunRecord struct {
	Snapshot RunSnapshot
	Events   []RunEventRecord
}

// nextSequence is what the run's event_count has to be: more than one that the record names, than its last sequence, and
// no less than its events. A count of its own can be too small (an original that was interrupted) or larger than the
// events (a later version that trimmed them).
func (r *RunRecord) nextSequence() uint64 {
	count := max(r.Snapshot.EventCount, uint64(len(r.Events)))
	if n := len(r.Events); n > 0 {
		if last := r.Events[n-1].Sequence; last >= count {
			count = last + 1
			if count == 0 {
				count = last // the largest there is
			}
		}
	}
	return count
}

// ordered reports whether the events can be found by their sequences: they grow, and an event's id can hold them.
func (r *RunRecord) ordered() bool {
	for i := range r.Events {
		if s := r.Events[i].Sequence; s > maxPlace || i > 0 && s <= r.Events[i-1].Sequence {
			return false
		}
	}
	return true
}

// size is the record's length as compact JSON, what a cap on bytes counts.
func (e *RunEventRecord) size() int64 {
	if e.plain() {
		const frame = len(`{"sequence":,"timestamp_ms":,"event":}`)
		return int64(frame + digits(e.Sequence) + digits(e.TimestampMs) + len(e.Event.text))
	}
	return int64(len(e.AppendJSON(nil)))
}

// plain reports whether the columns of an event's row give the record back.
func (e *RunEventRecord) plain() bool {
	return e.Further == nil && e.Sequence <= maxInt64 && e.TimestampMs <= maxMillis
}

func digits(n uint64) int {
	d := 1
	for ; n > 9; n /= 10 {
		d++
	}
	return d
}
