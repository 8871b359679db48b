package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Run is an open run that this process holds by a lease. No other holder can take it, and writes
// of a stale holder are refused. Its methods are safe for concurrent use.
type Run struct {
	store *Store
	ref   RunRef
	lease *db.Lease
}

// leaseKind is the kind of the leases of runs. Their name is the run's key.
const leaseKind = "run"

const (
	opBegin  = "begin run"
	opResume = "resume run"
	opHeld   = "append to held run"
	opEnd    = "end run"
)

// BeginOptions are the options of Begin. The zero value is the default.
type BeginOptions struct {
	// Parent is as in Batch.
	Parent RunRef
	// Key makes Begin idempotent, as in Batch: a second Begin with the same key and record holds the
	// same run. If this process holds it already, under the same lease. "" means no key.
	Key string
}

// Begin starts a run and holds it, on the terms of Options.Lease. ErrConflict: the run exists
// already; Resume holds one that is free. ErrInvalid: the run id is empty.
func (s *Store) Begin(ctx context.Context, started Started, o BeginOptions) (r *Run, err error) {
	return stores.TakeUp(ctx, stores.On(s.db, txn.Runs).Write, opBegin,
		func(tx *db.Tx) (*Run, error) { return s.BeginTx(tx, started, o) })
}

// BeginTx is Begin inside a transaction. The run is held once that commits.
func (s *Store) BeginTx(tx *db.Tx, started Started, o BeginOptions) (*Run, error) {
	ref := RunRef{AgentID: started.AgentID, RunID: started.RunID}
	if ref.RunID == "" {
		return nil, ref.failed(opBegin, txn.Invalid("give the run an id", "the run id is empty"))
	}
	b := Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: []Record{started}, Key: o.Key, Parent: o.Parent}
	p, err := s.prepareIn(tx, b)
	repeated := false
	if err == nil {
		p.begins = true
		repeated, err = p.append(tx, s, tx.Exec)
	}
	if errors.Is(err, errExists) {
		return s.beginAgain(tx, p)
	}
	if err == nil && repeated {
		err = ref.failed(opBegin, fmt.Errorf("%w: a run that was begun under this key was removed", db.ErrConflict))
	}
	if err != nil {
		return nil, err
	}
	return s.hold(tx, opBegin, ref)
}

// beginAgain is BeginTx for a run that exists: it must have been begun under the same key.
func (s *Store) beginAgain(tx *db.Tx, p prepared) (*Run, error) {
	row, err := s.findLocked(tx, opBegin, p.ref)
	var digest []byte
	known := false
	if err == nil && p.Key != "" {
		known, err = tx.Find(&digest, sqlFindKey, row.Key, p.Key)
	}
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, &db.Error{
			Op: opBegin, Entity: "run", ID: p.RunID, Hint: "use a new id, or take the run up with Resume",
			Err: errExists,
		}
	}
	if err := p.repeated(digest); err != nil {
		return nil, err
	}
	if row.Epoch != nil {
		lease, err := s.db.ReattachTx(&tx.Rx, s.scope, leaseKind, leaseName(row.Key), *row.Epoch)
		if err == nil {
			return s.handle(p.ref, lease), nil
		}
		if !errors.Is(err, db.ErrLeaseLost) {
			return nil, p.ref.failed(opBegin, err)
		}
	}
	return s.ResumeTx(tx, p.ref)
}

// Resume holds a free run. A run that was not held belongs to the process that wrote to it: it must
// be this one or dead. The run must be open, or ended as incomplete: then it stays incomplete until it
// is ended again, and its trace continues after that end. ErrNotFound: the run does not exist.
// ErrConflict: it was completed or cancelled, or another holder or process has it.
func (s *Store) Resume(ctx context.Context, run RunRef) (r *Run, err error) {
	return stores.TakeUp(ctx, stores.On(s.db, txn.Runs).Write, opResume,
		func(tx *db.Tx) (*Run, error) { return s.ResumeTx(tx, run) })
}

const (
	// Compare-and-set on the owner that was examined.
	sqlTakeOver = `UPDATE runs SET owner_id = ? WHERE key = ? AND ended_at IS NULL
	AND owner_id IS NOT DISTINCT FROM ?`
	sqlSetEpoch = `UPDATE runs SET epoch = ? WHERE key = ?`
	// Compare-and-set on the lease that was examined. Its holder does not own the run any more.
	sqlFree = `UPDATE runs SET epoch = NULL, owner_id = NULL WHERE key = ? AND epoch = ?`
)

// ResumeTx is Resume inside a transaction. The run is held once that commits.
func (s *Store) ResumeTx(tx *db.Tx, run RunRef) (*Run, error) {
	row, err := s.findLocked(tx, opResume, run)
	switch {
	case err != nil:
		return nil, err
	case row.EndedAt != nil && row.Status != string(StatusIncomplete):
		return nil, &db.Error{
			Op: opResume, Entity: "run", ID: run.RunID,
			Hint: "begin a new run: only what is open or incomplete can be taken up",
			Err:  fmt.Errorf("%w: it is %s", db.ErrConflict, row.Status),
		}
	}
	if err := s.free(tx, opResume, run, &row); err != nil {
		return nil, err
	}
	others, err := stores.IsOthers(&tx.Rx, row.OwnerID)
	if err == nil && others {
		err = fmt.Errorf("%w: another process that lives writes to it", db.ErrConflict)
	}
	if err != nil {
		return nil, run.failed(opResume, err)
	}
	if row.EndedAt == nil {
		owner, err := tx.Store().Owner()
		if err == nil {
			var n int64
			if n, err = tx.Exec(sqlTakeOver, owner, row.Key, row.OwnerID); err == nil && n == 0 {
				err = fmt.Errorf("%w: somebody else took it meanwhile", db.ErrConflict)
			}
		}
		if err != nil {
			return nil, run.failed(opResume, err)
		}
	}
	return s.hold(tx, opResume, run)
}

// free returns ErrConflict, with the holder, if the run is held. It clears what a lease that is over
// left in the run's row, which is locked.
func (s *Store) free(tx *db.Tx, op string, ref RunRef, run *runRow) error {
	if run.Epoch == nil {
		return nil
	}
	err := db.FreeTx(tx, s.scope, run.Epoch, db.Error{Op: op, Entity: "run", ID: ref.RunID})
	if err == nil {
		_, err = tx.Exec(sqlFree, run.Key, *run.Epoch)
		run.Epoch, run.OwnerID = nil, nil
	}
	return err
}

func (s *Store) hold(tx *db.Tx, op string, run RunRef) (*Run, error) {
	key, _, err := s.find(&tx.Rx, run)
	if err != nil {
		return nil, run.failed(op, err)
	}
	lease, err := s.db.ReserveTx(tx, leaseKind, leaseName(key), db.ReserveOptions{
		LeaseTerms: s.lease, Scope: s.scope, Note: run.AgentID + " / " + run.RunID,
	})
	if err == nil {
		_, err = tx.Exec(sqlSetEpoch, lease.Epoch(), key)
	}
	if err == nil {
		_, err = tx.Exec(sqlHeld, key, heldDigest[:], txn.Checksum(heldKey, heldDigest[:]))
	}
	if err != nil {
		return nil, run.failed(op, err)
	}
	return s.handle(run, lease), nil
}

func (s *Store) handle(run RunRef, lease *db.Lease) *Run {
	lease.Call(run.RunID)
	return &Run{store: s, ref: run, lease: lease}
}

// heldKey marks a run that was held once. It is stored among the keys of the run's appends, none of
// which is empty.
const heldKey = ""

var heldDigest = sha256.Sum256(nil) // of no lines

const sqlHeld = `INSERT INTO run_append_keys (run, append_key, digest, checksum) VALUES (?, '` + heldKey +
	`', ?, ?) ON CONFLICT DO NOTHING`

// Reattach returns the handle of a run that is held already: by this process, after an unknown
// outcome of Begin, or detached, by any process. ErrLeaseLost: the run is not held under that
// epoch.
func (s *Store) Reattach(ctx context.Context, run RunRef, epoch int64) (*Run, error) {
	const op = "reattach run"
	at, err := stores.Get(ctx, s.db.Read, op, stores.Bind2(s.placeIn, run, ""))
	if err != nil {
		return nil, run.failed(op, err)
	}
	lease, err := s.db.Reattach(ctx, s.scope, leaseKind, leaseName(at.Key), epoch)
	if err != nil {
		return nil, run.failed(op, stores.ByID(err, leaseName(at.Key), run.RunID))
	}
	return s.handle(run, lease), nil
}

// Ref returns the name of the run.
func (r *Run) Ref() RunRef { return r.ref }

// Epoch returns the number of the lease, which grows with every holder of the run.
func (r *Run) Epoch() int64 { return r.lease.Epoch() }

// Lease returns the lease of the run. What else belongs to the run can be held by it too: see
// live.Store.HoldTx.
func (r *Run) Lease() *db.Lease { return r.lease }

// HoldTx returns ErrLeaseLost if this handle does not hold the run in tx. If it does, no other call can
// take the run away before tx ends.
func (r *Run) HoldTx(tx *db.Tx) error {
	_, err := r.lock(tx)
	if err == nil {
		err = r.lease.HoldTx(tx)
	}
	return err
}

// Keep renews the lease in the background; the context that it returns ends when the lease is lost.
// See [db.Lease.Keep].
func (r *Run) Keep(ctx context.Context) (kept context.Context, stop context.CancelFunc) {
	return r.lease.Keep(ctx)
}

// Append adds records to the run. ErrLeaseLost: this handle no longer holds the run, and nothing
// changed. ErrConflict: the run has ended. After an unknown outcome, db.BatchOf returns the number for
// Batch.Repeat.
func (r *Run) Append(ctx context.Context, records ...Record) error {
	_, err := r.AppendBatch(ctx, Batch{Records: records})
	return err
}

// AppendTx is Append inside a transaction.
func (r *Run) AppendTx(tx *db.Tx, records ...Record) error {
	_, err := r.AppendBatchTx(tx, Batch{Records: records})
	return err
}

// AppendBatch is Append for a batch with a key, a parent, or the number of an append whose outcome was
// unknown. The ids of the batch may be empty; those of another run are ErrInvalid.
func (r *Run) AppendBatch(ctx context.Context, b Batch) (repeated bool, err error) {
	err = writing(b.Records)(stores.On(r.store.db, txn.Runs), ctx, opHeld, func(tx *db.Tx) (err error) {
		repeated, err = r.AppendBatchTx(tx, b)
		return err
	})
	return repeated && err == nil, err
}

// AppendBatchTx is AppendBatch inside a transaction.
func (r *Run) AppendBatchTx(tx *db.Tx, b Batch) (repeated bool, err error) {
	b.AgentID, b.RunID = cmp.Or(b.AgentID, r.ref.AgentID), cmp.Or(b.RunID, r.ref.RunID)
	if of := (RunRef{AgentID: b.AgentID, RunID: b.RunID}); of != r.ref {
		return false, r.ref.failed(opHeld, txn.Invalid("leave the ids of the batch empty",
			"the batch is for run %q of agent %q", of.RunID, of.AgentID))
	}
	if err := r.HoldTx(tx); err != nil {
		return false, err
	}
	return r.store.appendTx(tx, b, r.Epoch())
}

// lock locks the run's row. Lock order: the run's row, then the lease's.
func (r *Run) lock(tx *db.Tx) (scope int64, err error) {
	scope, ok, err := r.store.scopeIn(&tx.Rx)
	if err == nil && ok {
		err = tx.Store().WillChange(keyByName, scope, r.ref.RunID, r.ref.AgentID)
	}
	return scope, err
}

// End ends the run, at the time of the transaction, and releases it. ErrLeaseLost is as for Append.
func (r *Run) End(ctx context.Context, t Termination) error {
	return stores.On(r.store.db, txn.Runs).End(ctx, opEnd, func(tx *db.Tx) error { return r.EndTx(tx, t) })
}

// EndTx is End inside a transaction.
func (r *Run) EndTx(tx *db.Tx, t Termination) error {
	if err := r.AppendTx(tx, Ended{RunID: r.ref.RunID, AgentID: r.ref.AgentID, Termination: t}); err != nil {
		return err
	}
	return r.ReleaseTx(tx)
}

// Release releases the run and leaves it open; Resume can hold it again.
func (r *Run) Release(ctx context.Context) error {
	return stores.On(r.store.db, txn.Runs).End(ctx, "release run", r.ReleaseTx)
}

const sqlRelease = `UPDATE runs SET epoch = NULL, owner_id = NULL
	WHERE scope = ? AND run_id = ? AND agent_id = ? AND epoch = ? RETURNING key`

// ReleaseTx is Release inside a transaction.
func (r *Run) ReleaseTx(tx *db.Tx) error {
	scope, err := r.lock(tx)
	if err == nil {
		err = r.lease.ReleaseTx(tx)
	}
	if err == nil {
		var key int64 // by which a server tells followers
		_, err = tx.Find(&key, sqlRelease, scope, r.ref.RunID, r.ref.AgentID, r.Epoch())
	}
	return err
}

func leaseName(key int64) string { return strconv.FormatInt(key, 10) }
