package agents

import (
	"context"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Reservation names the agent that has reserved a thread.
type Reservation struct {
	Thread string    `json:"thread"` // what is reserved
	Holder Entry     `json:"-"`
	Since  time.Time `json:"since"`  // when it was reserved, RFC 3339, UTC
	Epoch  int64     `json:"epoch"`  // grows with every reservation in the file
	Leased bool      `json:"leased"` // whether it ends without heartbeats
	Live   Liveness  `json:"-"`      // Dead: the next attempt gets the thread
}

const opReservation = "look up reservation"

// Reservation returns the agent that has reserved the thread; ok is false if none has. An agent
// that is active on a thread without having reserved it (see Save) is not named here, but holds it
// against TryReserveThread all the same.
//
// A result of Dead is final. A lease that a read finds over is judged again in a write, because a
// timely heartbeat may not be committed yet. A read-only handle can't do that.
func (r *Registry) Reservation(ctx context.Context, thread string) (held Reservation, ok bool, err error) {
	look := func(rx *db.Rx) (Reservation, bool, error) { return r.ReservationTx(rx, thread) }
	held, ok, err = stores.Find(ctx, r.db.Read, opReservation, look)
	if err != nil || !ok || !held.Leased || held.Live != Dead || r.db.Store().ReadOnly {
		return held, ok, err
	}
	write := stores.On(r.db, txn.AgentReservations).Write
	return stores.Find(ctx, write, opReservation, func(tx *db.Tx) (Reservation, bool, error) {
		if err := r.lockReservation(tx, thread); err != nil {
			return held, false, named(opReservation, "", err)
		}
		return look(&tx.Rx)
	})
}

// ReservationTx is Reservation inside a transaction. In a read transaction, Dead is not final: the
// lease may be Alive in a later one.
func (r *Registry) ReservationTx(rx *db.Rx, thread string) (held Reservation, ok bool, err error) {
	err = r.readTx(rx, opReservation, "", func(scope int64) error {
		s, err := findEntry(rx, sqlHolder, scope, thread)
		if err != nil || s == nil {
			return err
		}
		held, ok = Reservation{
			Thread: thread, Holder: s.Entry, Since: db.Time(*s.ReservedSince), Epoch: *s.Epoch, Leased: s.TTL != nil,
		}, true
		held.Live, err = liveness(rx, s)
		return err
	})
	return held, ok, err
}
