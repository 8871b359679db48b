package live

import (
	"fmt"
	"strings"

	"selvedge/db"
)

// Events of a run that is not there nobody sees: they were written before it, or are left of it.
// Both are in live_leavings, and DropLeft removes them.

// What one transaction writes or removes, so that the longest hold of the writer is 50 ms, the
// commit included. A run, with its texts and numbers, takes about as long as so many events.
const (
	eventsAtOnce  = 4000
	bytesAtOnce   = 4 << 20
	writtenAtOnce = eventsAtOnce / 8 // a write takes longer than a removal
	droppedAtOnce = eventsAtOnce / 4
	eventsOfARun  = 10
)

// A Share is how many events, and of how many bytes, a transaction may still write or remove.
type Share struct {
	Events int64 `db:"events"`
	Bytes  int64 `db:"bytes"`
}

// FullShare is what a transaction begins with that does something else besides.
func FullShare() Share { return Share{eventsAtOnce, bytesAtOnce} }

// WriteShare is what a transaction begins with that writes events alone.
func WriteShare() Share { return Share{writtenAtOnce, bytesAtOnce} }

// Take takes that much of the share; false, and nothing taken, where it is not there.
func (s *Share) Take(events, bytes int64) bool {
	if events > s.Events || bytes > s.Bytes {
		return false
	}
	s.Events -= events
	s.Bytes -= bytes
	return true
}

// TakeRun is Take for a run and its events.
func (s *Share) TakeRun(w *Row) bool { return s.Take(eventsOfARun+w.KeptEvents, w.KeptBytes) }

const (
	sqlLeave = `INSERT INTO live_leavings (run, owner_id) VALUES (?, ?)`
	// What is taken out behind a key: the scope's indexes find it, not the keys of other scopes.
	sqlBehind = ` FROM live_runs WHERE scope = ? AND +key > ?`
	sqlWeigh  = `SELECT count(*) AS runs, coalesce(sum(kept_events), 0) AS events,
		coalesce(sum(kept_bytes), 0) AS bytes` + sqlBehind
	sqlLeaveMany = `INSERT INTO live_leavings (run) SELECT key` + sqlBehind + ` AND kept_events > 0`
	sqlDropMany  = `DELETE` + sqlBehind
	sqlLeft      = `SELECT run, owner_id FROM live_leavings WHERE run > ? ORDER BY run LIMIT 1`
	sqlLeftBut   = `SELECT run, owner_id FROM live_leavings WHERE run > ?
		AND (owner_id IS NULL OR owner_id NOT IN (%s)) ORDER BY run LIMIT 1`
	sqlAllGone = `DELETE FROM live_leavings WHERE run = ?`
	sqlMine    = `DELETE FROM live_leavings WHERE run = ? AND owner_id = ?`
	sqlGiveUp  = `UPDATE live_leavings SET owner_id = NULL WHERE run = ? AND owner_id = ?`
)

// Leave takes a run out, with all that belongs to it, but for its events where the share has not so
// many: DropLeft removes those.
func (w *Row) Leave(tx *db.Tx, share *Share) error {
	if !share.Take(w.KeptEvents, w.KeptBytes) {
		if _, err := tx.Exec(sqlLeave, w.Key, nil); err != nil {
			return err
		}
	}
	return w.Remove(tx)
}

// LeaveBehind is Leave for all runs of a scope behind a key.
func LeaveBehind(tx *db.Tx, scope, key int64, share *Share) error {
	var all struct {
		Runs int64 `db:"runs"`
		Share
	}
	if err := tx.Get(&all, sqlWeigh, scope, key); err != nil || all.Runs == 0 {
		return err
	}
	if !share.Take(all.Events, all.Bytes) {
		if _, err := tx.Exec(sqlLeaveMany, scope, key); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(sqlDropMany, scope, key); err != nil {
		return err
	}
	_, err := tx.Exec(sqlCountOut, all.Runs, all.Runs, scope)
	return err
}

// A leaving is a run of which something is left, and the process that writes it.
type leaving struct {
	Run   int64  `db:"run"`
	Owner *int64 `db:"owner_id"`
}

// written reports whether a process that lives is writing it.
func (l leaving) written(rx *db.Rx) (bool, error) {
	if l.Owner == nil {
		return false, nil
	}
	return rx.OwnerAlive(*l.Owner)
}

// Left finds the first run behind a key of which something may be dropped. What processes that live
// are writing it passes by, which may be a number for each of very many runs.
func Left(rx *db.Rx, behind int64) (run int64, some bool, err error) {
	living := []any{behind}
	for {
		var left leaving
		query := fmt.Sprintf(sqlLeftBut, strings.TrimSuffix(strings.Repeat("?, ", len(living)-1), ", "))
		if len(living) == 1 {
			query = sqlLeft
		}
		if found, err := rx.Find(&left, query, living...); err != nil || !found {
			return 0, false, err
		}
		if alive, err := left.written(rx); err != nil || !alive {
			return left.Run, true, err
		}
		living[0], living = left.Run, append(living, *left.Owner)
	}
}

// DropLeft removes events that were left, of runs with keys behind one, as many as a transaction
// may. It returns the key to go on behind, which Left does, past what a process that lives is
// writing.
func DropLeft(tx *db.Tx, behind int64) (last int64, err error) {
	for share := (Share{droppedAtOnce, bytesAtOnce}); share.Events > 0 && share.Bytes > 0; {
		var left leaving
		if found, err := tx.Find(&left, sqlLeft, behind); err != nil || !found {
			return behind, err
		}
		if alive, err := left.written(&tx.Rx); err != nil || alive {
			return behind, err
		}
		if some, err := (&Row{Key: left.Run}).dropSome(tx, &share); err != nil {
			return behind, err
		} else if some {
			continue
		}
		share.Events -= eventsOfARun
		if _, err := tx.Exec(sqlAllGone, left.Run); err != nil {
			return behind, err
		}
		behind = left.Run
	}
	return behind, nil
}

// dropSome removes the first events, as many as one statement may, and the first in any case.
func (w *Row) dropSome(tx *db.Tx, share *Share) (some bool, err error) {
	const most = 256
	var first []eventSize
	if err := tx.Select(&first, sqlSizes, w.First(), w.End(), most); err != nil || len(first) == 0 {
		return false, err
	}
	last := first[0].ID
	for i := range first {
		size := first[i].Event
		if first[i].Raw != nil {
			size += *first[i].Raw
		}
		if i > 0 && share.Bytes < size {
			break
		}
		last = first[i].ID
		share.Events--
		share.Bytes -= size
	}
	_, err = tx.Exec(sqlDropEvents, w.First(), last)
	return true, err
}

// Reserve takes a number for the run, under which its events can be written before the run is
// there. They go with the owner, a process that lives, unless it adds the run.
func (w *WholeRow) Reserve(tx *db.Tx, owner int64, share *Share) error {
	share.Events -= eventsOfARun
	// A number that a row had is never used again, and no run has so long an id.
	nobody := Row{Scope: w.Scope, RunID: strings.Repeat("-", db.MaxID+1), Status: w.Status}
	columns := nobody.columns()
	if err := tx.Get(&w.Key, sqlAddRow, append(columns, db.Checksum(columns...))...); err != nil {
		return err
	}
	if _, err := tx.Exec(sqlDropRun, w.Key); err != nil {
		return err
	}
	_, err := tx.Exec(sqlLeave, w.Key, owner)
	return err
}

// AddReserved writes a run, without its events, under the number that was reserved for it. It does
// not count it. mine is false, and nothing is written, where the number is not the owner's any
// more.
func (w *WholeRow) AddReserved(tx *db.Tx, owner int64) (mine bool, err error) {
	if n, err := tx.Exec(sqlMine, w.Key, owner); err != nil || n == 0 {
		return false, err
	}
	return true, w.addAs(tx)
}

// GiveUp leaves what was written under the number that was reserved.
func (w *WholeRow) GiveUp(tx *db.Tx, owner int64) error {
	_, err := tx.Exec(sqlGiveUp, w.Key, owner)
	return err
}
