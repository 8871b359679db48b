package live

import (
	"selvedge/db"
	"selvedge/internal/txn"
)

const (
	// Runs that replace others took their keys earlier, so others may have lower ones.
	sqlCountIn = `INSERT INTO live_scopes (scope, runs, removed, oldest) VALUES (?, ?, 0, ?)
ON CONFLICT (scope) DO UPDATE SET runs = live_scopes.runs + excluded.runs,
    oldest = CASE WHEN excluded.oldest < live_scopes.oldest THEN excluded.oldest ELSE live_scopes.oldest END`
	sqlCountOut = `UPDATE live_scopes SET runs = runs - ?, removed = removed + ? WHERE scope = ?`
	sqlCounts   = `SELECT runs, oldest FROM live_scopes WHERE scope = ?`
	sqlMoveUp   = `UPDATE live_scopes SET oldest = ? WHERE scope = ?`
)

var oldestRun = txn.LiveRuns.Rows(`SELECT ` + rowColumns +
	` FROM live_runs AS r WHERE r.key >= ? AND +r.scope = ? ORDER BY r.key LIMIT 1`)

// removedRuns is how many runs one transaction removes for a cap. It holds the writer for less than
// 50 ms.
const removedRuns = 200

// countIn counts runs that were added to a scope; oldest is the lowest of their keys.
func countIn(tx *db.Tx, scope int64, runs int, oldest int64) error {
	return tx.Store().QueueLast(sqlCountIn, scope, runs, oldest)
}

func countOut(tx *db.Tx, scope, runs int64) error {
	return tx.Store().QueueLast(sqlCountOut, runs, runs, scope)
}

// dropOldest enforces the cap on runs after a run was added, and removes those added first. Runs that
// are held and the added one stay, so the scope may hold more. It stores how far it read, so that a
// small scope does not read past the runs of large ones each time.
func (s *Store) dropOldest(tx *db.Tx, scope, added int64) error {
	var counts struct {
		Runs   int64 `db:"runs"`
		Oldest int64 `db:"oldest"` // no run has a lower key
	}
	if err := tx.Store().Finish(); err != nil {
		return err
	}
	if _, err := tx.Find(&counts, sqlCounts, scope); err != nil {
		return err
	}
	left, excess, first := fullBudget(), over(s.caps.runs, counts.Runs), counts.Oldest
	for n := 0; excess > 0 && n < removedRuns; n++ {
		row, found, err := rowToChange(tx, oldestRun, first, scope)
		if err != nil || !found || row.Key == added {
			return err
		}
		if first == counts.Oldest && row.Key > first {
			if _, err = tx.Exec(sqlMoveUp, row.Key, scope); err != nil {
				return err
			}
			counts.Oldest = row.Key
		}
		free, err := tx.Store().Unreserve(row.Epoch)
		if err == nil && free {
			excess--
			err = row.remove(tx, &left)
		}
		if err != nil {
			return err
		}
		if first = row.Key; !free {
			first++
		}
	}
	return nil
}
