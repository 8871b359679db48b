package runs

import (
	"context"
	"fmt"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
)

const opGC = "collect runs"

// gcBatch is the number of runs that one transaction of GC removes, so that other writers wait for some tens of milliseconds
// at most: 37 for runs of 20 turns, a checkpoint included.
const gcBatch = 100

// GC removes the ended runs that the retention does not keep and gives their number: of each agent those beyond the newest
// MaxPerAgent by start, and those that ended more than MaxAgeDays ago. Only completed and incomplete runs with a started
// record count and go. Open ones never do; nor do cancelled ones, and ones with a cancellation pending, which the original
// takes for open.
//
// It works in short transactions, so other writers get their turns, and what it removed before an error stays removed. A
// MaxAgeDays beyond what a time can say is ErrInvalid, and nothing is removed; but where no run was ever written it is 0,
// as in the original.
func (s *Store) GC(ctx context.Context) (removed int, err error) {
	var scope int64
	var used bool
	var cutoff time.Time
	err = s.db.Read(ctx, opGC, func(rx *db.Rx) error {
		var ok bool
		if scope, ok, err = rx.Scope(s.scope); err != nil || !ok {
			return err
		}
		if used, err = rx.Find(new(int64), sqlScopeUsed, scope); err != nil || !used {
			return err
		}
		cutoff, err = s.retention.cutoff(rx.Now())
		return err
	})
	if err != nil || !used {
		return 0, err
	}
	// First by count, oldest first: a run that is also too old takes its rank all the same, and so batches add up to what
	// looking once at everything would remove.
	for _, sweep := range []func(*db.Tx) (int, error){
		func(tx *db.Tx) (int, error) { return s.retention.sweepCount(tx, scope) },
		func(tx *db.Tx) (int, error) { return sweepAge(tx, scope, cutoff) },
	} {
		n, err := s.sweep(ctx, sweep)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// sweep repeats a batch until it finds nothing.
func (s *Store) sweep(ctx context.Context, batch func(*db.Tx) (int, error)) (removed int, err error) {
	for {
		var n int
		err := s.db.Write(ctx, opGC, func(tx *db.Tx) (err error) {
			n, err = batch(tx)
			return err
		})
		if err != nil || n == 0 {
			return removed, err
		}
		removed += n
	}
}

// maxDays is what the original's durations hold: 2^63-1 milliseconds.
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
	sqlScopeUsed = `SELECT 1 FROM run_agents WHERE scope = ? LIMIT 1`
	sqlFullAgent = `SELECT agent_id, ended FROM run_agents WHERE scope = ? AND ended > ? LIMIT 1`
	// The oldest of an agent: its list from the other end.
	sqlSweepAgent = `DELETE FROM runs WHERE key IN (
    SELECT key FROM runs
    WHERE scope = ? AND agent_id = ? AND started_at IS NOT NULL AND status IN ('completed', 'incomplete')
    ORDER BY started_at, run_id DESC LIMIT ` + boundLimit + `)`
	sqlSweepAge = `DELETE FROM runs WHERE key IN (
    SELECT key FROM runs
    WHERE scope = ? AND ended_at < ? AND status IN ('completed', 'incomplete') AND started_at IS NOT NULL LIMIT ` + boundLimit + `)`
	sqlAtTheEdge = `SELECT key, ended_at_text FROM runs
WHERE scope = ? AND ended_at = ? AND status IN ('completed', 'incomplete') AND started_at IS NOT NULL`
	sqlRemoveRun = `DELETE FROM runs WHERE key = ?`
)

// sweepCount removes at most a batch of runs beyond the count of their agents.
func (c RetentionConfig) sweepCount(tx *db.Tx, scope int64) (removed int, err error) {
	keep := int64(min(c.MaxPerAgent, 1<<62))
	for removed < gcBatch {
		var agent struct {
			ID    string `db:"agent_id"`
			Ended int64  `db:"ended"`
		}
		found, err := tx.Find(&agent, sqlFullAgent, scope, keep)
		if err != nil || !found {
			return removed, err
		}
		n, err := tx.Exec(sqlSweepAgent, scope, agent.ID, min(agent.Ended-keep, int64(gcBatch-removed)))
		if err != nil {
			return removed, err
		}
		if n == 0 {
			return removed, fmt.Errorf("%w: agent %q is said to have %d ended runs", db.ErrCorrupt, agent.ID, agent.Ended)
		}
		removed += int(n)
	}
	return removed, nil
}

// sweepAge removes at most a batch of runs that ended before the cutoff.
func sweepAge(tx *db.Tx, scope int64, cutoff time.Time) (int, error) {
	n, err := tx.Exec(sqlSweepAge, scope, db.Nanos(cutoff), gcBatch)
	if err != nil || n > 0 || holdsNanos(cutoff) {
		return int(n), err
	}
	return sweepEdge(tx, scope, cutoff)
}

// sweepEdge is sweepAge for a cutoff that lies beyond what a column holds, among the runs whose end does too: they are
// compared by their text.
func sweepEdge(tx *db.Tx, scope int64, cutoff time.Time) (removed int, err error) {
	var rows []struct {
		Key  int64   `db:"key"`
		Text *string `db:"ended_at_text"`
	}
	if err := tx.Select(&rows, sqlAtTheEdge, scope, db.Nanos(cutoff)); err != nil {
		return 0, err
	}
	for _, row := range rows {
		ended, _, err := timeOf(db.Nanos(cutoff), row.Text)
		if err != nil {
			return removed, err
		}
		if !ended.Before(cutoff) {
			continue
		}
		if _, err := tx.Exec(sqlRemoveRun, row.Key); err != nil {
			return removed, err
		}
		if removed++; removed == gcBatch {
			break
		}
	}
	return removed, nil
}
