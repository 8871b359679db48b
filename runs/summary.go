package runs

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
)

// RunStatus is the state of a run.
type RunStatus string

const (
	StatusInProgress RunStatus = "in_progress" // no end was written
	// in progress, with a question or an effect of unknown outcome that a person decides about: see
	// package selvedge
	StatusWaiting    RunStatus = "waiting"
	StatusCompleted  RunStatus = "completed"  // ended with any outcome
	StatusIncomplete RunStatus = "incomplete" // ended without one, as crashed runs do
	// Two statuses that only Unknown records set.
	StatusCancelled           RunStatus = "cancelled"            // ended by a cancellation
	StatusCancellationPending RunStatus = "cancellation_pending" // asked to end, no end was written
)

var statuses = split("in_progress waiting completed incomplete cancelled cancellation_pending")

// shownStatus is the status that lists show. A step that waits is not in the run's row.
const (
	waits = `(SELECT w.run FROM run_steps AS w WHERE w.run = runs.key AND w.state = 'waiting' LIMIT 1)
	IS NOT NULL` // EXISTS lets a server read all that waits
	shownStatus = `CASE WHEN status = 'in_progress' AND ` + waits + ` THEN 'waiting' ELSE status END`
)

// RunSummary describes a run without its trace. The ids, the intent and the start are those of the
// last started record; status and end are those of the last record that ends the run.
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
	// Summary is the text of a completed run's outcome; "" if it has none, or was written at a
	// schema version below 10. It is not in the JSON.
	Summary string
	// Ref is the name under which calls find the run. It is not in the JSON.
	Ref RunRef
	// Unstarted means that the run has no started record: its Intent and StartedAt are empty, and
	// no list shows it. It is not in the JSON.
	Unstarted bool

	startedAtText string // the exact times, if a time.Time cannot hold them
	endedAtText   string
}

// sqlSummary counts the turns of an open run by one seek for its last line; the count of an ended
// run is stored.
var sqlSummary = `SELECT agent_id, run_id, ` + strings.Replace(stateColumns, "status", shownStatus, 1) + `,
    coalesce(turn_count,
    coalesce((SELECT max(id) FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24) & 16777215,
    0) - others)
FROM runs WHERE 1 = 1`

// summaries returns the runs for which the conditions hold, as they are read.
func (c *conditions) summaries(rx *db.Rx, order string, args ...any) iter.Seq2[RunSummary, error] {
	return func(yield func(RunSummary, error) bool) {
		var s RunSummary
		var state runState
		// one set for all rows
		targets := slices.Concat([]any{&s.Ref.AgentID, &s.Ref.RunID}, state.Targets(), []any{&s.TurnCount})
		for row, err := range rx.Query(sqlSummary+c.text+order, slices.Concat(c.args, args)...) {
			s = RunSummary{}
			if err == nil {
				err = row.Scan(targets...)
			}
			if err == nil {
				err = s.fill(state)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

func (s *RunSummary) fill(state runState) (err error) {
	s.AgentID, s.RunID = or(state.ShownAgentID, s.Ref.AgentID), or(state.ShownRunID, s.Ref.RunID)
	s.Status, s.Outcome = RunStatus(state.Status), OutcomeStatus(or(state.Outcome, ""))
	s.Intent, s.Summary = or(state.Intent, ""), or(state.Summary, "")
	if s.Unstarted = state.StartedAt == nil; !s.Unstarted {
		if s.StartedAt, s.startedAtText, err = timeOf(*state.StartedAt, state.StartedAtText); err != nil {
			return err
		}
	}
	if state.EndedAt == nil {
		return nil
	}
	ended, exact, err := timeOf(*state.EndedAt, state.EndedAtText)
	s.EndedAt, s.endedAtText = &ended, exact
	return err
}

// or returns the text that a pointer points at, or other if it is nil.
func or(text *string, other string) string {
	if text == nil {
		return other
	}
	return *text
}

// MarshalJSON writes run_id, agent_id, intent, started_at, ended_at (omitted while the run is
// open), status and turn_count.
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
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	if in.RunID == nil || in.AgentID == nil || in.Intent == nil || in.StartedAt == nil || in.Status == nil ||
		in.TurnCount == nil {
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
