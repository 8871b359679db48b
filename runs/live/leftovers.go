package live

import (
	"context"
	"fmt"
	"strings"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

// Leftovers are events whose run is not visible: those written before their run, and those not yet
// deleted after it. Their runs are in live_leavings, and dropLeftovers deletes them.

// The limits of what one transaction writes or deletes, so that it holds the writer for at most 50
// ms, the commit included. A run with its texts and numbers takes about as long as eventsOfARun
// events.
const (
	eventsAtOnce  = 4000
	bytesAtOnce   = 4 << 20
	writtenAtOnce = eventsAtOnce / 8 // a write takes longer than a deletion
	droppedAtOnce = eventsAtOnce / 4
	eventsOfARun  = 10
)

// A budget is how many events and how many bytes a transaction may still write or delete.
type budget struct {
	Events int64 `db:"events"`
	Bytes  int64 `db:"bytes"`
}

// fullBudget returns the budget of a transaction that also does something else.
func fullBudget() budget { return budget{eventsAtOnce, bytesAtOnce} }

// take takes that much from the budget. It reports false, and takes nothing, if there is less.
func (b *budget) take(events, bytes int64) bool {
	if events > b.Events || bytes > b.Bytes {
		return false
	}
	b.Events -= events
	b.Bytes -= bytes
	return true
}

const (
	sqlLeave = `INSERT INTO live_leavings (run, owner_id) VALUES (?, ?)`
	// Use the indexes of the scope, not the keys of other scopes.
	sqlBehind = ` FROM live_runs WHERE scope = ? AND +key > ?`
	sqlWeigh  = `SELECT count(*) AS runs, coalesce(sum(kept_events), 0) AS events,
		coalesce(sum(kept_bytes), 0) AS bytes` + sqlBehind
	sqlLeaveMany = `INSERT INTO live_leavings (run) SELECT key` + sqlBehind + ` AND kept_events > 0`
	sqlDropMany  = `DELETE` + sqlBehind
	// The names of these runs that have usage.
	sqlUsedBehind = `SELECT DISTINCT scope, run_id FROM usage_runs WHERE (scope, run_id) IN (
	SELECT scope, run_id` + sqlBehind + `)`
	sqlLeft    = `SELECT run, owner_id FROM live_leavings WHERE run > ? ORDER BY run LIMIT 1`
	sqlLeftBut = `SELECT run, owner_id FROM live_leavings WHERE run > ?
		AND (owner_id IS NULL OR owner_id NOT IN (%s)) ORDER BY run LIMIT 1`
	sqlAllGone = `DELETE FROM live_leavings WHERE run = ?`
	sqlMine    = `DELETE FROM live_leavings WHERE run = ? AND owner_id = ?`
	sqlGiveUp  = `UPDATE live_leavings SET owner_id = NULL WHERE run = ? AND owner_id = ?`
	sqlDropRun = `DELETE FROM live_runs WHERE key = ?`
)

// remove deletes a run and all that belongs to it. Events beyond the budget become leftovers.
func (w *runRow) remove(tx *db.Tx, left *budget) error {
	if !left.take(w.KeptEvents, w.KeptBytes) {
		if _, err := tx.Exec(sqlLeave, w.Key, nil); err != nil {
			return err
		}
	}
	return w.removeAll(tx)
}

// removeAll is remove without a budget.
func (w *runRow) removeAll(tx *db.Tx) error {
	if _, err := tx.Exec(sqlDropRun, w.Key); err != nil {
		return err
	}
	if err := usage.Settle(tx, usage.Name{Scope: w.Scope, RunID: w.RunID}); err != nil {
		return err
	}
	return countOut(tx, w.Scope, 1)
}

// removeBehind is remove for all runs of a scope with higher keys.
func removeBehind(tx *db.Tx, scope, key int64, left *budget) error {
	var all struct {
		Runs int64 `db:"runs"`
		budget
	}
	if err := tx.Get(&all, sqlWeigh, scope, key); err != nil || all.Runs == 0 {
		return err
	}
	if !left.take(all.Events, all.Bytes) {
		if _, err := tx.Exec(sqlLeaveMany, scope, key); err != nil {
			return err
		}
	}
	var used []usage.Name
	if err := tx.Select(&used, sqlUsedBehind, scope, key); err != nil {
		return err
	}
	if _, err := tx.Exec(sqlDropMany, scope, key); err != nil {
		return err
	}
	for _, name := range used {
		if err := usage.Settle(tx, name); err != nil {
			return err
		}
	}
	return countOut(tx, scope, all.Runs)
}

// A leftover is a run with leftover events, and the process that writes it.
type leftover struct {
	Run   int64  `db:"run"`
	Owner *int64 `db:"owner_id"`
}

// written reports whether a live process is writing the run.
func (l leftover) written(rx *db.Rx) (bool, error) {
	if l.Owner == nil {
		return false, nil
	}
	return rx.Store().OwnerAlive(*l.Owner)
}

// nextLeftover finds the first run after a key with events that may be deleted. It skips what live
// processes are writing, which may be a row for each of very many runs.
func nextLeftover(rx *db.Rx, behind int64) (run int64, found bool, err error) {
	args := []any{behind} // and the owners that are alive
	for {
		var left leftover
		query := sqlLeft
		if alive := len(args) - 1; alive > 0 {
			query = fmt.Sprintf(sqlLeftBut, strings.TrimSuffix(strings.Repeat("?, ", alive), ", "))
		}
		if found, err := rx.Find(&left, query, args...); err != nil || !found {
			return 0, false, err
		}
		if alive, err := left.written(rx); err != nil || !alive {
			return left.Run, true, err
		}
		args[0], args = left.Run, append(args, *left.Owner)
	}
}

// dropLeftovers deletes leftover events, including those of other processes, in short transactions.
func (s *Store) dropLeftovers(ctx context.Context) error {
	for last := int64(0); ; {
		run, found, err := stores.Find(ctx, s.db.Read, opDelete,
			func(rx *db.Rx) (int64, bool, error) { return nextLeftover(rx, last) })
		if err != nil || !found {
			return err
		}
		last, err = stores.Get(ctx, stores.On(s.db, txn.Parts).Remove, opDelete, stores.Bind(dropBehind, run-1))
		if err != nil {
			return err
		}
	}
}

// dropBehind deletes leftover events of runs with higher keys than behind, as many as a transaction
// may. It returns the key at which nextLeftover continues, past what a live process is writing.
func dropBehind(tx *db.Tx, behind int64) (last int64, err error) {
	for b := (budget{droppedAtOnce, bytesAtOnce}); b.Events > 0 && b.Bytes > 0; {
		var left leftover
		if found, err := tx.Find(&left, sqlLeft, behind); err != nil || !found {
			return behind, err
		}
		if alive, err := left.written(&tx.Rx); err != nil || alive {
			return behind, err
		}
		if some, err := (&runRow{Key: left.Run}).dropSome(tx, &b); err != nil {
			return behind, err
		} else if some {
			continue
		}
		b.Events -= eventsOfARun
		if _, err := tx.Exec(sqlAllGone, left.Run); err != nil {
			return behind, err
		}
		behind = left.Run
	}
	return behind, nil
}

// dropSome deletes the first events, as many as one statement may, and at least one.
func (w *runRow) dropSome(tx *db.Tx, left *budget) (some bool, err error) {
	const most = 256
	var first []eventSize
	if err := tx.Select(&first, sqlSizes, w.first(), w.end(), most); err != nil || len(first) == 0 {
		return false, err
	}
	last := first[0].ID
	for i := range first {
		size := first[i].Event
		if first[i].Raw != nil {
			size += *first[i].Raw
		}
		if i > 0 && left.Bytes < size {
			break
		}
		last = first[i].ID
		left.Events--
		left.Bytes -= size
	}
	_, err = tx.Exec(sqlDropEvents, w.first(), last)
	return true, err
}

// reserve takes a key for the run, under which its events can be written before the run. They are
// leftovers of the owner, a live process, until it adds the run.
func (w *wholeRow) reserve(tx *db.Tx, owner int64, left *budget) error {
	left.Events -= eventsOfARun
	// The key of a deleted row is never reused, and no run has so long an id.
	placeholder := runRow{Scope: w.Scope, RunID: strings.Repeat("-", txn.MaxID+1), Status: w.Status}
	columns := placeholder.columns()
	if err := tx.Get(&w.Key, sqlAddRow, append(columns, txn.Checksum(columns...))...); err != nil {
		return err
	}
	if _, err := tx.Exec(sqlDropRun, w.Key); err != nil {
		return err
	}
	_, err := tx.Exec(sqlLeave, w.Key, owner)
	return err
}
