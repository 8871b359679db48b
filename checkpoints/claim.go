package checkpoints

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Claim is a run that this process has taken to resume it. It ends when it is completed, released
// or removed, when its Options.ClaimTTL is over, when the process exits or closes the file, when
// this process calls RecoverOrphaned, and when the run's next pause is claimed. See [db.Handle] for
// what all leases do. Epochs grow with every claim on the run.
type Claim struct {
	*db.Handle
	store     *Store
	runID     string
	epoch     int64
	grant     *txn.Grant
	claimedAt time.Time
	document  []byte
}

// RunID is the run that is claimed.
func (c *Claim) RunID() string { return c.runID }

// ClaimedAt is when the claim was made, in UTC.
func (c *Claim) ClaimedAt() time.Time { return c.claimedAt }

// Document is the run's document, byte for byte as it was saved. It must not be changed.
func (c *Claim) Document() []byte { return c.document }

// Paused decodes the document.
func (c *Claim) Paused() (*PausedWorkflow, error) {
	p, err := Decode(c.document)
	if err != nil {
		return nil, failed("decode checkpoint", c.runID, corrupt(err))
	}
	return p, nil
}

// Claim takes the run that waits under the id, for this process to resume it. ok is false if none
// waits: there is no such run, or another call was faster. Of any number of calls, in any number of
// processes, one gets it. That ends an older claim on the run, from before it paused again.
//
// For a run with an unreadable document, Claim always returns ErrCorrupt, and the run stays. An
// imported run that the old program continued after it was changed here stays too: the error is
// ErrConflict until an operator decides with migrate imports resolve.
func (s *Store) Claim(ctx context.Context, runID string) (claim *Claim, ok bool, err error) {
	write := stores.On(s.db, txn.Checkpoints).Write
	return stores.Find(ctx, write, opClaim, func(tx *db.Tx) (*Claim, bool, error) {
		return s.claimBy(tx, runID, tx.Store().ExecAndCommit)
	})
}

const (
	opClaim    = "claim checkpoint"
	opComplete = "complete checkpoint"
	opRelease  = "release claim"
	opReattach = "reattach claim"
)

const (
	sqlContested = `(SELECT max(reason) FROM import_conflicts WHERE scope = c.scope AND kind = 'checkpoints'
		AND entity_id = c.run_id AND decided_at IS NULL)`
	sqlFindPaused = `SELECT c.id, coalesce(c.epoch, c.id << 24) + 1 AS next_epoch, %s AS drawn, c.changes,
	c.checksum, c.problem, d.document,
    (SELECT id FROM checkpoints WHERE ` + sameRun + ` AND state = 'claimed') AS older,
    ` + sqlContested + ` AS contested
FROM checkpoints AS c JOIN checkpoint_documents AS d ON d.checkpoint = c.id
WHERE ` + ofRun + ` AND state = 'paused'`
	// sameRun selects the rows of the run of row c.
	sameRun = `scope = c.scope AND run_id = c.run_id
	AND coalesce(agent_id, '') = coalesce(c.agent_id, '')`
	// A claim changes the state, in a row that does not hold the document. Two rows in one state
	// violate UNIQUE. A row that was added after the lock is not locked: it is claimed only if it is
	// unchanged since it was read.
	sqlClaim = `UPDATE checkpoints AS c SET state = 'claimed', epoch = ?, claimed_at = ?, owner_id = ?,
    lease_ttl = ?, lease_until = ?, lease_boot_id = ?, lease_time_ns = ?, lease_wall_until = ?,
    changes = changes + 1
WHERE id = ? AND state = 'paused' AND changes = ?`
	// sqlStillUncontested repeats on a server that no import was found to conflict before the pause was
	// locked.
	sqlStillUncontested = ` AND ` + sqlContested + ` IS NULL`
)

var (
	// A call that claims, removes a claim, or decides against one, locks or changes the rows of the
	// run: the pause first. A run has one row in each of these states.
	rowsOfRun = txn.Checkpoints.Rows(`SELECT id FROM checkpoints WHERE ` + ofRun + ` ORDER BY state DESC`)
	// A claim locks the pause alone. One that waited for another claim finds none, and locks nothing.
	pauseOfRun  = txn.Checkpoints.Rows(`SELECT id FROM checkpoints WHERE ` + ofRun + ` AND state = 'paused'`)
	claimOfRun  = txn.Checkpoints.Rows(`SELECT id FROM checkpoints WHERE ` + ofRun + ` AND state = 'claimed'`)
	stillPaused = txn.Checkpoints.Rows(
		`SELECT id FROM checkpoints WHERE id = ? AND state = 'paused' AND changes = ?`)
	claimToEnd  = txn.Checkpoints.Rows(sqlFindClaim)
	claimToTake = txn.Checkpoints.Rows(`SELECT id FROM checkpoints WHERE id = ? AND state = 'claimed'`)
)

// paused is a waiting run as Claim needs it.
type paused struct {
	stored
	Next      int64   `db:"next_epoch"` // the epoch after that of the last claim on the row
	Drawn     int64   `db:"drawn"`
	Changes   int64   `db:"changes"`
	Older     *int64  `db:"older"`     // row of the claim that ends with this one
	Contested *string `db:"contested"` // see Summary.Contested
}

// claimBits is the number of lower bits of an epoch, which number the claims on a row. The bits
// above them are the row's number.
const claimBits = 24

// claimsOfRow is the greatest number of a claim on a row.
const claimsOfRow = 1<<claimBits - 1

// epoch returns the epoch of the next claim on the row. Its lower bits are at least the distance
// from the row's number to the drawn number, so that the epoch of an undone claim is not used
// again. The distance wraps around after about eight million.
func (p *paused) epoch() int64 {
	return max(p.Next, p.ID<<claimBits+max(p.Drawn-p.ID, 0)%(claimsOfRow/2))
}

// ClaimTx is Claim inside a transaction. The claim holds once that is committed.
func (s *Store) ClaimTx(tx *db.Tx, runID string) (claim *Claim, ok bool, err error) {
	return s.claimBy(tx, runID, tx.Exec)
}

// A change executes a statement that may be the only change of the transaction.
type change = func(query string, args ...any) (int64, error)

func (s *Store) claimBy(tx *db.Tx, runID string, only change) (claim *Claim, ok bool, err error) {
	err = s.look(&tx.Rx, opClaim, runID, func(scope int64) error {
		for found := true; found && claim == nil && err == nil; { // until no other call interferes
			claim, found, err = s.claim(tx, scope, runID, only)
		}
		return err
	})
	return claim, err == nil && claim != nil, err
}

// claim claims the waiting run, if there is one. If the run was changed meanwhile, ok is true and c
// is nil.
func (s *Store) claim(tx *db.Tx, scope int64, runID string, only change) (c *Claim, ok bool, err error) {
	var found paused
	if ok, err := s.findPaused(tx, &found, scope, runID); err != nil || !ok {
		return nil, false, err
	}
	if err := found.refusal(); err != nil {
		return nil, true, corrupt(err)
	}
	if found.Contested != nil {
		return nil, true, &db.Error{
			Op: opClaim, Entity: "checkpoint", ID: runID, Err: fmt.Errorf("%w: %s", db.ErrConflict, *found.Contested),
			Hint: "decide whose version counts: migrate imports resolve, with --take old or --take ours",
		}
	}
	lease, err := tx.Store().GrantLease(txn.LeaseTerms{TTL: s.ttl})
	if err != nil {
		return nil, true, err
	}
	if found.Older != nil {
		// The older claim ends only for a pause that stays: one added after the lock may be removed
		// again.
		ok, err := tx.Store().FindToChange(new(int64), stillPaused, found.ID, found.Changes)
		if err != nil || !ok {
			return nil, true, err
		}
		ok, err = end(tx, *found.Older, Superseded, Decision{}, sqlRemoveClaim, *found.Older)
		if err != nil || !ok {
			return nil, true, err
		}
	}
	c = &Claim{store: s, runID: runID, epoch: found.epoch(), claimedAt: tx.Now(), document: found.Document}
	args := append([]any{c.epoch, db.Nanos(c.claimedAt)}, lease.Values()...)
	if c.grant, err = tx.Store().Grant("checkpoints", found.ID+c.epoch&claimsOfRow+1); err != nil {
		return nil, true, err
	}
	query := sqlClaim
	if !tx.Store().SingleWriter() {
		query += sqlStillUncontested
	}
	if n, err := only(query, append(args, found.ID, found.Changes)...); err != nil || n == 0 {
		return nil, true, err
	}
	return c.handle(&tx.Rx, lease), true, nil
}

// findPaused finds the run's pause, and locks it. Most claims of a run come too late: on a server such a
// claim is over after the look, before the transaction begins. A pause that it finds is claimed only if it
// is unchanged once it is locked.
func (s *Store) findPaused(tx *db.Tx, found *paused, scope int64, runID string) (ok bool, err error) {
	key := s.key(scope, runID)
	deferred, begin := tx.Store().DeferBegin()
	defer begin()
	if !deferred {
		err = tx.Store().WillChange(pauseOfRun, key...)
	}
	if err == nil {
		// The query also draws the number that distinguishes a claim from one that was undone.
		ok, err = tx.Find(found, fmt.Sprintf(sqlFindPaused, tx.Store().Drawing("checkpoints", "id")), key...)
	}
	switch {
	case err != nil:
	case !ok:
		err = s.otherAgent(&tx.Rx, scope, runID)
	case deferred:
		begin()
		err = tx.Store().WillChange(pauseOfRun, key...)
	}
	return ok, err
}

// handle completes a claim with the columns that were granted or read in rx.
func (c *Claim) handle(rx *db.Rx, lease txn.LeaseColumns) *Claim {
	c.Handle = c.store.db.NewHandle(rx.Store(), db.Leased{
		Noun: "claim", Epoch: c.epoch, Row: claimOfRun, Key: c.key, Renew: c.renew,
		Held: func(rx *db.Rx, op string, clock func() db.BootTime) (txn.LeaseColumns, error) {
			row, err := c.held(rx, op, clock)
			return row.LeaseColumns, err
		},
		Named: func(op string, err error) error { return failed(op, c.runID, err) },
	}, lease)
	return c
}

// claimed is a claim without its document.
type claimed struct {
	ID          int64   `db:"id"`
	RunID       string  `db:"run_id"`
	AgentID     string  `db:"agent"` // "": none was named
	Epoch       *int64  `db:"epoch"` // NULL: it was imported
	ClaimedAt   int64   `db:"claimed_at"`
	Problem     *string `db:"problem"`
	PausedAgain bool    `db:"paused_again"`
	txn.LeaseColumns
}

const (
	sqlClaims = `SELECT id, run_id, coalesce(agent_id, '') AS agent, epoch, claimed_at, problem,
	` + txn.LeaseColumnNames + `,
    EXISTS (SELECT 1 FROM checkpoints WHERE ` + sameRun + ` AND state = 'paused') AS paused_again
FROM checkpoints AS c WHERE state = 'claimed'`
	sqlClaimOf = sqlClaims + ` AND ` + ofRun

	// asJudged matches only the claim that was examined: neither a later one nor one that was renewed
	// since.
	asJudged = ` WHERE id = ? AND state = 'claimed' AND epoch IS NOT DISTINCT FROM ?
		AND lease_until IS NOT DISTINCT FROM ?`
	sqlEndClaim = `DELETE FROM checkpoints` + asJudged
	sqlRearm    = `UPDATE checkpoints
	SET state = 'paused', claimed_at = NULL, owner_id = NULL, lease_ttl = NULL, lease_until = NULL,
    lease_boot_id = NULL, lease_time_ns = NULL, lease_wall_until = NULL, changes = changes + 1` + asJudged
	sqlRenew = `UPDATE checkpoints SET lease_until = ?, lease_boot_id = ?, lease_time_ns = ?,
		lease_wall_until = ?` + asJudged
)

// end ends the claim for good, and records it in the history.
func (c *claimed) end(tx *db.Tx, ending Ending, d Decision) (bool, error) {
	return end(tx, c.ID, ending, d, sqlEndClaim, c.ID, c.Epoch, c.Until)
}

// rearm makes the run wait again. If it paused again meanwhile, it waits already.
func (c *claimed) rearm(tx *db.Tx) (bool, error) {
	if c.PausedAgain {
		return c.end(tx, Superseded, Decision{})
	}
	n, err := tx.Exec(sqlRearm, c.ID, c.Epoch, c.Until)
	return n > 0, err
}

// held returns the claim's row if the claim holds, else ErrLeaseLost. The clock is read after the
// row.
func (c *Claim) held(rx *db.Rx, op string, clock func() db.BootTime) (row claimed, err error) {
	holds := false
	err = c.store.look(rx, op, c.runID, func(scope int64) error {
		ok, err := rx.Find(&row, sqlClaimOf, c.store.key(scope, c.runID)...)
		if clock(); err == nil && ok && row.Epoch != nil && *row.Epoch == c.epoch && !c.grant.Undone() {
			holds, err = rx.Store().HoldsLease(row.LeaseColumns)
		}
		return err
	})
	if err == nil && !holds {
		err = c.lost()
	}
	return row, err
}

func (c *Claim) key(rx *db.Rx) (key []any, err error) {
	err = c.store.inScope(rx, func(scope int64) error {
		key = c.store.key(scope, c.runID)
		return nil
	})
	return key, err
}

func (c *Claim) renew(tx *db.Tx, exec change, was, now txn.LeaseColumns) error {
	n, err := exec(sqlRenew, now.Until, now.Boot, now.TimeNS, now.WallUntil, c.epoch>>claimBits,
		c.epoch, was.Until)
	if err == nil && n == 0 {
		err = c.lost()
	}
	return err
}

// under runs fn on the claim's row if the claim holds; fn reports whether it found the row
// unchanged. The rows of the run are locked, and the clock is read after that: no other call can
// renew the claim any more, so one that was reported over stays over.
func (c *Claim) under(tx *db.Tx, op string, fn func(*claimed) (bool, error)) error {
	err := c.store.look(&tx.Rx, op, c.runID, func(scope int64) error {
		return tx.Store().WillTake(rowsOfRun, c.store.key(scope, c.runID)...)
	})
	var row claimed
	if err == nil {
		row, err = c.held(&tx.Rx, op, tx.Store().ReadBootTime)
	}
	if err != nil {
		return err
	}
	ok, err := fn(&row)
	if err == nil && !ok {
		err = c.lost()
	}
	return failed(op, c.runID, err)
}

// lost is the error of a call under the claim after it ended.
func (c *Claim) lost() error {
	return &db.Error{
		Op: "use claim", Entity: "checkpoint", ID: c.runID,
		Hint: "the run is with another claim, waits again, or is done; stop working on it",
		Err:  fmt.Errorf("%w: the claim with epoch %d is no longer held", db.ErrLeaseLost, c.epoch),
	}
}

// Complete ends the claim because the run was resumed to its next pause or its end. The claim moves
// to the history. A pause that the run saved meanwhile still waits. If the claim has ended already,
// the error is ErrLeaseLost: it was taken away, completed before, or its time is over.
func (c *Claim) Complete(ctx context.Context) error { return c.Decide(ctx, Decision{}) }

// CompleteTx is Complete inside a transaction. If the claim is lost, return the error, so that the
// transaction is rolled back.
func (c *Claim) CompleteTx(tx *db.Tx) error { return c.DecideTx(tx, Decision{}) }

// Decide is Complete with the decision, for the history.
func (c *Claim) Decide(ctx context.Context, d Decision) error {
	return stores.On(c.store.db, txn.Checkpoints).End(ctx, opComplete, stores.With(c.DecideTx, d))
}

// DecideTx is Decide inside a transaction.
func (c *Claim) DecideTx(tx *db.Tx, d Decision) error {
	return c.under(tx, opComplete, func(row *claimed) (bool, error) { return row.end(tx, Completed, d) })
}

// Release ends the claim without a resume: the run waits again.
func (c *Claim) Release(ctx context.Context) error {
	return stores.On(c.store.db, txn.Checkpoints).End(ctx, opRelease, c.ReleaseTx)
}

// ReleaseTx is Release inside a transaction.
func (c *Claim) ReleaseTx(tx *db.Tx) error {
	return c.under(tx, opRelease, func(row *claimed) (bool, error) { return row.rearm(tx) })
}

// Reattach returns the handle of a claim that this process made, after an unknown outcome. For any
// other claim, and one that has ended, the error is ErrLeaseLost. A process that has closed the
// file has released what it held.
func (s *Store) Reattach(ctx context.Context, runID string, epoch int64) (*Claim, error) {
	return stores.Get(ctx, s.db.Read, opReattach, stores.Bind2(s.ReattachTx, runID, epoch))
}

// ReattachTx is Reattach inside a transaction.
func (s *Store) ReattachTx(rx *db.Rx, runID string, epoch int64) (*Claim, error) {
	c := &Claim{store: s, runID: runID, epoch: epoch}
	row, err := c.held(rx, opReattach, rx.Store().BootTime)
	if err == nil {
		c.claimedAt = db.Time(row.ClaimedAt)
		err = rx.Get(&c.document, sqlDocument, row.ID)
	}
	if err != nil {
		return nil, failed(opReattach, runID, err)
	}
	return c.handle(rx, row.LeaseColumns), nil
}

const sqlDocument = `SELECT document FROM checkpoint_documents WHERE checkpoint = ?`

const (
	sqlFindClaim   = `SELECT id, owner_id FROM checkpoints WHERE ` + ofRun + ` AND state = 'claimed'`
	sqlProcess     = `SELECT pid || ' (' || program || ')' FROM owners WHERE id = ?`
	sqlRemoveClaim = `DELETE FROM checkpoints WHERE id = ? AND state = 'claimed'`
)

// CompleteTx is Complete inside a transaction.
func (s *Store) CompleteTx(tx *db.Tx, runID string) error {
	return s.look(&tx.Rx, opComplete, runID, func(scope int64) error {
		var found struct {
			ID    int64  `db:"id"`
			Owner *int64 `db:"owner_id"`
		}
		if ok, err := tx.Store().FindToChange(&found, claimToEnd, s.key(scope, runID)...); err != nil {
			return err
		} else if !ok {
			return s.otherAgent(&tx.Rx, scope, runID)
		}
		if foreign, err := stores.IsOthers(&tx.Rx, found.Owner); err != nil {
			return err
		} else if foreign {
			var process string
			err := tx.Get(&process, sqlProcess, *found.Owner)
			return cmp.Or(err, fmt.Errorf("%w: process %s holds the claim", db.ErrLeaseLost, process))
		}
		_, err := end(tx, found.ID, Completed, Decision{}, sqlRemoveClaim, found.ID)
		return err
	})
}
