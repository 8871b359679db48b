package runs

import (
	"cmp"
	"context"
	"math"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const opGC = "collect runs"

// maxDays is 2^63-1 milliseconds.
const maxDays = (1<<63 - 1) / 1000 / 86400

// cutoff returns the time before which a run must have ended to be too old.
func (c RetentionConfig) cutoff(now time.Time) (time.Time, error) {
	if c.MaxAgeDays > maxDays || c.MaxAgeDays < -maxDays {
		return now, txn.Invalid("set fewer days", "a max age of %d days is out of range", c.MaxAgeDays)
	}
	at := time.Unix(now.Unix()-c.MaxAgeDays*86400, int64(now.Nanosecond())).UTC()
	if !chrono.InRange(at) {
		return now, txn.Invalid("set fewer days", "a max age of %d days leads out of the calendar", c.MaxAgeDays)
	}
	return at, nil
}

const (
	sqlScopeUsed = `SELECT 1 FROM run_agents WHERE scope = ? LIMIT 1`
	// endedRuns are the runs that GC counts and removes; run_agents.ended is the number of them
	// that an agent has. Prune takes cancelled runs too.
	endedRuns        = `status IN ('completed', 'incomplete') AND started_at IS NOT NULL`
	endedOrCancelled = `ended_at IS NOT NULL AND started_at IS NOT NULL AND (? OR status <> 'cancelled')`
	// A run that a pin or a lease keeps still counts, with its rank and its bytes. An incomplete
	// run may have been resumed; [Store.Recover] finds out that its lease is over. It may also wait for a
	// person since.
	loose = `NOT EXISTS (SELECT 1 FROM retention_pins AS p
    WHERE p.scope = runs.scope AND p.store = '` + txn.StoreRuns + `' AND p.id = runs.run_id
	AND p.owner = runs.agent_id)
AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.scope = runs.scope
	AND l.kind = '` + leaseKind + `' AND l.name = CAST(runs.key AS TEXT))
AND NOT (runs.status = 'incomplete' AND ` + waits + `)`

	endedColumns = `SELECT key, run_id AS id, agent_id AS owner, agent_id AS of, ended_at, NOT (` + loose +
		`) AS held`

	sqlFullAgents = `SELECT agent_id, ended FROM run_agents WHERE scope = ? AND ended > ? AND agent_id >= ?
	AND (? OR agent_id > ?)
ORDER BY agent_id LIMIT ` + paging.BoundLimit
	// The oldest runs of an agent: its list in reverse order.
	sqlOldestOfAgent = endedColumns + ` FROM (SELECT * FROM runs WHERE scope = ? AND agent_id = ? AND ` +
		endedOrCancelled + `
    ORDER BY started_at, run_id DESC LIMIT ` + paging.BoundLimit + `) AS runs`
	sqlEndedBefore = endedColumns + ` FROM runs WHERE scope = ? AND (ended_at, key) > (?, ?) AND ended_at < ?
	AND ` + endedRuns + `
ORDER BY ended_at, key LIMIT ` + paging.BoundLimit
	sqlEndedAt = endedColumns + `, ended_at_text FROM runs WHERE scope = ? AND ended_at = ? AND ` + endedRuns
)

// A plan is made in short reads, since a long one would keep the WAL from restarting. Each covers
// this many agents, or runs.
var (
	agentsAtOnce = 500
	runsAtOnce   = 5000
)

// beyondCount returns the oldest runs of each agent that has more than keep ended ones, the
// cancelled ones included.
func (s *Store) beyondCount(ctx context.Context, keep int64, cancelled []stores.Ended) (over []stores.Ended,
	err error,
) {
	more := map[string]int64{} // cancelled runs by agent, which run_agents does not count
	most := int64(0)
	for _, run := range cancelled {
		more[run.Of]++
		most = max(most, more[run.Of])
	}
	for last, first, full := "", true, true; full; first = false { // an agent's id may be ""
		var agents []struct {
			ID    string `db:"agent_id"`
			Ended int64  `db:"ended"`
		}
		var planned []stores.Ended
		err := s.read(ctx, opGC, func(rx *db.Rx, scope int64) error {
			agents, planned = nil, nil
			err := rx.Select(&agents, sqlFullAgents, scope, keep-most, last, first, last, agentsAtOnce)
			for i := 0; i < len(agents) && err == nil; i++ {
				var runs []stores.Ended
				if excess := agents[i].Ended + more[agents[i].ID] - keep; excess > 0 {
					err = rx.Select(&runs, sqlOldestOfAgent, scope, agents[i].ID, len(cancelled) > 0, excess)
				}
				planned = append(planned, runs...)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		over = append(over, planned...)
		if full = len(agents) == agentsAtOnce; full {
			last = agents[len(agents)-1].ID
		}
	}
	return over, nil
}

// beyondAge returns the runs that ended before the cutoff, without cancelled ones.
func (s *Store) beyondAge(ctx context.Context, cutoff time.Time) (over []stores.Ended, err error) {
	after := stores.Ended{At: math.MinInt64}
	for more := true; more; {
		var page []stores.Ended
		err := s.read(ctx, opGC, func(rx *db.Rx, scope int64) error {
			page = nil
			return rx.Select(&page, sqlEndedBefore, scope, after.At, after.Key, db.Nanos(cutoff), runsAtOnce)
		})
		if err != nil {
			return nil, err
		}
		over = append(over, page...)
		if more = len(page) == runsAtOnce; more {
			after = page[len(page)-1]
		}
	}
	if holdsNanos(cutoff) {
		return over, nil
	}
	// The cutoff is out of a column's range. Runs whose end is too are compared by their text.
	var runs []struct {
		stores.Ended
		Text *string `db:"ended_at_text"`
	}
	err = s.read(ctx, opGC, func(rx *db.Rx, scope int64) error {
		runs = nil
		return rx.Select(&runs, sqlEndedAt, scope, db.Nanos(cutoff))
	})
	for _, run := range runs {
		ended, _, failed := timeOf(run.At, run.Text)
		if err = cmp.Or(err, failed); err == nil && ended.Before(cutoff) {
			over = append(over, run.Ended)
		}
	}
	return over, err
}
