package live

import (
	"context"

	"selvedge/db"
	"selvedge/internal/live"
)

const opRecover = "recover live runs"

// Recover gives back the runs whose holder is dead, and gives their number. It ends none:
// [Store.Resume] takes them up. It may be called at any time, by any process and handle: what
// somebody holds, this process too, is spared, and so is what nobody ever held: only Begin and
// Resume make a run somebody's.
//
// It works in short transactions; what it gave back before an error stays so. What a dead process
// left half removed, or half written, which nobody sees, goes too.
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

func (s *Store) recover(tx *db.Tx, keys []int64) (recovered int, err error) {
	for _, key := range keys {
		row, found, err := live.RowByKey(&tx.Rx, key)
		if err != nil {
			return recovered, err
		}
		if !found || row.Owner == nil {
			continue
		}
		taken := false
		alive, err := tx.OwnerAlive(*row.Owner) // a hold that outlives its process leaves the run without an owner
		if err == nil && !alive {
			taken, err = row.TakeAway(tx)
		}
		if err == nil && taken {
			_, err = tx.Unreserve(row.Scope, leaseKind, leaseName(key))
		}
		if err != nil {
			return recovered, err
		}
		if taken {
			recovered++
		}
	}
	return recovered, nil
}
