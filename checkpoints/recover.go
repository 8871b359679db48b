package checkpoints

import (
	"context"
	"time"

	"selvedge/db"
)

// Recovery looks in reads, where it is in nobody's way, and writes only about the claims that it may take: judged again under
// the writer, a few at a time.
var recoverBatch = 1000 // a variable for tests

// longestTurn is after how long a transaction of many changes ends and lets other writers in.
var longestTurn = 20 * time.Millisecond // a variable for tests

const (
	opRecover     = "recover checkpoints"
	sqlClaimsFrom = sqlClaims + ` AND scope = ? AND run_id >= ? AND (? OR run_id > ?) ORDER BY run_id LIMIT ?`
)

// Recover makes claims claimable again whose processes are gone (killed, crashed, on a machine that was restarted) or whose
// time is over, and tells how many there were. It is safe at any time, by anybody: claims that are being worked on stay, those
// of this process too, whichever handle made them. So do those that an import brought, of which nobody knows whether the
// program that made them still runs: see [Store.RecoverOrphaned].
//
// A claim on a run that has paused again meanwhile is dropped and not counted. One whose document can't be read waits
// again, where List and Load show it, and is not counted either: nobody can claim it. When ctx ends in between, what was
// recovered stays so.
func (s *Store) Recover(ctx context.Context) (rearmed int, err error) {
	return s.recover(ctx, func(rx *db.Rx, c *claimed) (bool, error) {
		if c.Owner == nil {
			return false, nil
		}
		state, err := rx.LeaseState(c.LeaseColumns)
		return state.Over(), err
	})
}

// RecoverOrphaned is what the old store has, for a program that starts: besides what [Store.Recover] takes it takes this
// process's own claims, also those that are being worked on, and those that an import brought. Claims of other living
// processes stay.
func (s *Store) RecoverOrphaned(ctx context.Context) (rearmed int, err error) {
	return s.recover(ctx, func(rx *db.Rx, c *claimed) (bool, error) {
		if c.Owner == nil {
			return true, nil
		}
		if own, err := rx.Owns(*c.Owner); own || err != nil {
			return own, err
		}
		state, err := rx.LeaseState(c.LeaseColumns)
		return state.Over(), err
	})
}

func (s *Store) recover(ctx context.Context, orphaned func(*db.Rx, *claimed) (bool, error)) (rearmed int, err error) {
	last, first := "", true // "" is an id too
	for more := true; more; {
		var runs []string
		err := s.db.Read(ctx, opRecover, func(rx *db.Rx) error {
			runs, more = nil, false
			return s.look(rx, opRecover, "", func(scope int64) error {
				var claims []claimed
				if err := rx.Select(&claims, sqlClaimsFrom, scope, last, first, last, recoverBatch); err != nil {
					return err
				}
				for i := range claims {
					free, err := orphaned(rx, &claims[i])
					if err != nil {
						return err
					}
					if free {
						runs = append(runs, claims[i].RunID)
					}
				}
				if more = len(claims) == recoverBatch; more {
					last, first = claims[len(claims)-1].RunID, false
				}
				return nil
			})
		})
		for err == nil && len(runs) > 0 {
			var freed, looked int
			freed, looked, err = s.rearm(ctx, runs, orphaned)
			rearmed, runs = rearmed+freed, runs[looked:]
		}
		if err != nil {
			return rearmed, err
		}
	}
	return rearmed, nil
}

// rearm takes those of the runs' claims that may still be taken, and tells how many it looked at before its turn was over.
func (s *Store) rearm(ctx context.Context, runs []string, orphaned func(*db.Rx, *claimed) (bool, error)) (rearmed, looked int, err error) {
	err = s.db.Write(ctx, opRecover, func(tx *db.Tx) error {
		rearmed, looked = 0, 0
		return s.look(&tx.Rx, opRecover, "", func(scope int64) error {
			for began := time.Now(); ; {
				counts, err := s.rearmOne(tx, scope, runs[looked], orphaned)
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

func (s *Store) rearmOne(tx *db.Tx, scope int64, runID string, orphaned func(*db.Rx, *claimed) (bool, error)) (counts bool, err error) {
	var c claimed
	if ok, err := tx.Find(&c, sqlClaimOf, scope, runID); err != nil || !ok {
		return false, err
	}
	if free, err := orphaned(&tx.Rx, &c); err != nil || !free {
		return false, err
	}
	freed, err := c.rearm(tx)
	return freed && !c.PausedAgain && c.Problem == nil, err
}
