package agents

import (
	"context"
	"time"

	"selvedge/db"
	registry "selvedge/internal/agents"
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

// Reservation tells who has reserved the thread; ok is false when nobody has. An agent that is active on a thread without
// having reserved it (see Save) is not named here, but holds it against TryReserveThread all the same.
func (r *Registry) Reservation(ctx context.Context, thread string) (held Reservation, ok bool, err error) {
	err = r.db.Read(ctx, opReservation, func(rx *db.Rx) error {
		held, ok, err = r.ReservationTx(rx, thread)
		return err
	})
	return held, ok, err
}

// ReservationTx is Reservation inside a transaction.
func (r *Registry) ReservationTx(rx *db.Rx, thread string) (held Reservation, ok bool, err error) {
	err = r.readTx(rx, opReservation, "", func(scope int64) error {
		s, err := registry.Find(rx, sqlHolder, scope, thread)
		if err != nil || s == nil {
			return err
		}
		held, ok = Reservation{
			Thread: thread, Holder: entryOf(&s.Record), Since: db.Time(*s.ReservedSince), Epoch: *s.Epoch, Leased: s.LeaseUntil != nil,
		}, true
		held.Live, err = r.liveness(rx, &s.Row)
		return err
	})
	return held, ok, err
}
