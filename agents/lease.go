package agents

import (
	"context"
	"fmt"
	"time"

	"selvedge/db"
	registry "selvedge/internal/agents"
)

// LeaseOptions are the terms of a lease.
type LeaseOptions struct {
	// TTL is how long the lease lasts without a heartbeat. It must be set.
	TTL time.Duration
	// Detached makes the lease outlive this process: only its time, its release and the death of the entry's own pid end
	// it. Programs that reserve for another one and leave want it.
	Detached bool
}

// A Lease is a reservation with an end. It holds until TTL has passed since the last heartbeat, on a clock that runs
// while the machine sleeps and that nobody can set, or until it is released, taken away by a status change, or its process
// is gone; a restart of the machine ends it too. What ended stays ended: every call then returns db.ErrLeaseLost and
// changes nothing, also while nobody else has the thread yet.
//
// A holder that may be stopped for a while does its work under the lease in the transaction of Hold: whatever happened
// meanwhile, a stale holder writes nothing.
type Lease struct {
	registry   *Registry
	id, thread string
	epoch      int64
	ttl        time.Duration
}

// SessionID is the id of the entry that holds the thread.
func (l *Lease) SessionID() string { return l.id }

// Thread is what is held.
func (l *Lease) Thread() string { return l.thread }

// Epoch is the number of this reservation. Later reservations have greater ones, of whatever thread.
func (l *Lease) Epoch() int64 { return l.epoch }

// TryLeaseThread is TryReserveThread with a lease. The lease is nil when the thread is somebody else's.
func (r *Registry) TryLeaseThread(ctx context.Context, thread string, o LeaseOptions, build Builder) (*Lease, ReserveOutcome, error) {
	const why = "lease thread"
	if o.TTL <= 0 {
		return nil, ReserveOutcome{}, named(why, "", registry.Invalid("set LeaseOptions.TTL", "a lease needs a time to live, not %v", o.TTL))
	}
	out, lease, err := r.reserve(ctx, why, thread, &o, build)
	return lease, out, err
}

// leaseTerms are the lease's columns of agent_reservations; all nil without a lease.
type leaseTerms struct {
	ttl, until     *int64
	boot           *string
	owner, pidBorn *int64
}

func (r *Registry) terms(tx *db.Tx, e *registry.Record, o LeaseOptions) (leaseTerms, error) {
	until := r.bootTime().Add(o.TTL)
	ttl, end := int64(o.TTL), int64(until.Since)
	terms := leaseTerms{ttl: &ttl, until: &end, boot: &until.Boot}
	if !o.Detached {
		owner, err := tx.Owner()
		if err != nil {
			return terms, err
		}
		terms.owner = &owner
	}
	if e.PID != nil && judge(Status(e.Status), e.PID, e.BootID) == Alive {
		terms.pidBorn = processBorn(*e.PID)
	}
	return terms, nil
}

// Lease gives the handle of a lease that another program or an earlier call made, by the three things that name it.
// Nothing is looked up: a wrong one is lost at its first use.
func (r *Registry) Lease(id, thread string, epoch int64) *Lease {
	return &Lease{registry: r, id: id, thread: thread, epoch: epoch}
}

const (
	// The row's owner is returned for a look at whether it lives; see Lease.held.
	sqlHeartbeat = `UPDATE agent_reservations SET heartbeat_at = ?, lease_until = ? + lease_ttl
WHERE epoch = ? AND scope = ? AND thread = ? AND lease_boot_id = ? AND lease_until > ? RETURNING owner_id`
	sqlHold = `SELECT owner_id FROM agent_reservations
WHERE epoch = ? AND scope = ? AND thread = ? AND lease_boot_id = ? AND lease_until > ?`
)

// Heartbeat prolongs the lease to TTL from now, and sets the entry's heartbeat and last progress.
func (l *Lease) Heartbeat(ctx context.Context) error {
	return l.registry.write(ctx, "heartbeat", l.id, func(tx *db.Tx, scope int64) error {
		at := l.registry.bootTime()
		return l.held(&tx.Rx, sqlHeartbeat, db.Nanos(tx.Now()), int64(at.Since), l.epoch, scope, l.thread, at.Boot, int64(at.Since))
	})
}

// Hold runs fn in a transaction in which the lease holds, so that a stale holder's work is never done.
func (l *Lease) Hold(ctx context.Context, why string, fn func(*db.Tx) error) error {
	return l.registry.write(ctx, why, l.id, func(tx *db.Tx, _ int64) error {
		if err := l.HoldTx(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// HoldTx reports, as db.ErrLeaseLost, when the lease does not hold in tx.
func (l *Lease) HoldTx(tx *db.Tx) error {
	scope, err := tx.Scope(l.registry.scope)
	if err != nil {
		return err
	}
	at := l.registry.bootTime()
	return l.held(&tx.Rx, sqlHold, l.epoch, scope, l.thread, at.Boot, int64(at.Since))
}

// held runs a query that gives the owner of the lease where it holds.
func (l *Lease) held(rx *db.Rx, query string, args ...any) error {
	var owner *int64
	ok, err := rx.Find(&owner, query, args...)
	if err == nil && ok && owner != nil {
		ok, err = rx.OwnerAlive(*owner) // nobody may revive what others were told is dead
	}
	if err == nil && !ok {
		err = fmt.Errorf("%w: epoch %d of thread '%s'", db.ErrLeaseLost, l.epoch, l.thread)
	}
	return err
}

// Update is UpdateEntry under the lease.
func (l *Lease) Update(ctx context.Context, update func(*Entry)) (e Entry, err error) {
	err = l.registry.write(ctx, "update agent", l.id, func(tx *db.Tx, scope int64) error {
		s, err := l.entry(tx, scope)
		if err == nil {
			e, err = change(tx, scope, s, update)
		}
		return err
	})
	return e, err
}

// LogContextQuery is the registry's, under the lease.
func (l *Lease) LogContextQuery(ctx context.Context, q ContextQuery) error {
	return l.registry.write(ctx, "log context query", l.id, func(tx *db.Tx, scope int64) error {
		if err := l.HoldTx(tx); err != nil {
			return err
		}
		return logQuery(tx, scope, l.id, q)
	})
}

// Release ends the agent with the status Complete, Abandoned or Merged, and gives the thread back.
func (l *Lease) Release(ctx context.Context, status Status) error {
	return l.registry.write(ctx, "release thread", l.id, func(tx *db.Tx, _ int64) error { return l.ReleaseTx(tx, status) })
}

// ReleaseTx is Release inside a transaction that does more.
func (l *Lease) ReleaseTx(tx *db.Tx, status Status) error {
	if status == Active {
		return registry.Invalid("release with Complete, Abandoned or Merged", "an agent that releases its thread has ended: complete, abandoned or merged")
	}
	scope, err := tx.Scope(l.registry.scope)
	if err != nil {
		return err
	}
	s, err := l.entry(tx, scope)
	if err != nil {
		return err
	}
	return end(tx, s, status)
}

// entry gives the entry under the lease.
func (l *Lease) entry(tx *db.Tx, scope int64) (*registry.Stored, error) {
	if err := l.HoldTx(tx); err != nil {
		return nil, err
	}
	s, err := registry.Find(&tx.Rx, sqlHolder, scope, l.thread)
	if err == nil && (s == nil || s.Row.SessionID != l.id) {
		err = fmt.Errorf("%w: thread '%s' is not held by agent %s", db.ErrLeaseLost, l.thread, l.id)
	}
	return s, err
}
