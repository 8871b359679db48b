package checkpoints

import (
	"context"
	"time"

	"selvedge/db"
)

// recoverBatch is how many claims one transaction looks at, so that recovery of many keeps no other writer waiting.
const recoverBatch = 200

const (
	sqlClaims = `SELECT id, run_id, epoch, owner_id, problem, lease_until, lease_boot_id,
    EXISTS (SELECT 1 FROM checkpoints AS p WHERE p.scope = c.scope AND p.run_id = c.run_id AND p.state = 'paused') AS paused_again
FROM checkpoints AS c WHERE scope = ? AND state = 'claimed' AND run_id >= ? ORDER BY run_id LIMIT ?`
	sqlRearm = `UPDATE checkpoints SET state = 'paused', claimed_at = NULL, owner_id = NULL,
    lease_ttl = NULL, lease_until = NULL, lease_boot_id = NULL ` + asJudged + ` RETURNING id`
	sqlEndClaim = `DELETE FROM checkpoints ` + asJudged + ` RETURNING id`
	// asJudged takes away nothing but the claim that was looked at: neither a later one nor one that was renewed since.
	asJudged = `WHERE id = ? AND state = 'claimed' AND epoch IS NOT DISTINCT FROM ? AND lease_until IS NOT DISTINCT FROM ?`
)

// claimed is a claim as recovery looks at it.
type claimed struct {
	ID          int64   `db:"id"`
	RunID       string  `db:"run_id"`
	Epoch       *int64  `db:"epoch"`
	OwnerID     *int64  `db:"owner_id"`
	Problem     *string `db:"problem"`
	LeaseUntil  *int64  `db:"lease_until"`
	LeaseBootID *string `db:"lease_boot_id"`
	PausedAgain bool    `db:"paused_again"`
}

// RecoverOrphaned makes claims that nobody works on claimable again, and tells how many there were. Call it when the
// program starts: it takes this process's own claims, those of processes that are gone (killed, crashed, on a machine that
// was restarted), those that an import brought, and those that have expired. Claims of other living processes stay.
//
// A claim on a run that has paused again meanwhile is dropped and not counted. One whose document can't be read waits
// again, where List and Load show it, and is not counted either: nobody can claim it.
func (s *Store) RecoverOrphaned(ctx context.Context) (rearmed int, err error) {
	const op = "recover checkpoints"
	from := ""
	for more := true; more; {
		var b batch
		err := s.db.Write(ctx, op, func(tx *db.Tx) error {
			b = batch{}
			scope, ok, err := tx.Rx.Scope(s.scope)
			if err != nil || !ok {
				return err
			}
			return s.recover(tx, scope, from, &b)
		})
		if err != nil {
			return rearmed, failed(op, "", err)
		}
		rearmed += b.rearmed
		from, more = b.last, b.full
	}
	return rearmed, nil
}

// batch is what one transaction of a recovery did.
type batch struct {
	rearmed int
	last    string // run that it ended with; the next one begins there, since "" is an id too
	full    bool
}

func (s *Store) recover(tx *db.Tx, scope int64, from string, b *batch) error {
	var claims []claimed
	if err := tx.Select(&claims, sqlClaims, scope, from, recoverBatch); err != nil {
		return err
	}
	b.full = len(claims) == recoverBatch
	held := map[int64]bool{}
	died := false
	for _, c := range claims {
		b.last = c.RunID
		foreign, known := false, false
		if c.OwnerID != nil {
			if foreign, known = held[*c.OwnerID]; !known {
				var err error
				if foreign, err = heldElsewhere(tx, c.OwnerID); err != nil {
					return err
				}
				held[*c.OwnerID] = foreign
			}
		}
		if foreign && !c.expired(s.bootTime) {
			continue
		}
		died = true
		if err := free(tx, c, b); err != nil {
			return err
		}
	}
	if !died {
		return nil
	}
	return tx.ForgetDeadOwners()
}

func (c claimed) expired(now func() db.BootTime) bool {
	if c.LeaseUntil == nil {
		return false
	}
	return db.BootTime{Boot: *c.LeaseBootID, Since: time.Duration(*c.LeaseUntil)}.Reached(now())
}

// free ends one claim.
func free(tx *db.Tx, c claimed, b *batch) error {
	query := sqlRearm
	if c.PausedAgain {
		query = sqlEndClaim
	}
	var id int64
	ok, err := tx.Find(&id, query, c.ID, c.Epoch, c.LeaseUntil)
	if err == nil && ok && !c.PausedAgain && c.Problem == nil {
		b.rearmed++
	}
	return err
}
