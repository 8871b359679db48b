package runs

import (
	"fmt"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
	traces "selvedge/internal/runs"
)

const opGC = "collect runs"

// maxDays is 2^63-1 milliseconds.
const maxDays = (1<<63 - 1) / 1000 / 86400

// cutoff is the time before which a run must have ended to be too old.
func (c RetentionConfig) cutoff(now time.Time) (time.Time, error) {
	if c.MaxAgeDays > maxDays || c.MaxAgeDays < -maxDays {
		return now, fmt.Errorf("%w: a max age of %d days is out of range", db.ErrInvalid, c.MaxAgeDays)
	}
	at := time.Unix(now.Unix()-c.MaxAgeDays*86400, int64(now.Nanosecond())).UTC()
	if !chrono.InRange(at) {
		return now, fmt.Errorf("%w: a max age of %d days leads out of the calendar", db.ErrInvalid, c.MaxAgeDays)
	}
	return at, nil
}

const (
	sqlScopeUsed  = `SELECT 1 FROM run_agents WHERE scope = ? LIMIT 1`
	sqlFullAgents = `SELECT agent_id, ended FROM run_agents WHERE scope = ? AND ended > ? ORDER BY agent_id`
	// What retention counts and takes.
	endedRuns = `status IN ('completed', 'incomplete') AND started_at IS NOT NULL`
	// The oldest of an agent: its list from the other end.
	sqlOldestOfAgent = `SELECT key, run_id FROM runs WHERE scope = ? AND agent_id = ? AND ` + endedRuns + `
ORDER BY started_at, run_id DESC LIMIT ` + traces.BoundLimit
	sqlEndedBefore = `SELECT key, run_id FROM runs WHERE scope = ? AND ended_at < ? AND ` + endedRuns + ` ORDER BY ended_at`
	sqlEndedAt     = `SELECT key, run_id, ended_at_text FROM runs WHERE scope = ? AND ended_at = ? AND ` + endedRuns
)

// planCount plans to remove the oldest runs of each agent that has more ended ones than keep.
func (r *removal) planCount(rx *db.Rx, scope, keep int64) error {
	var agents []struct {
		ID    string `db:"agent_id"`
		Ended int64  `db:"ended"`
	}
	if err := rx.Select(&agents, sqlFullAgents, scope, keep); err != nil {
		return err
	}
	for _, agent := range agents {
		var runs []removable
		if err := rx.Select(&runs, sqlOldestOfAgent, scope, agent.ID, agent.Ended-keep); err != nil {
			return err
		}
		r.plan(runs)
	}
	return nil
}

// planAge plans to remove the runs that ended before a time.
func (r *removal) planAge(rx *db.Rx, scope int64, cutoff time.Time) error {
	var runs []removable
	if err := rx.Select(&runs, sqlEndedBefore, scope, db.Nanos(cutoff)); err != nil {
		return err
	}
	r.plan(runs)
	if traces.HoldsNanos(cutoff) {
		return nil
	}
	// The cutoff is beyond what a column holds: runs whose end is too are compared by their text.
	runs = nil
	if err := rx.Select(&runs, sqlEndedAt, scope, db.Nanos(cutoff)); err != nil {
		return err
	}
	for _, run := range runs {
		ended, _, err := traces.TimeOf(db.Nanos(cutoff), run.EndedAtText)
		if err != nil {
			return err
		}
		if ended.Before(cutoff) {
			r.plan([]removable{run})
		}
	}
	return nil
}
