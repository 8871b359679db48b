package runs

import (
	"context"
	"fmt"
	"math"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

const opDelete = "delete run"

// Delete removes a run with all its records and keys. ErrNotFound: the run does not exist.
// ErrConflict: a live process writes to it, and would create it again, or a row of a user's table
// refers to it. Nil means that the run is gone. Records that could not be removed, because ctx
// ended or the disk failed, are invisible, and the next removal removes them.
func (s *Store) Delete(ctx context.Context, run RunRef) error {
	var err error
	var at detachment
	for more := true; more && err == nil; {
		var next detachment
		err = stores.On(s.db, txn.Runs).Remove(ctx, opDelete, func(tx *db.Tx) error {
			key, err := s.deletable(tx, run)
			if err == nil {
				next, more, err = at.of(key).step(tx)
			}
			return named(run, err)
		})
		at = next
	}
	if err == nil {
		_ = s.dropLeavings(ctx) // an error would mean that the run still exists
	}
	return err
}

// DeleteTx is Delete inside a transaction, whose length grows with the run.
func (s *Store) DeleteTx(tx *db.Tx, run RunRef) error {
	key, err := s.deletable(tx, run)
	for d := (detachment{run: key}); err == nil && !d.renewed; {
		err = d.renew(tx)
	}
	if err == nil {
		_, err = spend(tx, key, math.MaxInt64)
	}
	if err == nil && !tx.Store().SingleWriter() {
		// Lines that the run's process wrote since this transaction began are not visible here. The
		// next removal drops them.
		if _, err = tx.Exec(sqlDropLines, key<<24, (key+1)<<24); err == nil {
			_, err = tx.Exec(sqlLeave, key)
		}
	}
	if err == nil {
		err = removeRun(tx, key)
	}
	return named(run, err)
}

// removeRun removes the row of a run. Its usage stays known.
func removeRun(tx *db.Tx, key int64) error {
	used, err := usage.NameOf(&tx.Rx, key)
	if err == nil {
		_, err = tx.Exec(sqlRemoveRun, key)
	}
	if err == nil {
		err = usage.Settle(tx, used)
	}
	return err
}

func (s *Store) deletable(tx *db.Tx, run RunRef) (key int64, err error) {
	row, err := s.findLocked(tx, opDelete, run)
	if err == nil {
		err = s.free(tx, opDelete, run, &row)
	}
	busy := false
	if err == nil && row.OwnerID != nil {
		busy, err = tx.Store().OwnerAlive(*row.OwnerID)
	}
	if err == nil && busy {
		err = &db.Error{
			Op: opDelete, Entity: "run", ID: run.RunID, Hint: "end the run first",
			Err: fmt.Errorf("%w: a process writes to it", db.ErrConflict),
		}
	}
	return row.Key, err
}

// named explains why the removal of a run was refused.
func named(run RunRef, err error) error {
	if !txn.IsConstraint(err) {
		return err
	}
	return &db.Error{
		Op: opDelete, Entity: "run", ID: run.RunID,
		Hint: "remove the row that refers to the run first, or let it go with the run (ON DELETE CASCADE)",
		Err:  fmt.Errorf("%w: a row of a table of yours refers to the run: %w", db.ErrConflict, err),
	}
}

const (
	sqlRemoveRun = `DELETE FROM runs WHERE key = ?`
	sqlStillOver = `SELECT 1 FROM runs WHERE key = ? AND ` + endedOrCancelled + ` AND ` + loose
	sqlLeave     = `INSERT INTO run_leavings (run) VALUES (?)`
	sqlLeftLine  = `SELECT id, bytes FROM run_records WHERE id > ? AND id < ? ORDER BY id LIMIT 1`
	sqlDropLines = `DELETE FROM run_records WHERE id >= ? AND id < ?`
	sqlNothing   = `DELETE FROM run_leavings WHERE run = ?`
)

var leaving = txn.Leavings.Rows(`SELECT run FROM run_leavings ORDER BY run LIMIT 1`).Free()

// runsAtATime is the number of rows of runs that one transaction of retention removes.
var runsAtATime int64 = 200 // a variable for tests

// writerHeld is the approximate length of a transaction. The writer should be held for 50 ms at
// most, the commit included.
var writerHeld = 5 * time.Millisecond // a variable for tests

// keysAtOnce is the number of a run's keys that one transaction spends.
var keysAtOnce int64 = 500 // a variable for tests

// A detachment removes the row of a run and leaves its records to dropLeavings. It spends the keys
// of the run first, some in each transaction. It also renews the keys that an earlier removal spent
// before it was stopped or refused, since they may be old.
type detachment struct {
	run     int64
	renewed bool   // all keys that were spent before have been renewed
	last    string // the last key that was renewed
}

// of returns d if it is the detachment of run, and a new one otherwise.
func (d detachment) of(run int64) detachment {
	if d.run != run {
		return detachment{run: run}
	}
	return d
}

// step does the work of one transaction. It returns where the next transaction continues, and
// whether there is more to do.
func (d detachment) step(tx *db.Tx) (next detachment, more bool, err error) {
	for began := time.Now(); !d.renewed; {
		if d.last != "" && time.Since(began) > writerHeld {
			return d, true, nil
		}
		if err := d.renew(tx); err != nil {
			return d, true, err
		}
	}
	spent, err := spend(tx, d.run, keysAtOnce)
	if err == nil && spent > 0 {
		_, err = tx.Exec(sqlDropKeys, d.run, d.run, keysAtOnce)
	}
	if err != nil || spent == keysAtOnce {
		return d, true, err
	}
	if _, err := tx.Exec(sqlLeave, d.run); err != nil {
		return d, false, err
	}
	return d, false, removeRun(tx, d.run)
}

// renew updates the time of some of the keys that were spent before.
func (d *detachment) renew(tx *db.Tx) error {
	var some struct {
		Keys int64  `db:"keys"`
		Last string `db:"last"`
	}
	query := `SELECT coalesce(max(append_key), '') AS last, count(*) AS keys FROM (` + sqlSpentOf +
		` ORDER BY ` + tx.Store().InOrder("append_key") + ` LIMIT ` + paging.BoundLimit + `) AS spent`
	err := tx.Get(&some, query, d.run, d.last, keysAtOnce)
	if err == nil && some.Keys > 0 {
		_, err = tx.Exec(sqlRenewKeys, db.Nanos(tx.Now()), d.run, d.last, some.Last)
	}
	d.last, d.renewed = some.Last, some.Keys < keysAtOnce
	return err
}

// keysKept is how long the append keys of a removed run are remembered.
const keysKept = 30 * 24 * time.Hour

var (
	sqlSpendKeys = `INSERT INTO run_spent_keys (scope, run_id, agent_id, append_key, digest, checksum, run,
	removed_at)
SELECT r.scope, r.run_id, r.agent_id, k.append_key, k.digest, k.checksum, r.key, ? FROM runs AS r
	JOIN run_append_keys AS k ON k.run = r.key WHERE r.key = ?
ORDER BY k.append_key LIMIT ` + paging.BoundLimit
	sqlDropSpent = `DELETE FROM run_spent_keys WHERE (` + spentKey + `) IN (
    SELECT ` + spentKey + ` FROM runs JOIN run_append_keys ON run = key WHERE key = ?
	ORDER BY append_key LIMIT ` + paging.BoundLimit + `)`
	// spentKey lists the columns by which rows are found; see paging.Same.
	spentKey = `scope, run_id, agent_id, append_key, ` + paging.Start("run_id") + `, ` +
		paging.Start("agent_id") + `, ` + paging.Start("append_key")
	// The renewal skips the keys of an earlier run of the same name, which are as old as its
	// removal.
	sqlSpentOf = `SELECT append_key FROM run_spent_keys WHERE ` + ofRun("?1") + ` AND append_key > ?2 AND ` +
		paging.Start("append_key") + ` >= ` + paging.Start("?2")
	sqlRenewKeys = `UPDATE run_spent_keys SET removed_at = ?1 WHERE run = ?2 AND append_key > ?3
	AND append_key <= ?4
AND ` + paging.Start("append_key") + ` >= ` + paging.Start("?3") +
		` AND ` + paging.Start("append_key") + ` <= ` + paging.Start("?4") + ` AND ` + ofRun("?2")
	sqlDropKeys = `DELETE FROM run_append_keys WHERE run = ? AND append_key IN (
    SELECT append_key FROM run_append_keys WHERE run = ? ORDER BY append_key LIMIT ` + paging.BoundLimit + `)`
	// A run whose removal was stopped or refused still needs its spent keys.
	sqlForgetKeys = `DELETE FROM run_spent_keys WHERE (` + spentKey + `) IN (
    SELECT ` + spentKey + ` FROM run_spent_keys WHERE removed_at < ?
	AND NOT EXISTS (SELECT 1 FROM runs WHERE key = run_spent_keys.run)
    ORDER BY removed_at LIMIT ` + paging.BoundLimit + `)`
)

// ofRun is the condition that a spent key belongs to a run with the name of the run with this key.
func ofRun(key string) string {
	name := `scope, run_id, agent_id, ` + paging.Start("run_id") + `, ` + paging.Start("agent_id")
	return `(` + name + `) = (SELECT ` + name + ` FROM runs WHERE key = ` + key + `)`
}

// spend stores up to limit keys of a run as keys of a removed run, so that a late repeat does not
// create it again. They replace the keys of an earlier run of the same name.
func spend(tx *db.Tx, key, limit int64) (int64, error) {
	if _, err := tx.Exec(sqlDropSpent, key, limit); err != nil {
		return 0, err
	}
	return tx.Exec(sqlSpendKeys, db.Nanos(tx.Now()), key, limit)
}

// dropLeavings removes the records of removed runs, also of those that another process removed.
func (s *Store) dropLeavings(ctx context.Context) error {
	for more := true; more; {
		err := stores.On(s.db, txn.Runs).Remove(ctx, opGC, func(tx *db.Tx) (err error) {
			if more, err = dropLines(tx); err == nil && !more {
				const most = 1000
				n := int64(0)
				n, err = tx.Exec(sqlForgetKeys, db.Nanos(tx.Now().Add(-keysKept)), most)
				more = n == most
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropLines removes records of removed runs until its time is up. more reports whether some may
// remain. A record may be of any size, and a statement cannot be stopped early, so the first
// statement removes one record.
func dropLines(tx *db.Tx) (more bool, err error) {
	lines := int64(1)
	for began := time.Now(); ; {
		var run int64
		var first leftLine
		at := time.Now()
		if more, err = tx.Store().FindToChange(&run, leaving); err != nil || !more {
			return false, err
		}
		found, err := tx.Find(&first, sqlLeftLine, run<<24, (run+1)<<24)
		if err != nil {
			return false, err
		}
		if found {
			end, err := first.reach(&tx.Rx, lines)
			if err != nil {
				return false, err
			}
			if _, err := tx.Exec(sqlDropLines, first.ID, end); err != nil {
				return false, err
			}
		} else if _, err := tx.Exec(sqlNothing, run); err != nil {
			return false, err
		}
		switch took := time.Since(at); {
		case took < writerHeld/8:
			lines = min(2*lines, linesAtOnce)
		case took > writerHeld/4:
			lines = max(lines/2, 1)
		}
		if time.Since(began) >= writerHeld {
			return true, nil
		}
	}
}

// One statement removes at most linesAtOnce records, and at most bytesAtOnce bytes besides the
// first record. If the sizes are not known, it removes at most unweighedAtOnce records.
const (
	linesAtOnce     = 1 << 12
	unweighedAtOnce = 1 << 6
	bytesAtOnce     = 4 << 20
)

// A leftLine is the first remaining record of a removed run.
type leftLine struct {
	ID    int64  `db:"id"`
	Bytes *int64 `db:"bytes"` // of the run up to and including this record; nil: not known
}

// reach returns the id before which a statement that removes from here must stop. The statement
// removes at most this many lines: the speed of the last statement does not predict that of the
// next, whose records may be large.
func (l leftLine) reach(rx *db.Rx, lines int64) (end int64, err error) {
	for ; lines > 1; lines /= 2 {
		end := min(l.ID+lines, (l.ID>>24+1)<<24)
		if l.Bytes == nil {
			if lines <= unweighedAtOnce {
				return end, nil
			}
			continue
		}
		var total *int64
		if _, err := rx.Find(&total, sqlTraceTotal, l.ID-1, end); err != nil {
			return 0, err
		}
		if total != nil && *total-*l.Bytes <= bytesAtOnce {
			return end, nil
		}
	}
	return l.ID + 1, nil
}
