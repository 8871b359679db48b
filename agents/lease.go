package agents

import (
	"context"
	"fmt"
	"time"

	"selvedge/db"
)

// A Lease is a reservation with an end. It holds until TTL has passed since the last heartbeat, on
// a clock that runs while the machine sleeps and that nobody can set, or until it is released or
// taken away by a status change; unless it is detached, also until its process is gone or has
// closed the file. What ended stays ended: every call then returns db.ErrLeaseLost and changes
// nothing, also while nobody else has the thread yet.
//
// A holder that may be stopped for a while does its work under the lease in the transaction of Hold
// or HoldTx: whatever happened meanwhile, a stale holder writes nothing. For work outside the file,
// give the epoch along: it grows with every reservation.
type Lease struct {
	registry   *Registry
	id, thread string
	epoch      int64
	grant      *db.Grant
	ttl        time.Duration // as it was when the handle was made, and so is until
	until      db.BootTime
}

// SessionID is the id of the entry that holds the thread.
func (l *Lease) SessionID() string { return l.id }

// Thread is what is held.
func (l *Lease) Thread() string { return l.thread }

// Epoch is the number of this reservation. Later reservations have greater ones, of whatever
// thread. The number of one that was undone is not given again, and its handle is lost.
func (l *Lease) Epoch() int64 { return l.epoch }

const opLease = "lease thread"

// TryLeaseThread is TryReserveThread with a lease, whose terms need a TTL. Detached, it is for
// programs that reserve for another one and leave: where that can be told, the death of the entry's
// own process ends it too. The lease is nil when the thread is somebody else's.
func (r *Registry) TryLeaseThread(ctx context.Context, thread string, o db.LeaseTerms,
	build Builder,
) (*Lease, ReserveOutcome, error) {
	if err := checkTerms(o); err != nil {
		return nil, ReserveOutcome{}, named(opLease, "", err)
	}
	out, lease, err := r.reserve(ctx, opLease, thread, &o, build)
	return lease, out, err
}

// TryLeaseThreadTx is TryLeaseThread inside a transaction; the lease holds once that is committed.
// What it puts aside and abandons stays so where build fails and the caller commits all the same.
func (r *Registry) TryLeaseThreadTx(tx *db.Tx, thread string, o db.LeaseTerms, build Builder) (*Lease,
	ReserveOutcome, error,
) {
	if err := checkTerms(o); err != nil {
		return nil, ReserveOutcome{}, named(opLease, "", err)
	}
	a, err := r.attempt(tx, opLease, thread, &o, build)
	err = a.end(opLease, err)
	return a.lease, a.outcome, err
}

func checkTerms(o db.LeaseTerms) error {
	if o.TTL <= 0 {
		return invalid("set LeaseTerms.TTL", "a lease needs a time to live, not %v", o.TTL)
	}
	return nil
}

// remember keeps what Keep needs.
func (l *Lease) remember(rx *db.Rx, c db.LeaseColumns) {
	l.until = rx.LeaseEnd(c)
	if c.TTL != nil {
		l.ttl = time.Duration(*c.TTL)
	}
}

// Reattach gives the handle of a lease that was made before: by this process, when it could not be
// told whether it was made, or detached, by whichever. Any other, and one that is over, is
// db.ErrLeaseLost. A process that has closed the file has given up what it held.
func (r *Registry) Reattach(ctx context.Context, id, thread string, epoch int64) (l *Lease, err error) {
	err = r.db.Read(ctx, opReattach, func(rx *db.Rx) error {
		l, err = r.ReattachTx(rx, id, thread, epoch)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

const opReattach = "reattach lease"

// ReattachTx is Reattach inside a transaction.
func (r *Registry) ReattachTx(rx *db.Rx, id, thread string, epoch int64) (*Lease, error) {
	l := &Lease{registry: r, id: id, thread: thread, epoch: epoch}
	held, err := l.held(rx, opReattach, rx.BootTime)
	if err != nil {
		return nil, err
	}
	l.remember(rx, held.LeaseColumns)
	return l, nil
}

var (
	sqlHeld = `SELECT r.epoch, r.pid_born_at, a.id, a.session_id, a.status, a.pid, a.pid_ns, a.boot_id, ` + sqlLease + `
FROM agent_reservations r JOIN agents a ON a.id = r.agent_id WHERE r.scope = ?1
	AND ` + db.Same("r.thread", "?2")
	sqlLockReservation = `SELECT epoch FROM agent_reservations WHERE scope = ?1 AND ` + db.Same("thread", "?2")
	sqlHeartbeat       = `UPDATE agent_reservations
	SET heartbeat_at = ?, lease_until = ?, lease_boot_id = ?, lease_time_ns = ?, lease_wall_until = ?
WHERE epoch = ? AND lease_until IS NOT DISTINCT FROM ?`
)

// held gives the reservation's row where the lease holds, and db.ErrLeaseLost where it doesn't. The
// clock is asked behind the row.
func (l *Lease) held(rx *db.Rx, why string, clock func() db.BootTime) (w entryRow, err error) {
	holds := false
	err = l.registry.readTx(rx, why, l.id, func(scope int64) error {
		ok, err := rx.Find(&w, sqlHeld, scope, l.thread)
		if clock(); err == nil && ok {
			holds, err = l.heldBy(rx, &w)
		}
		return err
	})
	if err == nil && !holds {
		err = named(why, l.id, l.lost())
	}
	return w, err
}

// heldBy reports whether the lease holds by what a row says.
func (l *Lease) heldBy(rx *db.Rx, w *entryRow) (bool, error) {
	if w.Epoch == nil || *w.Epoch != l.epoch || w.SessionID != l.id || w.TTL == nil || l.grant.Undone() {
		return false, nil
	}
	if holds, err := rx.HoldsLease(w.LeaseColumns); err != nil || !holds {
		return false, err
	}
	judged, err := liveness(rx, w) // nobody may revive what others were told is dead
	return judged == Alive, err
}

// lockReservation locks the row of a thread's reservation: whoever takes the thread away deletes it.
func (r *Registry) lockReservation(tx *db.Tx, thread string,
	lock func(query string, args ...any) error,
) error {
	if err := tx.Of(r.db); err != nil {
		return err
	}
	scope, ok, err := tx.Rx.Scope(r.scope)
	if err == nil && ok {
		err = lock(sqlLockReservation, scope, thread)
	}
	return err
}

func (l *Lease) lost() error {
	return fmt.Errorf("%w: epoch %d of thread '%s'", db.ErrLeaseLost, l.epoch, l.thread)
}

const opRenew = "renew lease"

// Renew prolongs the lease to TTL from now, and sets the entry's heartbeat and last progress.
func (l *Lease) Renew(ctx context.Context) error {
	return l.registry.db.WriteLocked(ctx, opRenew, func(tx *db.Tx) error { return l.renew(tx, tx.ExecAndCommit) })
}

// RenewTx is Renew inside a transaction.
func (l *Lease) RenewTx(tx *db.Tx) error { return l.renew(tx, tx.Exec) }

// renew judges by what the clock says once the row is locked: who was told meanwhile that the lease
// is over was told right.
func (l *Lease) renew(tx *db.Tx, change func(query string, args ...any) (int64, error)) error {
	if err := l.registry.lockReservation(tx, l.thread, tx.Lock); err != nil {
		return named(opRenew, l.id, err)
	}
	w, err := l.held(&tx.Rx, opRenew, tx.ReadBootTime)
	if err != nil {
		return err
	}
	now := tx.RenewLease(w.LeaseColumns)
	n, err := change(sqlHeartbeat, db.Nanos(tx.Now()), now.Until, now.Boot, now.TimeNS, now.WallUntil, l.epoch,
		w.Until)
	if err == nil && n == 0 {
		err = l.lost()
	}
	return named(opRenew, l.id, err)
}

// Keep sends heartbeats by itself until stop is called: see [db.Lease.Keep], whose rules are the
// same. The context that it gives ends when the lease is lost.
func (l *Lease) Keep(ctx context.Context) (kept context.Context, stop context.CancelFunc) {
	return l.registry.db.KeepLease(ctx, db.Renewal{
		TTL: l.ttl, Until: l.until, Renew: l.Renew,
		Named: func(err error) error { return named("keep lease", l.id, err) },
	})
}

const opHold = "hold lease"

// HoldTx reports, as db.ErrLeaseLost, when the lease does not hold in tx. Where it does, nobody
// takes it away before tx has ended.
func (l *Lease) HoldTx(tx *db.Tx) error {
	if err := l.registry.lockReservation(tx, l.thread, tx.Hold); err != nil {
		return named(opHold, l.id, err)
	}
	_, err := l.held(&tx.Rx, opHold, tx.BootTime)
	return err
}

// Hold runs fn in a transaction in which the lease holds, so that a stale holder's work is never done.
func (l *Lease) Hold(ctx context.Context, why string, fn func(*db.Tx) error) error {
	return l.registry.db.Write(ctx, why, func(tx *db.Tx) error {
		if err := l.HoldTx(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Update is UpdateEntry under the lease.
func (l *Lease) Update(ctx context.Context, update func(*Entry)) (e Entry, err error) {
	err = l.registry.db.WriteLocked(ctx, opUpdate, func(tx *db.Tx) error {
		e, err = l.UpdateTx(tx, update)
		return err
	})
	return e, err
}

// UpdateTx is Update inside a transaction.
func (l *Lease) UpdateTx(tx *db.Tx, update func(*Entry)) (e Entry, err error) {
	err = l.registry.writeTx(tx, opUpdate, l.id, func(scope int64) error {
		s, err := l.entry(tx, scope)
		if err == nil {
			e, err = change(tx, scope, s, update, l)
		}
		return err
	})
	return e, err
}

// LogContextQuery is the registry's, under the lease.
func (l *Lease) LogContextQuery(ctx context.Context, q ContextQuery) error {
	return l.registry.db.WriteLocked(ctx, opLogQuery,
		func(tx *db.Tx) error { return l.LogContextQueryTx(tx, q) })
}

// LogContextQueryTx is LogContextQuery inside a transaction.
func (l *Lease) LogContextQueryTx(tx *db.Tx, q ContextQuery) error {
	return l.registry.logQuery(tx, l.id, q, func() error {
		err := l.registry.lockReservation(tx, l.thread, tx.Lock)
		if err == nil {
			_, err = l.held(&tx.Rx, opHold, tx.ReadBootTime)
		}
		return err
	})
}

const opRelease = "release thread"

// Release ends the agent with the status Complete, Abandoned or Merged, and gives the thread back.
func (l *Lease) Release(ctx context.Context, status Status) error {
	return l.registry.db.WriteEnd(ctx, opRelease, func(tx *db.Tx) error { return l.ReleaseTx(tx, status) })
}

// ReleaseTx is Release inside a transaction.
func (l *Lease) ReleaseTx(tx *db.Tx, status Status) error {
	return l.registry.writeTx(tx, opRelease, l.id, func(scope int64) error {
		if status == Active {
			return invalid("release with Complete, Abandoned or Merged",
				"an agent that releases its thread has ended: complete, abandoned or merged")
		}
		s, err := l.own(tx, scope)
		if err != nil {
			return err
		}
		return end(tx, s, status)
	})
}

// entry gives the entry under the lease, locked: whoever takes the thread away changes its row.
func (l *Lease) entry(tx *db.Tx, scope int64) (*stored, error) {
	s, err := lockedEntry(tx, scope, l.id)
	return l.under(tx, s, err)
}

// own is entry for who ends the lease: that is locked too, and judged as in renew.
func (l *Lease) own(tx *db.Tx, scope int64) (*stored, error) {
	_, err := tx.FindLocked(new(int64), sqlKeyOf, scope, l.id)
	if err == nil {
		err = l.registry.lockReservation(tx, l.thread, tx.Lock)
	}
	if err != nil {
		return nil, err
	}
	s, err := findEntry(&tx.Rx, sqlBySession, scope, l.id)
	tx.ReadBootTime()
	return l.under(tx, s, err)
}

// under gives an entry that was found where the lease holds it.
func (l *Lease) under(tx *db.Tx, s *stored, err error) (*stored, error) {
	holds := false
	if err == nil && s != nil && s.entryRow.Thread == l.thread {
		holds, err = l.heldBy(&tx.Rx, &s.entryRow)
	}
	if err == nil && !holds {
		err = l.lost()
	}
	return s, err
}
