package live

import "selvedge/db"

const (
	// Runs that replace others got their numbers before, and others may have come since.
	sqlCountIn = `INSERT INTO live_scopes (scope, runs, removed, oldest) VALUES (?, ?, 0, ?)
ON CONFLICT (scope) DO UPDATE SET runs = live_scopes.runs + excluded.runs,
    oldest = CASE WHEN excluded.oldest < live_scopes.oldest THEN excluded.oldest ELSE live_scopes.oldest END`
	sqlCountOut = `UPDATE live_scopes SET runs = runs - ?, removed = removed + ? WHERE scope = ?`
	sqlCounts   = `SELECT runs, removed, oldest FROM live_scopes WHERE scope = ?`
	sqlOldest   = `SELECT ` + rowColumns +
		` FROM live_runs AS r WHERE r.key >= ? AND +r.scope = ? ORDER BY r.key LIMIT 1`
	sqlMoveUp  = `UPDATE live_scopes SET oldest = ? WHERE scope = ?`
	sqlDropRun = `DELETE FROM live_runs WHERE key = ?`
)

// Counts are what is kept of a scope as a whole.
type Counts struct {
	Runs    int64 `db:"runs"`    // that are here
	Removed int64 `db:"removed"` // that are not here any more
	Oldest  int64 `db:"oldest"`  // no run has a lower key
}

// CountsOf reads them. A scope in which no run ever was has none.
func CountsOf(rx *db.Rx, scope int64) (c Counts, err error) {
	_, err = rx.Find(&c, sqlCounts, scope)
	return c, err
}

// AddRun writes a run that is not there, with its events.
func AddRun(tx *db.Tx, scope int64, r *Record) (*WholeRow, error) {
	w := NewRow(scope, r)
	if err := w.Add(tx); err != nil {
		return nil, err
	}
	if err := w.AddEvents(tx, r.Events); err != nil {
		return nil, err
	}
	return w, CountIn(tx, scope, 1, w.Key)
}

// CountIn counts runs that were added to a scope, the oldest of which has that key.
func CountIn(tx *db.Tx, scope int64, runs int, oldest int64) error {
	return tx.Queue(sqlCountIn, scope, runs, oldest)
}

// Remove takes a run out, with all that belongs to it.
func (w *Row) Remove(tx *db.Tx) error {
	if _, err := tx.Exec(sqlDropRun, w.Key); err != nil {
		return err
	}
	_, err := tx.Exec(sqlCountOut, 1, 1, w.Scope)
	return err
}

// OldestRun reads the run of the scope that was added first. It notes how far it had to look, so
// that a scope beside large ones does not look at their runs each time.
func OldestRun(tx *db.Tx, scope int64, c Counts) (w *Row, found bool, err error) {
	w, found, err = findRow(&tx.Rx, sqlOldest, c.Oldest, scope)
	if err == nil && found && w.Key > c.Oldest {
		_, err = tx.Exec(sqlMoveUp, w.Key, scope)
	}
	return w, found, err
}

const (
	sqlOwn       = `UPDATE live_runs SET owner_id = ? WHERE key = ?`
	sqlTakeAway  = `UPDATE live_runs SET owner_id = NULL WHERE key = ? AND owner_id = ?`
	sqlOwnedRuns = `SELECT key FROM live_runs WHERE owner_id IS NOT NULL AND scope = ? AND key > ? ORDER BY key
		LIMIT ` + db.BoundLimit
	// SQLEndedRuns gives the runs of a scope that ended before a time, or then and with a lower key,
	// the newest first.
	SQLEndedRuns = `SELECT key, run_id AS id, session_id AS of, updated_at AS ended_at, kept_bytes AS bytes
	FROM live_runs
WHERE scope = ? AND status IN ('completed', 'failed', 'cancelled') AND (updated_at, key) < (?, ?)
	ORDER BY updated_at DESC, key DESC LIMIT ?`
)

// Own notes whose the run is; nil: nobody's.
func (w *Row) Own(tx *db.Tx, owner *int64) error {
	_, err := tx.Exec(sqlOwn, owner, w.Key)
	return err
}

// TakeAway notes that the run is nobody's, where it is still its owner's.
func (w *Row) TakeAway(tx *db.Tx) (taken bool, err error) {
	n, err := tx.Exec(sqlTakeAway, w.Key, w.Owner)
	return n > 0, err
}

// OwnedRuns gives the keys of at most limit runs behind one that are somebody's, in their order.
func OwnedRuns(rx *db.Rx, scope, behind int64, limit int) (keys []int64, err error) {
	err = rx.Select(&keys, sqlOwnedRuns, scope, behind, limit)
	return keys, err
}
