package live

import (
	"context"
	"fmt"
	"strconv"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Run is a live run that this process holds by a lease: no other holder can take it, and writes
// of others and of a stale holder are refused. A mark, such as MarkCancelled, needs no lease and ends
// this one. Its methods are safe for concurrent use.
type Run struct {
	store    *Store
	id       string
	key      int64
	lease    *db.Lease
	borrowed bool // the lease is another store's, which releases it
}

// A Start describes the run that Begin adds.
type Start struct {
	ID        string // "" is a new id, "run-" and a UUID
	SessionID string
	Prompt    string // "" until an agent_start fills it in
}

// leaseKind is the kind of the leases of live runs. Their name is the run's key.
const leaseKind = "live run"

const (
	opBegin    = "begin live run"
	opResume   = "resume live run"
	opReattach = "reattach live run"
	opHeld     = "append to held live run"
	opEnd      = "end live run"
	opHold     = "hold live run"
	opRelease  = "release live run"
)

// Begin adds a run and holds it, on the terms of Options.Lease. db.ErrConflict: there is such a
// run; Resume holds one that is free.
func (s *Store) Begin(ctx context.Context, start Start) (r *Run, err error) {
	r, err = stores.TakeUp(ctx, stores.On(s.db, txn.LiveRuns).Write, opBegin,
		func(tx *db.Tx) (*Run, error) { return s.BeginTx(tx, start) })
	if err == nil {
		_ = s.dropLeftovers(ctx) // of a run that a cap removed; an error is not about this one
	}
	return r, err
}

// BeginTx is Begin inside the caller's transaction. The run is held once that commits.
func (s *Store) BeginTx(tx *db.Tx, start Start) (r *Run, err error) {
	if start.ID == "" {
		start.ID = newID()
	}
	reserved, err := s.ReserveRunWithIDTx(tx, start.ID, start.SessionID, start.Prompt)
	if err == nil && reserved.Existing {
		err = &db.Error{
			Op: opBegin, Entity: "live run", ID: start.ID, Hint: "use a new id, or take the run up with Resume",
			Err: fmt.Errorf("%w: there is such a run", db.ErrConflict),
		}
	}
	if err != nil {
		return nil, err
	}
	return s.hold(tx, opBegin, start.ID)
}

// Resume holds a free run, whatever its status: an agent may continue after an end.
// db.ErrNotFound: there is no such run. db.ErrConflict: it was cancelled, or is held.
func (s *Store) Resume(ctx context.Context, runID string) (r *Run, err error) {
	return stores.TakeUp(ctx, stores.On(s.db, txn.LiveRuns).Write, opResume,
		func(tx *db.Tx) (*Run, error) { return s.ResumeTx(tx, runID) })
}

// ResumeTx is Resume inside the caller's transaction. The run is held once that commits.
func (s *Store) ResumeTx(tx *db.Tx, runID string) (*Run, error) {
	return s.hold(tx, opResume, runID)
}

// HoldTx holds a free run under a lease that holds something else already, such as that of the run's
// trace (runs.Run.Lease): it ends with that lease. Release and End free the run and leave the lease to
// its owner. A run that the lease holds already, as after an unknown outcome, is held on. Errors are as
// for Resume, and db.ErrLeaseLost if the lease does not hold.
func (s *Store) HoldTx(tx *db.Tx, runID string, lease *db.Lease) (*Run, error) {
	err := s.inside(tx, opHold, runID, func(int64) error {
		if lease == nil {
			return txn.Invalid("give the lease of what holds the run too", "there is no lease")
		}
		return lease.HoldTx(tx)
	})
	if err != nil {
		return nil, err
	}
	r, err := s.holdWith(tx, opHold, runID, func(row *runRow) (*db.Lease, error) {
		if row.Epoch != nil && *row.Epoch == lease.Epoch() {
			return lease, nil
		}
		return lease, s.free(tx, opHold, row)
	})
	if err == nil {
		r.borrowed = true
	}
	return r, err
}

func (s *Store) hold(tx *db.Tx, op, runID string) (*Run, error) {
	return s.holdWith(tx, op, runID, func(row *runRow) (*db.Lease, error) {
		if err := s.free(tx, op, row); err != nil {
			return nil, err
		}
		lease, err := s.db.ReserveTx(tx, leaseKind, leaseName(row.Key),
			db.ReserveOptions{LeaseTerms: s.lease, Scope: s.scope, Note: runID})
		if err == nil {
			lease.Call(runID)
		}
		return lease, err
	})
}

// holdWith holds a run under the lease that take returns for its row, which is locked.
func (s *Store) holdWith(tx *db.Tx, op, runID string, take func(*runRow) (*db.Lease, error)) (r *Run,
	err error,
) {
	err = s.inside(tx, op, runID, func(scope int64) error {
		row, err := lockedRow(tx, op, scope, runID)
		if err == nil && RunStatus(row.Status) == Cancelled {
			err = fmt.Errorf("%w: it was cancelled", db.ErrConflict)
		}
		if err != nil {
			return err
		}
		lease, err := take(row)
		if err != nil {
			return err
		}
		r = &Run{store: s, id: runID, key: row.Key, lease: lease}
		_, err = tx.Exec(sqlHold, lease.Epoch(), row.Key)
		return err
	})
	return r, err
}

const (
	// The owner of a lease that outlives its process is NULL.
	sqlHold = `UPDATE live_runs SET epoch = ?1, owner_id = (SELECT owner_id FROM leases WHERE epoch = ?1)
	WHERE key = ?2`
	// Compare-and-set on the lease that was examined.
	sqlFree = `UPDATE live_runs SET epoch = NULL, owner_id = NULL WHERE key = ? AND epoch = ?`
)

// free returns db.ErrConflict, with the holder, if the run is held. It clears what a lease that is over
// left in the run's row, which is locked.
func (s *Store) free(tx *db.Tx, op string, row *runRow) error {
	if row.Epoch == nil {
		return nil
	}
	err := db.FreeTx(tx, s.scope, row.Epoch, db.Error{Op: op, Entity: "live run", ID: row.RunID})
	if err == nil {
		_, err = tx.Exec(sqlFree, row.Key, *row.Epoch)
		row.Epoch, row.Owner = nil, nil
	}
	return err
}

func leaseName(key int64) string { return strconv.FormatInt(key, 10) }

// Reattach returns the handle of a run that is held: by this process, after an unknown outcome of
// Begin, or detached, by any process. db.ErrLeaseLost: it is not held under that epoch.
func (s *Store) Reattach(ctx context.Context, runID string, epoch int64) (*Run, error) {
	at, err := stores.Get(ctx, s.db.Read, opReattach, func(rx *db.Rx) (at stores.Place, err error) {
		_, at, err = s.placeIn(rx, runID, "")
		return at, err
	})
	if err != nil {
		return nil, named(opReattach, runID, err)
	}
	lease, err := s.db.Reattach(ctx, s.scope, leaseKind, leaseName(at.Key), epoch)
	if err != nil {
		return nil, named(opReattach, runID, stores.ByID(err, leaseName(at.Key), runID))
	}
	lease.Call(runID)
	return &Run{store: s, id: runID, key: at.Key, lease: lease}, nil
}

// ID returns the run's id.
func (r *Run) ID() string { return r.id }

// Epoch returns the number of the lease, which grows with every holder of the run.
func (r *Run) Epoch() int64 { return r.lease.Epoch() }

// Keep renews the lease in the background; the context that it returns ends when the lease is lost.
// See [db.Lease.Keep].
func (r *Run) Keep(ctx context.Context) (kept context.Context, stop context.CancelFunc) {
	return r.lease.Keep(ctx)
}

// Append records events of the run. db.ErrLeaseLost: this handle no longer holds it, and nothing
// changed. After an unknown outcome, db.BatchOf returns the number for Batch.Repeat.
func (r *Run) Append(ctx context.Context, events ...Event) (Appended, error) {
	return r.AppendBatch(ctx, Batch{Events: events})
}

// AppendTx is Append inside the caller's transaction.
func (r *Run) AppendTx(tx *db.Tx, events ...Event) (Appended, error) {
	return r.AppendBatchTx(tx, Batch{Events: events})
}

// AppendBatch is Append for a batch with a key, or the number of an append whose outcome was unknown.
func (r *Run) AppendBatch(ctx context.Context, b Batch) (a Appended, err error) {
	return within(ctx, writing(r.store.db, b.Events), opHeld,
		func(tx *db.Tx) (Appended, error) { return r.AppendBatchTx(tx, b) })
}

// AppendBatchTx is AppendBatch inside the caller's transaction. db.ErrLeaseLost: another holder has the
// run, or it was removed or replaced.
func (r *Run) AppendBatchTx(tx *db.Tx, b Batch) (a Appended, err error) {
	err = r.locked(tx, opHeld, func(row *runRow, found bool) error {
		err := r.check(row, found)
		if err == nil {
			err = b.check()
		}
		if err == nil {
			a, err = r.store.appendTo(tx, row, b, true)
		}
		return err
	})
	return orZero(a, err)
}

// locked runs fn with the lease held and the run's row locked. Lock order: the lease of a trace, the
// run's row, the run's own lease.
func (r *Run) locked(tx *db.Tx, op string, fn func(row *runRow, found bool) error) error {
	return r.store.inside(tx, op, r.id, func(scope int64) (err error) {
		if r.borrowed {
			err = r.lease.HoldTx(tx)
		}
		if err != nil {
			return err
		}
		row, found, err := rowToChange(tx, runByID, scope, r.id)
		if err == nil && !r.borrowed {
			err = r.lease.HoldTx(tx)
		}
		if err == nil {
			err = fn(row, found)
		}
		return err
	})
}

// End records the run's last events, such as AgentEnd, and releases it. db.ErrLeaseLost is as for
// Append.
func (r *Run) End(ctx context.Context, events ...Event) error {
	return stores.On(r.store.db, txn.LiveRuns).End(ctx, opEnd,
		func(tx *db.Tx) error { return r.EndTx(tx, events...) })
}

// EndTx is End inside the caller's transaction.
func (r *Run) EndTx(tx *db.Tx, events ...Event) error {
	if _, err := r.AppendTx(tx, events...); err != nil {
		return err
	}
	return r.ReleaseTx(tx)
}

// Release releases the run as it is; Resume can hold it again.
func (r *Run) Release(ctx context.Context) error {
	return stores.On(r.store.db, txn.LiveRuns).End(ctx, opRelease, r.ReleaseTx)
}

// ReleaseTx is Release inside the caller's transaction.
func (r *Run) ReleaseTx(tx *db.Tx) error {
	return r.locked(tx, opRelease, func(row *runRow, found bool) error {
		var err error
		if r.borrowed {
			err = r.check(row, found)
		} else {
			err = r.lease.ReleaseTx(tx)
		}
		if err == nil {
			_, err = tx.Exec(sqlFree, r.key, r.Epoch())
		}
		return err
	})
}

// HoldTx returns db.ErrLeaseLost if this handle does not hold the run in tx. If it does, no other call
// can take the run away before tx ends.
func (r *Run) HoldTx(tx *db.Tx) error {
	return r.locked(tx, opHold, r.check)
}

// check returns db.ErrLeaseLost if the row, as it is now, is not held by this handle.
func (r *Run) check(row *runRow, found bool) error {
	switch {
	case !found || row.Key != r.key:
		return fmt.Errorf("%w: the run was removed or replaced", db.ErrLeaseLost)
	case row.Epoch == nil || *row.Epoch != r.Epoch():
		return fmt.Errorf("%w: the run was released, or is with another holder", db.ErrLeaseLost)
	}
	return nil
}
