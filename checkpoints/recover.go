package checkpoints

import (
	"context"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
)

// recoverBatch is how many claims are read at once.
var recoverBatch = 1000 // a variable for tests

// longestTurn is after how long a transaction of many changes ends and lets other writers in.
var longestTurn = 5 * time.Millisecond // a variable for tests

const (
	opRecover       = "recover checkpoints"
	sqlClaimByID    = sqlClaims + ` AND id = ?`
	sqlClaimsOrder  = ` ORDER BY run_id, coalesce(agent_id, '') LIMIT ?`
	sqlClaimsFirst  = sqlClaims + ` AND scope = ? AND ` + ofAgent + sqlClaimsOrder
	sqlClaimsBehind = sqlClaims + ` AND scope = ? AND ` + ofAgent + `
	AND run_id >= ? AND (run_id, coalesce(agent_id, '')) > (?, ?)` + sqlClaimsOrder
)

// Recover makes runs wait again if their claims are over, and counts them. A claim is over if its
// process is gone (killed, crashed, on a machine that was restarted) or its time has passed.
// Recover is safe at any time, from any process: claims of living processes stay, those of this
// process too, whichever handle made them. So do imported claims, because the program that made
// them may still run: see [Store.RecoverOrphaned].
//
// A claim on a run that has paused again meanwhile is dropped and not counted. A run with an
// unreadable document waits again, visible to List and Load, but is not counted either, because it
// can't be claimed. Recover works in short transactions: runs recovered before an error stay so.
func (s *Store) Recover(ctx context.Context) (rearmed int, err error) { return s.recover(ctx, isOver) }

// RecoverOrphaned is the call of the old store, for a program that starts. Besides the claims that
// [Store.Recover] takes, it takes this process's own claims, even those in use, and imported ones.
// Claims of other living processes stay.
func (s *Store) RecoverOrphaned(ctx context.Context) (rearmed int, err error) {
	return s.recover(ctx, isOrphaned)
}

// A judge reports whether a claim may be taken from its holder.
type judge func(*db.Rx, *claimed) (bool, error)

func isOver(rx *db.Rx, c *claimed) (bool, error) {
	if c.Owner == nil {
		return false, nil
	}
	state, err := rx.Store().LeaseState(c.LeaseColumns)
	return state.Over(), err
}

func isOrphaned(rx *db.Rx, c *claimed) (bool, error) {
	if c.Owner == nil {
		return true, nil
	}
	if own, err := rx.Store().Owns(*c.Owner); own || err != nil {
		return own, err
	}
	return isOver(rx, c)
}

func (s *Store) recover(ctx context.Context, free judge) (rearmed int, err error) {
	return stores.Sweep[*claimed, int64]{
		DB: s.db, Op: opRecover, Turn: longestTurn,
		Page: func(rx *db.Rx, after *claimed) (ids []int64, last *claimed, more bool, err error) {
			last = after
			err = s.look(rx, opRecover, "", func(scope int64) error {
				query, args := sqlClaimsFirst, []any{scope, s.agent, recoverBatch}
				if after != nil {
					query = sqlClaimsBehind
					args = []any{scope, s.agent, after.RunID, after.RunID, after.AgentID, recoverBatch}
				}
				var claims []claimed
				err := rx.Select(&claims, query, args...)
				for i := 0; i < len(claims) && err == nil; i++ {
					last = &claims[i]
					var take bool
					if take, err = free(rx, last); take {
						ids = append(ids, last.ID)
					}
				}
				more = len(claims) == recoverBatch
				return err
			})
			return ids, last, more, err
		},
		End: func(tx *db.Tx, id int64) (bool, error) { return s.recoverOne(tx, id, free) },
	}.Run(ctx, nil)
}

// recoverOne makes a run wait again if its claim, a row's number, may be taken, and reports whether to
// count it.
func (s *Store) recoverOne(tx *db.Tx, id int64, free judge) (counts bool, err error) {
	err = s.look(&tx.Rx, opRecover, "", func(int64) error {
		var c claimed
		if ok, err := tx.Find(&c, sqlClaimByID, id); err != nil || !ok {
			return err
		}
		if take, err := free(&tx.Rx, &c); err != nil || !take {
			return err
		}
		if err := tx.Store().WillTake(claimToTake, id); err != nil {
			return err
		}
		freed, err := c.rearm(tx)
		counts = freed && !c.PausedAgain && c.Problem == nil
		return err
	})
	return counts, err
}
