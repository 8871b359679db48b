package runs

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
)

// runState is what a row of runs holds of the trace: the fold of its records, updated with each
// append. All that reads, writes, compares or checksums a row takes its columns from here, in this
// order.
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
	Summary       *string `db:"summary"`
}

// stateColumns lists the columns of a runState.
var stateColumns = func() string {
	var names []string
	for field := range reflect.TypeFor[runState]().Fields() {
		names = append(names, field.Tag.Get("db"))
	}
	return strings.Join(names, ", ")
}()

// Targets returns the scan targets of a row of stateColumns.
func (s *runState) Targets() (all []any) {
	for _, v := range reflect.ValueOf(s).Elem().Fields() {
		all = append(all, v.Addr().Interface())
	}
	return all
}

// values returns the values of stateColumns.
func (s *runState) values() (all []any) {
	for _, v := range reflect.ValueOf(s).Elem().Fields() {
		all = append(all, v.Interface())
	}
	return all
}

func (s *runState) same(other runState) bool { return reflect.DeepEqual(*s, other) }

func newState() runState { return runState{Status: string(StatusInProgress)} }

// add applies the next record; nil stands for a line that is no record. close sets the number of
// turns at the end of an append.
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
		s.Outcome, s.Status, s.Summary = nil, string(StatusIncomplete), nil
		if outcome := r.Termination.Outcome; outcome != nil {
			word := string(r.Termination.status())
			s.Outcome, s.Status = &word, string(StatusCompleted)
			if outcome.Summary != "" {
				s.Summary = &outcome.Summary
			}
		}
		s.EndedAt, s.EndedAtText = timeColumns(r.EndedAt, r.endedAtText)
	case Unknown:
		later := r.status()
		switch {
		case later.word == laterCancelled:
			s.Outcome, s.Status, s.Summary = nil, string(StatusCancelled), nil
			s.EndedAt, s.EndedAtText = timeColumns(later.endedAt, later.endedAtText)
		case later.word == laterCancellationPending && s.EndedAt == nil:
			s.Status = string(StatusCancellationPending)
		}
	}
}

// close sets the number of turns of a run that has ended; last is the sequence of its last line.
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

// timeColumns returns a time for a column of nanoseconds, and its text if the column cannot hold
// it.
func timeColumns(t time.Time, exact string) (nanos *int64, text *string) {
	n := columnNanos(t)
	if exact != "" || !holdsNanos(t) {
		spelled := chrono.Text(t, exact)
		text = &spelled
	}
	return &n, text
}

// timeOf returns the time in the two columns.
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
