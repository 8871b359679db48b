package runs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
)

// RunStatus is where a run stands.
type RunStatus string

const (
	StatusInProgress RunStatus = "in_progress" // no end was written
	StatusCompleted  RunStatus = "completed"   // ended with an outcome, whichever
	StatusIncomplete RunStatus = "incomplete"  // ended without one, as crashed runs do
	// Two statuses that only records of later versions of the original give.
	StatusCancelled           RunStatus = "cancelled"            // ended by a cancellation
	StatusCancellationPending RunStatus = "cancellation_pending" // asked to end, and no end was written
)

var statuses = []RunStatus{StatusInProgress, StatusCompleted, StatusIncomplete, StatusCancelled, StatusCancellationPending}

// RunSummary describes a run without its trace. The ids, the intent and the start are those of the last started record;
// status and end are those of the last record that ends the run.
type RunSummary struct {
	RunID     string
	AgentID   string
	Intent    string
	StartedAt time.Time
	EndedAt   *time.Time // nil while the run is open
	Status    RunStatus
	TurnCount int
	// Outcome is how a completed run ended; "" for every other. It is not in the JSON.
	Outcome OutcomeStatus
	// Ref is the name under which calls find the run. It is not in the JSON.
	Ref RunRef
	// Unstarted: the run has no started record, so that its Intent and StartedAt are empty and no list shows it. It is not in
	// the JSON.
	Unstarted bool

	startedAtText string // the exact times, where a time.Time can't hold them
	endedAtText   string
}

// MarshalJSON gives the original's JSON: its fields in its order, ended_at left out while the run is open.
func (s RunSummary) MarshalJSON() ([]byte, error) {
	out := appendText(nil, `{"run_id":`, s.RunID)
	out = appendText(out, `,"agent_id":`, s.AgentID)
	out = appendText(out, `,"intent":`, s.Intent)
	out = append(chrono.AppendText(append(out, `,"started_at":"`...), s.StartedAt, s.startedAtText), '"')
	if s.EndedAt != nil {
		out = append(chrono.AppendText(append(out, `,"ended_at":"`...), *s.EndedAt, s.endedAtText), '"')
	}
	out = appendText(out, `,"status":`, string(s.Status))
	return append(strconv.AppendInt(append(out, `,"turn_count":`...), int64(s.TurnCount), 10), '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes. Ref becomes the ids that the summary shows.
func (s *RunSummary) UnmarshalJSON(text []byte) error {
	var in struct {
		RunID     *string    `json:"run_id"`
		AgentID   *string    `json:"agent_id"`
		Intent    *string    `json:"intent"`
		StartedAt *string    `json:"started_at"`
		EndedAt   *string    `json:"ended_at"`
		Status    *RunStatus `json:"status"`
		TurnCount *int       `json:"turn_count"`
	}
	from := json.NewDecoder(bytes.NewReader(text))
	if err := from.Decode(&in); err != nil {
		return err
	}
	if in.RunID == nil || in.AgentID == nil || in.Intent == nil || in.StartedAt == nil || in.Status == nil || in.TurnCount == nil {
		return fmt.Errorf("a run summary needs run_id, agent_id, intent, started_at, status and turn_count")
	}
	out := RunSummary{
		RunID: *in.RunID, AgentID: *in.AgentID, Intent: *in.Intent, Status: *in.Status, TurnCount: *in.TurnCount,
		Ref: RunRef{AgentID: *in.AgentID, RunID: *in.RunID},
	}
	var err error
	if out.StartedAt, out.startedAtText, err = parseTime(*in.StartedAt); err != nil {
		return fmt.Errorf("started_at: %w", err)
	}
	if in.EndedAt != nil {
		var ended time.Time
		if ended, out.endedAtText, err = parseTime(*in.EndedAt); err != nil {
			return fmt.Errorf("ended_at: %w", err)
		}
		out.EndedAt = &ended
	}
	*s = out
	return nil
}

// runState is what a row of runs holds of the trace: the fold of its records, kept up with each append.
type runState struct {
	ShownAgentID  *string `db:"shown_agent_id"`
	ShownRunID    *string `db:"shown_run_id"`
	Intent        *string `db:"intent"`
	StartedAt     *int64  `db:"started_at"`
	StartedAtText *string `db:"started_at_text"`
	Status        string  `db:"status"`
	Outcome       *string `db:"outcome"`
	EndedAt       *int64  `db:"ended_at"`
	EndedAtText   *string `db:"ended_at_text"`
	TurnCount     *int64  `db:"turn_count"`
	Others        int64   `db:"others"`
}

func newRunState() runState { return runState{Status: string(StatusInProgress)} }

// add folds the next record in; nil stands for a line that is no record. The number of turns is set at the end of an
// append, by close.
func (s *runState) add(ref RunRef, r Record) {
	if _, isTurn := r.(Turn); !isTurn {
		s.Others++
	}
	switch r := r.(type) {
	case Started:
		s.ShownAgentID, s.ShownRunID = unless(r.AgentID, ref.AgentID), unless(r.RunID, ref.RunID)
		s.Intent = &r.Intent
		s.StartedAt, s.StartedAtText = timeColumns(r.StartedAt, r.startedAtText)
	case Ended:
		s.Outcome, s.Status = nil, string(StatusIncomplete)
		if !r.Termination.Incomplete() {
			word := string(r.Termination.status())
			s.Outcome, s.Status = &word, string(StatusCompleted)
		}
		s.EndedAt, s.EndedAtText = timeColumns(r.EndedAt, r.endedAtText)
	case Unknown:
		later := r.status()
		switch {
		case later.word == laterCancelled:
			s.Outcome, s.Status = nil, string(StatusCancelled)
			s.EndedAt, s.EndedAtText = timeColumns(later.endedAt, later.endedAtText)
		case later.word == laterCancellationPending && s.EndedAt == nil:
			s.Status = string(StatusCancellationPending)
		}
	}
}

// close notes the number of turns of a run that has ended; last is the sequence of its last line.
func (s *runState) close(last int64) {
	if s.EndedAt != nil {
		turns := last - s.Others
		s.TurnCount = &turns
	}
}

func unless(shown, stored string) *string {
	if shown == stored {
		return nil
	}
	return &shown
}

// timeColumns is a time for a column of nanoseconds, and its text where that can't hold it.
func timeColumns(t time.Time, exact string) (nanos *int64, text *string) {
	n := columnNanos(t)
	if exact != "" || !holdsNanos(t) {
		spelled := chrono.Text(t, exact)
		text = &spelled
	}
	return &n, text
}

// timeOf reads the two columns.
func timeOf(nanos int64, text *string) (t time.Time, exact string, err error) {
	if text == nil {
		return db.Time(nanos), "", nil
	}
	t, exact, err = parseTime(*text)
	if err != nil {
		err = fmt.Errorf("%w: a run has the time %q: %w", db.ErrCorrupt, *text, err)
	}
	return t, exact, err
}
