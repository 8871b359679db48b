package checkpoints

import (
	"context"
	"time"

	"selvedge/db"
	"selvedge/internal/transact"
)

// recoverBatch is how many claims are read at once.
var recoverBatch = 1000 // a variable for tests

// longestTurn is after how long a transaction of many changes ends and lets other writers in.
var longestTurn = 5 * time.Millisecond // a variable for tests

const (
	opRecover       = "recover checkpoints"
	sqlClaimsFirst  = sqlClaims + ` AND scope = ? ORDER BY run_id LIMIT ?`
	sqlClaimsBehind = sqlClaims + ` AND scope = ? AND run_id > ? ORDER BY run_id LIMIT ?`
)

// Recover makes claims claimable again whose processes are gone (killed, crashed, on a machine that
// was restarted) or whose time is over, and tells how many there were. It is safe at any time, by
// anybody: claims that are being worked on stay, those of this process too, whichever handle made
// them. So do those that an import brought, of which nobody knows whether the program that made
// them still runs: see [Store.RecoverOrphaned].
//
// A claim on a run that has paused again meanwhile is dropped and not counted. One whose document
// can't be read waits again, where List and Load show it, and is not counted either: nobody can
// claim it. It goes from run to run, and lets other writers in when it has worked for some
// milliseconds: they may see that it has been at one and not yet at the next. When ctx ends in
// between, what was recovered stays so.
func (s *Store) Recover(ctx context.Context) (rearmed int, err error) { return s.recover(ctx, isOver) }

// RecoverOrphaned is what the old store has, for a program that starts: besides what
// [Store.Recover] takes it takes this process's own claims, also those that are being worked on,
// and those that an import brought. Claims of other living processes stay.
func (s *Store) RecoverOrphaned(ctx context.Context) (rearmed int, err error) {
	return s.recover(ctx, isOrphaned)
}

// A judge says whether a claim may be taken from its holder.
type judge func(*db.Rx, *claimed) (bool, error)

func isOver(rx *db.Rx, c *claimed) (bool, error) {
	if c.Owner == nil {
		return false, nil
	}
	state, err := rx.LeaseState(c.LeaseColumns)
	return state.Over(), err
}

func isOrphaned(rx *db.Rx, c *claimed) (bool, error) {
	if c.Owner == nil {
		return true, nil
	}
	if own, err := rx.Owns(*c.Owner); own || err != nil {
		return own, err
	}
	return isOver(rx, c)
}

func (s *Store) recover(ctx context.Context, free judge) (rearmed int, err error) {
	return transact.Sweep[*string]{
		DB: s.db, Op: opRecover, Turn: longestTurn,
		Page: func(rx *db.Rx, after *string) (runs []string, last *string, more bool, err error) {
			last = after
			err = s.look(rx, opRecover, "", func(scope int64) error {
				query, args := sqlClaimsFirst, []any{scope, recoverBatch}
				if after != nil { // "" is an id too
					query, args = sqlClaimsBehind, []any{scope, *after, recoverBatch}
				}
				var claims []claimed
				err := rx.Select(&claims, query, args...)
				for i := 0; i < len(claims) && err == nil; i++ {
					last = &claims[i].RunID
					var take bool
					if take, err = free(rx, &claims[i]); take {
						runs = append(runs, *last)
					}
				}
				more = len(claims) == recoverBatch
				return err
			})
			return runs, last, more, err
		},
		End: func(tx *db.Tx, runID string) (counts bool, err error) {
			err = s.look(&tx.Rx, opRecover, "", func(scope int64) error {
				var c claimed
				if ok, err := tx.Find(&c, sqlClaimOf, scope, runID); err != nil || !ok {
					return err
				}
				if take, err := free(&tx.Rx, &c); err != nil || !take {
					return err
				}
				freed, err := c.rearm(tx)
				counts = freed && !c.PausedAgain && c.Problem == nil
				return err
			})
			return counts, err
		},
	}.Run(ctx, nil)
}
