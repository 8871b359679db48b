package agents

import (
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Lease is a reservation with an end: by its time, by Release, by a change of the agent's status,
// and, unless it is detached, with its process. See [db.Handle] for what all leases do. Epochs grow
// with every reservation, of any thread.
type Lease struct {
	*db.Handle
	registry   *Registry
	id, thread string
	epoch      int64
	grant      *txn.Grant
}

// SessionID is the id of the entry that holds the thread.
func (l *Lease) SessionID() string { return l.id }

// Thread is the thread that the lease holds.
func (l *Lease) Thread() string { return l.thread }

// handle completes a lease with the columns that were granted or read in rx.
func (l *Lease) handle(rx *db.Rx, c txn.LeaseColumns) *Lease {
	l.Handle = l.registry.db.NewHandle(rx.Store(), db.Leased{
		Noun: "lease", Epoch: l.epoch, Row: reservation, Held: l.held, Renew: l.beat,
		Key:   func(rx *db.Rx) ([]any, error) { return l.registry.reservationKey(rx, l.thread) },
		Named: func(op string, err error) error { return named(op, l.id, err) },
	}, c)
	return l
}

const opLease = "lease thread"

// TryLeaseThread is TryReserveThread with a lease. Its terms need a TTL. A detached lease is for
// programs that reserve a thread for another program and exit. It also ends with the entry's
// process, if the pid is known. The lease is nil if another agent has the thread.
func (r *Registry) TryLeaseThread(ctx context.Context, thread string, o db.LeaseTerms,
	build Builder,
) (*Lease, ReserveOutcome, error) {
	a, err := r.try(ctx, txn.AgentReservations, opLease, func(tx *db.Tx) (attempt, error) {
		return r.attempt(tx, opLease, thread, &o, build)
	})
	return a.lease, a.outcome, err
}

// TryLeaseThreadTx is TryLeaseThread inside a transaction; the lease holds once that is committed.
// If build fails and the caller commits nevertheless, the entries that it put aside or abandoned
// stay so.
func (r *Registry) TryLeaseThreadTx(tx *db.Tx, thread string, o db.LeaseTerms, build Builder) (*Lease,
	ReserveOutcome, error,
) {
	a, err := r.attempt(tx, opLease, thread, &o, build)
	a, err = a.end(opLease, err)
	return a.lease, a.outcome, err
}

// Reattach returns the handle of an existing lease: one of this process, after an unknown outcome,
// or a detached one of any process. For any other lease, and one that is over, the error is
// db.ErrLeaseLost. A process that has closed the file has released what it held.
func (r *Registry) Reattach(ctx context.Context, id, thread string, epoch int64) (*Lease, error) {
	return stores.Get(ctx, r.db.Read, opReattach, func(rx *db.Rx) (*Lease, error) {
		return r.ReattachTx(rx, id, thread, epoch)
	})
}

const opReattach = "reattach lease"

// ReattachTx is Reattach inside a transaction.
func (r *Registry) ReattachTx(rx *db.Rx, id, thread string, epoch int64) (*Lease, error) {
	l := &Lease{registry: r, id: id, thread: thread, epoch: epoch}
	columns, err := l.held(rx, opReattach, rx.Store().BootTime)
	if err != nil {
		return nil, err
	}
	return l.handle(rx, columns), nil
}

var (
	sqlHeld = `SELECT r.epoch, r.pid_born_at, a.id, a.session_id, a.status, a.pid, a.pid_ns, a.boot_id,
	` + sqlLease + `
FROM agent_reservations r JOIN agents a ON a.id = r.agent_id WHERE r.scope = ?1
	AND ` + paging.Same("r.thread", "?2")
	reservation = txn.AgentReservations.Rows(`SELECT epoch FROM agent_reservations WHERE scope = ?1 AND ` +
		paging.Same("thread", "?2"))
	sqlHeartbeat = `UPDATE agent_reservations
	SET heartbeat_at = ?, lease_until = ?, lease_boot_id = ?, lease_time_ns = ?, lease_wall_until = ?
WHERE epoch = ? AND lease_until IS NOT DISTINCT FROM ?`
)

// held returns the columns of the lease if it holds, else db.ErrLeaseLost. The clock is read after
// the row.
func (l *Lease) held(rx *db.Rx, op string, clock func() db.BootTime) (txn.LeaseColumns, error) {
	var w stored
	holds := false
	err := l.registry.readTx(rx, op, l.id, func(scope int64) error {
		ok, err := rx.Find(&w, sqlHeld, scope, l.thread)
		if clock(); err == nil && ok {
			holds, err = l.heldBy(rx, &w)
		}
		return err
	})
	if err == nil && !holds {
		err = named(op, l.id, l.lost())
	}
	return w.LeaseColumns, err
}

// heldBy reports whether the lease holds, judged by a row.
func (l *Lease) heldBy(rx *db.Rx, w *stored) (bool, error) {
	if w.Epoch == nil || *w.Epoch != l.epoch || w.SessionID != l.id || w.TTL == nil || l.grant.Undone() {
		return false, nil
	}
	if holds, err := rx.Store().HoldsLease(w.LeaseColumns); err != nil || !holds {
		return false, err
	}
	judged, err := liveness(rx, w) // what was reported as dead stays dead
	return judged == Alive, err
}

// reservationKey returns the arguments of the row of a thread's reservation. A call that takes the
// thread away deletes that row.
func (r *Registry) reservationKey(rx *db.Rx, thread string) ([]any, error) {
	scope, ok, err := stores.Scope(rx, r.db, r.scope)
	if err != nil || !ok {
		return nil, err
	}
	return []any{scope, thread}, nil
}

// lockReservation locks the row of a thread's reservation.
func (r *Registry) lockReservation(tx *db.Tx, thread string) error {
	key, err := r.reservationKey(&tx.Rx, thread)
	if err == nil && key != nil {
		err = tx.Store().WillChange(reservation, key...)
	}
	return err
}

// own locks the reservation and then checks that the lease holds, so that no renewal comes between.
// The clock is read once the row is locked.
func (l *Lease) own(tx *db.Tx, op string) error {
	err := l.registry.lockReservation(tx, l.thread)
	if err == nil {
		_, err = l.held(&tx.Rx, op, tx.Store().ReadBootTime)
	}
	return err
}

func (l *Lease) lost() error {
	return fmt.Errorf("%w: epoch %d of thread '%s'", db.ErrLeaseLost, l.epoch, l.thread)
}

// beat renews the lease; its time is the entry's heartbeat and last progress.
func (l *Lease) beat(tx *db.Tx, exec func(query string, args ...any) (int64, error),
	was, now txn.LeaseColumns,
) error {
	n, err := exec(sqlHeartbeat, db.Nanos(tx.Now()), now.Until, now.Boot, now.TimeNS, now.WallUntil, l.epoch,
		was.Until)
	if err == nil && n == 0 {
		err = l.lost()
	}
	return err
}

// Update is UpdateEntry under the lease.
func (l *Lease) Update(ctx context.Context, update func(*Entry)) (Entry, error) {
	return stores.Get(ctx, stores.On(l.registry.db, txn.Agents).Write, opUpdate, stores.Bind(l.UpdateTx, update))
}

// UpdateTx is Update inside a transaction.
func (l *Lease) UpdateTx(tx *db.Tx, update func(*Entry)) (e Entry, err error) {
	holds := false
	err = l.registry.changeTx(tx, opUpdate, l.id, func(scope int64, s *stored) (err error) {
		if s.Thread == l.thread {
			holds, err = l.heldBy(&tx.Rx, s)
		}
		if holds && err == nil {
			e, err = change(tx, scope, s, update, l)
		}
		return err
	})
	if err == nil && !holds {
		err = named(opUpdate, l.id, l.lost())
	}
	return e, err
}

// LogContextQuery is [Registry.LogContextQuery] under the lease.
func (l *Lease) LogContextQuery(ctx context.Context, q ContextQuery) error {
	return stores.On(l.registry.db, txn.Agents).Write(ctx, opLogQuery, stores.With(l.LogContextQueryTx, q))
}

// LogContextQueryTx is LogContextQuery inside a transaction.
func (l *Lease) LogContextQueryTx(tx *db.Tx, q ContextQuery) error {
	return l.registry.logQuery(tx, l.id, q, func() error { return l.own(tx, "hold lease") })
}

const opRelease = "release thread"

// Release ends the agent with the status Complete, Abandoned or Merged, and frees the thread.
func (l *Lease) Release(ctx context.Context, status Status) error {
	return stores.On(l.registry.db, txn.Agents).End(ctx, opRelease, stores.With(l.ReleaseTx, status))
}

// ReleaseTx is Release inside a transaction.
func (l *Lease) ReleaseTx(tx *db.Tx, status Status) error {
	return l.registry.writeTx(tx, opRelease, l.id, func(scope int64) error {
		if status == Active {
			return invalid("release with Complete, Abandoned or Merged",
				"an agent that releases its thread has ended: complete, abandoned or merged")
		}
		_, err := tx.Store().FindToChange(new(int64), entryByID, scope, l.id)
		if err == nil {
			err = l.own(tx, opRelease)
		}
		var s *stored
		if err == nil {
			s, err = findEntry(&tx.Rx, sqlBySession, scope, l.id)
		}
		if err != nil {
			return err
		}
		return end(tx, s, status)
	})
}
