package agents

import (
	"context"
	"time"

	"selvedge/db"
)

// A Reservation says who has a thread.
type Reservation struct {
	Thread string
	Holder Entry
	Since  time.Time // when it was reserved
	Epoch  int64     // greater than that of every earlier reservation
	Leased bool      // it ends with its lease; see Lease
	Live   Liveness  // Dead: the next who tries gets the thread
}

const opReservation = "look up reservation"

// Reservation tells who has reserved the thread; ok is false when nobody has. An agent that is
// active on a thread without having reserved it (see Save) is not named here, but holds it against
// TryReserveThread all the same.
//
// What it calls Dead stays so: a lease that a look finds over is judged again in the writer's turn,
// since a heartbeat that was in time may just be on its way. A handle that only reads can't do
// that.
func (r *Registry) Reservation(ctx context.Context, thread string) (held Reservation, ok bool, err error) {
	look := func(rx *db.Rx) error {
		held, ok, err = r.ReservationTx(rx, thread)
		return err
	}
	err = r.db.Read(ctx, opReservation, look)
	if err == nil && ok && held.Leased && held.Live == Dead && !r.db.ReadOnly() {
		err = r.db.WriteLocked(ctx, opReservation, func(tx *db.Tx) error {
			if err := r.lockReservation(tx, thread, tx.Lock); err != nil {
				return named(opReservation, "", err)
			}
			return look(&tx.Rx)
		})
	}
	return held, ok, err
}

// ReservationTx is Reservation inside a transaction. In a read, a lease that is Dead may be alive
// again in a later one.
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
