package checkpoints

import (
	"context"
	"time"

	"selvedge/db"
)

// Recovery looks in reads, where it is in nobody's way, and writes only about the claims that it
// may take: judged again under the writer, a few at a time.
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

// RecoverTx is Recover inside a transaction, which is as long as there are many.
func (s *Store) RecoverTx(tx *db.Tx) (rearmed int, err error) { return s.recoverTx(tx, isOver) }

// RecoverOrphaned is what the old store has, for a program that starts: besides what
// [Store.Recover] takes it takes this process's own claims, also those that are being worked on,
// and those that an import brought. Claims of other living processes stay.
func (s *Store) RecoverOrphaned(ctx context.Context) (rearmed int, err error) {
	return s.recover(ctx, isOrphaned)
}

// RecoverOrphanedTx is RecoverOrphaned inside a transaction, which is as long as there are many.
func (s *Store) RecoverOrphanedTx(tx *db.Tx) (rearmed int, err error) {
	return s.recoverTx(tx, isOrphaned)
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
	last, first := "", true // "" is an id too
	for more := true; more; {
		var runs []string
		from, begins := last, first
		err := s.db.Read(ctx, opRecover, func(rx *db.Rx) error {
			runs, more = nil, false
			return s.look(rx, opRecover, "", func(scope int64) (err error) {
				runs, last, more, err = claimsToTake(rx, scope, from, begins, free)
				return err
			})
		})
		first = false
		for err == nil && len(runs) > 0 {
			var freed, looked int
			freed, looked, err = s.rearm(ctx, runs, free)
			rearmed, runs = rearmed+freed, runs[looked:]
		}
		if err != nil {
			return rearmed, err
		}
	}
	return rearmed, nil
}

func (s *Store) recoverTx(tx *db.Tx, free judge) (rearmed int, err error) {
	err = s.look(&tx.Rx, opRecover, "", func(scope int64) error {
		last, first := "", true
		for more := true; more; first = false {
			var runs []string
			var err error
			if runs, last, more, err = claimsToTake(&tx.Rx, scope, last, first, free); err != nil {
				return err
			}
			for _, run := range runs {
				counts, err := s.rearmOne(tx, scope, run, free)
				if err != nil {
					return err
				}
				if counts {
					rearmed++
				}
			}
		}
		return tx.ForgetDeadOwners()
	})
	return rearmed, err
}

// claimsToTake gives the runs of those claims that may be taken, out of a page of them, and the run
// that this ends with.
func claimsToTake(rx *db.Rx, scope int64, from string, begins bool, free judge) (runs []string, last string,
	more bool, err error,
) {
	query, args := sqlClaimsFirst, []any{scope, recoverBatch}
	if !begins {
		query, args = sqlClaimsBehind, []any{scope, from, recoverBatch}
	}
	var claims []claimed
	if err := rx.Select(&claims, query, args...); err != nil {
		return nil, "", false, err
	}
	for i := range claims {
		last = claims[i].RunID
		take, err := free(rx, &claims[i])
		if err != nil {
			return nil, "", false, err
		}
		if take {
			runs = append(runs, last)
		}
	}
	return runs, last, len(claims) == recoverBatch, nil
}

// rearm takes those of the runs' claims that may still be taken, and tells how many it looked at
// before its turn was over.
func (s *Store) rearm(ctx context.Context, runs []string, free judge) (rearmed, looked int, err error) {
	err = s.db.Write(ctx, opRecover, func(tx *db.Tx) error {
		rearmed, looked = 0, 0
		return s.look(&tx.Rx, opRecover, "", func(scope int64) error {
			for began := time.Now(); ; {
				counts, err := s.rearmOne(tx, scope, runs[looked], free)
				if err != nil {
					return err
				}
				if counts {
					rearmed++
				}
				if looked++; looked == len(runs) || time.Since(began) >= longestTurn {
					return tx.ForgetDeadOwners()
				}
			}
		})
	})
	return rearmed, looked, err
}

func (s *Store) rearmOne(tx *db.Tx, scope int64, runID string, free judge) (counts bool, err error) {
	var c claimed
	if ok, err := tx.Find(&c, sqlClaimOf, scope, runID); err != nil || !ok {
		return false, err
	}
	if take, err := free(&tx.Rx, &c); err != nil || !take {
		return false, err
	}
	freed, err := c.rearm(tx)
	return freed && !c.PausedAgain && c.Problem == nil, err
}
