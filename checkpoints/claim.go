package checkpoints

import (
	"context"
	"fmt"
	"time"

	"selvedge/db"
	documents "selvedge/internal/checkpoints"
)

// A Claim is a run that this process has taken to resume it. It stays claimed until it is completed, removed, or taken
// away: by RecoverOrphaned, when the process is gone or the claim has expired, or by a claim on the run's next pause.
type Claim struct {
	RunID     string
	Epoch     int64     // greater than that of every earlier claim on the run
	Owner     int64     // this process, in the table owners
	ClaimedAt time.Time // UTC
	Document  []byte    // byte for byte as it was saved

	store *Store
}

// Paused decodes the document.
func (c *Claim) Paused() (*PausedWorkflow, error) {
	p, err := Decode(c.Document)
	if err != nil {
		return nil, failed("decode checkpoint", c.RunID, corrupt(err))
	}
	return p, nil
}

// Claim takes the run that waits under the id, for this process to resume it. ok is false when none waits: there is no
// such run, or somebody else was faster. Of any number of calls, in any number of processes, one gets it. An older claim
// on the run, of a time before it paused again, ends with that.
//
// A run whose document can't be read is ErrCorrupt, each time, and stays where it is.
func (s *Store) Claim(ctx context.Context, runID string) (claim *Claim, ok bool, err error) {
	err = s.db.Write(ctx, opClaim, func(tx *db.Tx) error {
		claim, ok, err = s.ClaimTx(tx, runID)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return claim, ok, nil
}

const (
	opClaim    = "claim checkpoint"
	opRenew    = "renew claim"
	opComplete = "complete checkpoint"
)

const (
	sqlFindPaused = `SELECT c.id, c.checksum, c.problem, d.document,
    (SELECT id FROM checkpoints WHERE scope = c.scope AND run_id = c.run_id AND state = 'claimed') AS older
FROM checkpoints AS c JOIN checkpoint_documents AS d ON d.checkpoint = c.id
WHERE c.scope = ? AND c.run_id = ? AND c.state = 'paused'`
	// The claim: a state flips, in a row that the document is not part of. Two rows in one state violate UNIQUE.
	sqlClaim = `UPDATE checkpoints SET state = 'claimed', epoch = coalesce(epoch, id << 24) + 1, claimed_at = ?, owner_id = ?,
    lease_ttl = ?, lease_until = ?, lease_boot_id = ?
WHERE id = ? AND state = 'paused' RETURNING epoch`
	sqlDrop = `DELETE FROM checkpoints WHERE id = ? AND state = 'claimed'`
)

// paused is a waiting run as Claim needs it.
type paused struct {
	documents.Stored
	Older *int64 `db:"older"` // row of the claim that ends with this one
}

// ClaimTx is Claim inside a transaction. The claim holds once that is committed.
func (s *Store) ClaimTx(tx *db.Tx, runID string) (claim *Claim, ok bool, err error) {
	err = s.look(&tx.Rx, opClaim, runID, func(scope int64) error {
		claim, err = s.claim(tx, scope, runID)
		return err
	})
	return claim, err == nil && claim != nil, err
}

func (s *Store) claim(tx *db.Tx, scope int64, runID string) (*Claim, error) {
	var found paused
	ok, err := tx.Find(&found, sqlFindPaused, scope, runID)
	if err != nil || !ok {
		return nil, err
	}
	if err := found.Refusal(); err != nil {
		return nil, corrupt(err)
	}
	owner, err := tx.Owner()
	if err != nil {
		return nil, err
	}
	if found.Older != nil {
		if _, err := tx.Exec(sqlDrop, *found.Older); err != nil {
			return nil, err
		}
	}
	c := &Claim{RunID: runID, Owner: owner, ClaimedAt: tx.Now(), Document: found.Document, store: s}
	l := s.lease()
	return c, tx.Get(&c.Epoch, sqlClaim, db.Nanos(c.ClaimedAt), owner, l.ttl, l.until, l.boot, found.ID)
}

// lease is what a claim's row says of its end; all nil when only the death of its process ends it.
type lease struct {
	ttl   *int64
	until *int64
	boot  *string
}

func (s *Store) lease() lease {
	if s.ttl <= 0 {
		return lease{}
	}
	end := s.bootTime().Add(s.ttl)
	ttl, until := int64(s.ttl), int64(end.Since)
	return lease{&ttl, &until, &end.Boot}
}

// hold is what a claim's write must meet: a stale holder's finds no row.
const hold = `WHERE scope = ? AND run_id = ? AND state = 'claimed' AND epoch = ?`

const (
	sqlComplete = `DELETE FROM checkpoints ` + hold
	sqlRenew    = `UPDATE checkpoints SET lease_until = ?, lease_boot_id = ? ` + hold + ` AND lease_ttl IS NOT NULL`
	sqlHeld     = `SELECT count(*) FROM checkpoints ` + hold
)

// Complete says that the run was resumed to its next pause or its end: the claim is gone for good. What the run saved
// meanwhile waits on. A claim that was taken away is ErrLeaseLost, and so is one that was completed before.
func (c *Claim) Complete(ctx context.Context) error {
	return c.store.db.Write(ctx, opComplete, c.CompleteTx)
}

// CompleteTx is Complete inside a transaction: what else that holds is undone when the claim is lost.
func (c *Claim) CompleteTx(tx *db.Tx) error {
	return c.store.look(&tx.Rx, opComplete, c.RunID, func(scope int64) error {
		n, err := tx.Exec(sqlComplete, scope, c.RunID, c.Epoch)
		return c.lost(n, err)
	})
}

// Renew starts the time that Options.ClaimTTL gives anew. Without one it only makes sure that the claim is still held.
func (c *Claim) Renew(ctx context.Context) error {
	return c.store.db.Write(ctx, opRenew, c.RenewTx)
}

// RenewTx is Renew inside a transaction.
func (c *Claim) RenewTx(tx *db.Tx) error {
	return c.store.look(&tx.Rx, opRenew, c.RunID, func(scope int64) error {
		if l := c.store.lease(); l.ttl != nil {
			n, err := tx.Exec(sqlRenew, l.until, l.boot, scope, c.RunID, c.Epoch)
			return c.lost(n, err)
		}
		var n int64
		err := tx.Get(&n, sqlHeld, scope, c.RunID, c.Epoch)
		return c.lost(n, err)
	})
}

// lost is the error of a write under the claim that found no row.
func (c *Claim) lost(rows int64, err error) error {
	if err != nil || rows > 0 {
		return err
	}
	return &db.Error{
		Op: "use claim", Entity: "checkpoint", ID: c.RunID,
		Hint: "the run is with another claim, waits again, or is done; stop working on it",
		Err:  fmt.Errorf("%w: the claim with epoch %d is no longer held", db.ErrLeaseLost, c.Epoch),
	}
}

const (
	sqlFindClaim = `SELECT id, owner_id FROM checkpoints WHERE scope = ? AND run_id = ? AND state = 'claimed'`
	sqlEndOf     = `DELETE FROM checkpoints WHERE id = ? AND state = 'claimed' AND owner_id IS NOT DISTINCT FROM ?`
)

// CompleteTx is Complete inside a transaction.
func (s *Store) CompleteTx(tx *db.Tx, runID string) error {
	return s.look(&tx.Rx, opComplete, runID, func(scope int64) error {
		var found struct {
			ID    int64  `db:"id"`
			Owner *int64 `db:"owner_id"`
		}
		if ok, err := tx.Find(&found, sqlFindClaim, scope, runID); err != nil || !ok {
			return err
		}
		foreign, err := heldElsewhere(tx, found.Owner)
		if err != nil {
			return err
		}
		if foreign {
			return fmt.Errorf("%w: process %s holds the claim", db.ErrLeaseLost, processOf(tx, *found.Owner))
		}
		_, err = tx.Exec(sqlEndOf, found.ID, found.Owner)
		return err
	})
}

// heldElsewhere reports whether another process that lives holds a claim with this owner.
func heldElsewhere(tx *db.Tx, owner *int64) (bool, error) {
	if owner == nil {
		return false, nil
	}
	if own, err := tx.Owns(*owner); own || err != nil {
		return false, err
	}
	return tx.OwnerAlive(*owner)
}

// processOf names an owner for a person.
func processOf(tx *db.Tx, owner int64) string {
	var name string
	if ok, err := tx.Find(&name, `SELECT pid || ' (' || program || ')' FROM owners WHERE id = ?`, owner); err != nil || !ok {
		return fmt.Sprintf("number %d", owner)
	}
	return name
}
