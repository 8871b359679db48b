package db

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"selvedge/internal/txn"
)

// A Leased is a lease that a store keeps in a table of its own, as its Handle needs it.
type Leased struct {
	// Noun names the calls of the handle in errors and to Options.Observe: "claim" makes "renew
	// claim".
	Noun  string
	Epoch int64
	// Row is the row of the lease. Key returns its arguments; nil: there can be no such row.
	Row txn.Subject
	Key func(rx *Rx) ([]any, error)
	// Held reads the row, calls clock, and returns the lease; ErrLeaseLost if this process does not
	// hold it. On a server the lock may be sent with the row's statement, so the clock comes after it.
	Held func(rx *Rx, op string, clock func() BootTime) (txn.LeaseColumns, error)
	// Renew stores the times of now with exec if the row still has the times of was; if not,
	// ErrLeaseLost.
	Renew func(tx *Tx, exec func(query string, args ...any) (int64, error), was, now txn.LeaseColumns) error
	// Named adds the leased item to an error.
	Named func(op string, err error) error
}

// A Handle represents a held lease: the handles of stores embed it. The lease ends when it is
// released or taken away, when its TTL has passed since the last renewal, and, unless it is
// detached, when this process ends or closes the file. A lease that has ended stays ended: every
// later call returns ErrLeaseLost and changes nothing, even if no other holder has the item.
//
// A holder that may be paused should do its work in the transaction of Hold or HoldTx: a stale
// holder can't write in it. For work outside the file, pass the epoch along.
type Handle struct {
	db    *DB
	lease Leased
	ttl   time.Duration // 0: none
	until BootTime      // its end when the handle was made, on this process's clock
	// known is the lease as this handle renewed it last, even if that was undone or another handle has
	// renewed it since; nil without a TTL.
	known atomic.Pointer[txn.LeaseColumns]
}

// NewHandle returns the handle of a lease with the columns that were granted or read in rx.
func (d *DB) NewHandle(rx *txn.Rx, of Leased, c txn.LeaseColumns) *Handle {
	h := &Handle{db: d, lease: of, until: rx.LeaseEnd(c)}
	if c.TTL != nil {
		h.ttl = time.Duration(*c.TTL)
		h.known.Store(&c)
	}
	return h
}

// Epoch is the number of the lease. It grows with every lease of the same item, and the number of a
// lease that was rolled back is not reused.
func (h *Handle) Epoch() int64 { return h.lease.Epoch }

// HoldTx returns ErrLeaseLost if the lease does not hold in tx. If it holds, no other call can take
// it away before tx ends.
func (h *Handle) HoldTx(tx *Tx) error {
	if tx.in.Held(h) {
		return nil
	}
	op := "hold " + h.lease.Noun
	err := h.row(tx, tx.in.Keep)
	if err == nil {
		_, err = h.lease.Held(&tx.Rx, op, tx.in.BootTime)
	}
	return h.lease.Named(op, err)
}

// row calls a verb of Tx for the row of the lease.
func (h *Handle) row(tx *Tx, verb func(txn.Subject, ...any) error) error {
	key, err := h.lease.Key(&tx.Rx)
	if err == nil && key != nil {
		err = verb(h.lease.Row, key...)
	}
	return err
}

// Hold runs fn in a transaction in which the lease holds, so that a stale holder's work is never
// committed.
func (h *Handle) Hold(ctx context.Context, why string, fn func(*Tx) error) error {
	return h.db.Write(ctx, why, func(tx *Tx) error {
		if err := h.HoldTx(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Renew restarts the TTL. Without a TTL it checks that the lease still holds.
func (h *Handle) Renew(ctx context.Context) error {
	return h.db.WriteLocked(ctx, "renew "+h.lease.Noun, func(tx *Tx) error {
		return h.renew(tx, tx.in.ExecAndCommit)
	})
}

// RenewTx is Renew in the caller's transaction.
func (h *Handle) RenewTx(tx *Tx) error { return h.renew(tx, tx.Exec) }

// renew judges the lease by the clock after the row is locked. So a lease that was reported over
// before stays over.
func (h *Handle) renew(tx *Tx, exec func(query string, args ...any) (int64, error)) error {
	op := "renew " + h.lease.Noun
	if renewed, err := h.renewKnown(tx, exec); renewed || err != nil {
		return h.lease.Named(op, err)
	}
	err := h.row(tx, tx.in.WillChange)
	if err != nil {
		return h.lease.Named(op, err)
	}
	was, err := h.lease.Held(&tx.Rx, op, tx.in.ReadBootTime)
	if err == nil && was.TTL != nil {
		err = h.restart(tx, exec, was)
	}
	return h.lease.Named(op, err)
}

// renewKnown is renew without reading the row: it changes the row only if that still has the end that the
// handle knows. It is for a lease that only its time and its process end while the row is there. In a file,
// nothing changes between the clock and the change. On a server the change judges by the server's clock,
// and all of it is one message.
func (h *Handle) renewKnown(tx *Tx, exec func(query string, args ...any) (int64, error)) (bool, error) {
	was := h.known.Load()
	if was == nil || was.Owner == nil {
		return false, nil
	}
	if err := tx.in.Of(h.db.Store()); err != nil {
		return false, err
	}
	var holds bool
	var err error
	if condition := tx.in.HoldsSQL(); condition == "" {
		tx.in.ReadBootTime()
		holds, err = tx.in.HoldsLease(*was)
	} else if holds, err = tx.in.Owns(*was.Owner); err == nil && holds {
		err = h.row(tx, tx.in.WillChange)
		judged := exec
		exec = func(query string, args ...any) (int64, error) { return judged(query+" AND "+condition, args...) }
	}
	if err == nil && holds {
		err = h.restart(tx, exec, *was)
	}
	if errors.Is(err, ErrLeaseLost) { // as far as the handle knows
		holds, err = false, nil
	}
	return holds && err == nil, err
}

// restart restarts the TTL of a lease that holds.
func (h *Handle) restart(tx *Tx, exec func(query string, args ...any) (int64, error), was txn.LeaseColumns,
) error {
	now := tx.in.RenewLease(was)
	err := h.lease.Renew(tx, exec, was, now)
	if err == nil {
		h.known.Store(&now)
	}
	return err
}

// read reads whether the lease holds.
func (h *Handle) read(ctx context.Context) error {
	op := "keep " + h.lease.Noun
	return h.db.Read(ctx, op, func(rx *Rx) error {
		_, err := h.lease.Held(rx, op, rx.in.BootTime)
		return err
	})
}
