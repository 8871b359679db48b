package runs

import (
	"context"
	"math"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
)

const opGC = "collect runs"

// maxDays is 2^63-1 milliseconds.
const maxDays = (1<<63 - 1) / 1000 / 86400

// cutoff is the time before which a run must have ended to be too old.
func (c RetentionConfig) cutoff(now time.Time) (time.Time, error) {
	if c.MaxAgeDays > maxDays || c.MaxAgeDays < -maxDays {
		return now, db.Invalid("set fewer days", "a max age of %d days is out of range", c.MaxAgeDays)
	}
	at := time.Unix(now.Unix()-c.MaxAgeDays*86400, int64(now.Nanosecond())).UTC()
	if !chrono.InRange(at) {
		return now, db.Invalid("set fewer days", "a max age of %d days leads out of the calendar", c.MaxAgeDays)
	}
	return at, nil
}

const (
	sqlScopeUsed = `SELECT 1 FROM run_agents WHERE scope = ? LIMIT 1`
	// What retention counts and takes.
	endedRuns = `status IN ('completed', 'incomplete') AND started_at IS NOT NULL`
	// What a pin or a lease keeps has its rank and its bytes all the same. An incomplete run may have
	// been taken up again; that its lease is over [Store.Recover] finds.
	loose = `NOT EXISTS (SELECT 1 FROM retention_pins AS p
    WHERE p.scope = runs.scope AND p.store = '` + db.StoreRuns + `' AND p.id = runs.run_id AND p.owner = runs.agent_id)
AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.scope = runs.scope
	AND l.kind = '` + leaseKind + `' AND l.name = CAST(runs.key AS TEXT))`

	removableColumns = `SELECT key, run_id, agent_id, ended_at, ended_at_text FROM `

	sqlFullAgents = `SELECT agent_id, ended FROM run_agents WHERE scope = ? AND ended > ? AND agent_id >= ?
	AND (? OR agent_id > ?)
ORDER BY agent_id LIMIT ` + db.BoundLimit
	// The oldest of an agent: its list from the other end.
	sqlOldestOfAgent = removableColumns + `(SELECT * FROM runs WHERE scope = ? AND agent_id = ? AND ` + endedRuns + `
    ORDER BY started_at, run_id DESC LIMIT ` + db.BoundLimit + `) AS runs WHERE ` + loose
	sqlEndedBefore = removableColumns + `runs WHERE scope = ? AND (ended_at, key) > (?, ?) AND ended_at < ? AND ` + endedRuns + ` AND ` + loose + `
ORDER BY ended_at, key LIMIT ` + db.BoundLimit
	sqlEndedAt = removableColumns + `runs WHERE scope = ? AND ended_at = ? AND ` + endedRuns + ` AND ` + loose
)

// A plan is made in short reads: a long one would keep the WAL from starting anew. Each looks at so
// many agents, or runs.
var (
	agentsAtOnce = 500
	runsAtOnce   = 5000
)

// planCount plans to remove the oldest runs of each agent that has more ended ones than keep.
func (r *removal) planCount(ctx context.Context, keep int64) error {
	last, first := "", true // "" is an agent too
	for more := true; more; {
		var agents []struct {
			ID    string `db:"agent_id"`
			Ended int64  `db:"ended"`
		}
		var planned []removable
		err := r.store.read(ctx, func(rx *db.Rx, scope int64) error {
			agents, planned = nil, nil
			if err := rx.Select(&agents, sqlFullAgents, scope, keep, last, first, last, agentsAtOnce); err != nil {
				return err
			}
			for _, agent := range agents {
				var runs []removable
				if err := rx.Select(&runs, sqlOldestOfAgent, scope, agent.ID, agent.Ended-keep); err != nil {
					return err
				}
				planned = append(planned, runs...)
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.plan(planned)
		if more = len(agents) == agentsAtOnce; more {
			last, first = agents[len(agents)-1].ID, false
		}
	}
	return nil
}

// planAge plans to remove the runs that ended before a time.
func (r *removal) planAge(ctx context.Context, cutoff time.Time) error {
	var after removable
	for at, more := int64(math.MinInt64), true; more; at = after.EndedAt {
		var planned []removable
		err := r.store.read(ctx, func(rx *db.Rx, scope int64) error {
			planned = nil
			return rx.Select(&planned, sqlEndedBefore, scope, at, after.Key, db.Nanos(cutoff), runsAtOnce)
		})
		if err != nil {
			return err
		}
		r.plan(planned)
		if more = len(planned) == runsAtOnce; more {
			after = planned[len(planned)-1]
		}
	}
	if holdsNanos(cutoff) {
		return nil
	}
	// The cutoff is beyond what a column holds: runs whose end is too are compared by their text.
	var runs []removable
	err := r.store.read(ctx, func(rx *db.Rx, scope int64) error {
		runs = nil
		return rx.Select(&runs, sqlEndedAt, scope, db.Nanos(cutoff))
	})
	if err != nil {
		return err
	}
	for _, run := range runs {
		ended, _, err := timeOf(db.Nanos(cutoff), run.EndedAtText)
		if err != nil {
			return err
		}
		if ended.Before(cutoff) {
			r.plan([]removable{run})
		}
	}
	return nil
}

// read runs fn in a short read on the store's scope; one that nobody wrote to has no runs.
func (s *Store) read(ctx context.Context, fn func(rx *db.Rx, scope int64) error) error {
	return s.db.Read(ctx, opGC, func(rx *db.Rx) error {
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		return fn(rx, scope)
	})
}
