package live

import (
	"context"

	"selvedge/db"
	"selvedge/internal/live"
)

const opRecover = "recover live runs"

// holderGone is what a run that Recover fails says of it.
const holderGone = "the process that held the run is gone"

// Recover fails the runs whose holder is dead, with an error that says so, and gives their number. It may be called at any time,
// by any process and handle: what somebody holds, this process too, is spared, and so are runs that wait at a checkpoint or have
// ended, and those that nobody ever held: only Begin and Resume make a run somebody's.
//
// It works in short transactions; what it failed before an error stays failed. What a dead process left half removed, or half
// written, which nobody sees, goes too.
func (s *Store) Recover(ctx context.Context) (recovered int, err error) {
	for behind, more := int64(0), true; more; {
		var keys []int64
		err := s.db.Read(ctx, opRecover, func(rx *db.Rx) error {
			keys = nil
			scope, ok, err := s.scopeIn(rx)
			if err == nil && ok {
				keys, err = live.OwnedRuns(rx, scope, behind, recovering)
			}
			return err
		})
		if err != nil {
			return recovered, err
		}
		if more = len(keys) == recovering; len(keys) == 0 {
			break
		}
		behind = keys[len(keys)-1]
		n := 0
		err = s.db.Write(ctx, opRecover, func(tx *db.Tx) error {
			n, err = s.recover(tx, keys)
			return err
		})
		if err != nil {
			return recovered, err
		}
		recovered += n
	}
	return recovered, s.dropLeft(ctx)
}

// recovering is how many runs one transaction judges.
const recovering = 100

// sqlWaits looks at another store's table: a workflow that is paused, or being resumed, is a run that goes on.
const sqlWaits = `SELECT 1 FROM checkpoints WHERE scope = ? AND run_id = ? LIMIT 1`

func (s *Store) recover(tx *db.Tx, keys []int64) (failed int, err error) {
	for _, key := range keys {
		row, found, err := live.RowByKey(&tx.Rx, key)
		if err != nil {
			return failed, err
		}
		if !found || row.Owner == nil {
			continue
		}
		spared, err := tx.OwnerAlive(*row.Owner) // a hold that outlives its process leaves the run without an owner
		if err == nil && !spared {
			spared, err = tx.Find(new(int64), sqlWaits, row.Scope, row.RunID)
		}
		if err != nil {
			return failed, err
		}
		if spared {
			continue
		}
		taken, err := row.TakeAway(tx)
		if err != nil {
			return failed, err
		}
		if !taken {
			continue
		}
		if RunStatus(row.Status).Ended() {
			continue
		}
		if _, _, err := s.MarkFailedTx(tx, row.RunID, holderGone); err != nil {
			return failed, err
		}
		failed++
	}
	return failed, nil
}
