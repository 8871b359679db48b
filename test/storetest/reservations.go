package storetest

import (
	"context"

	"selvedge/db"
)

var ofReservations = store{"reservations", holdLaws(reservations, "reservations"), reservations}

func reservations(d *db.DB, scope string) holds {
	const kind = "port"
	options := db.ReserveOptions{Scope: scope}
	hold := func(l *db.Lease) holding { return holding{l.Epoch(), l.HoldTx, l.Release} }
	held := func(l *db.Lease, err error) (holding, bool, error) {
		if err != nil {
			return holding{}, false, conflictIsLoss(err)
		}
		return hold(l), true, nil
	}
	return holds{
		take: func(ctx context.Context, name string) (holding, bool, error) {
			return held(d.Reserve(ctx, kind, name, options))
		},
		takeTx: func(tx *db.Tx, name string) (holding, bool,
			error,
		) {
			return held(d.ReserveTx(tx, kind, name, options))
		},
		reattach: func(ctx context.Context, name string, epoch int64) (holding, error) {
			h, _, err := held(d.Reattach(ctx, scope, kind, name, epoch))
			return h, err
		},
		remove: func(ctx context.Context, name string) error {
			r, _, err := d.Reservation(ctx, scope, kind, name)
			if err != nil {
				return err
			}
			return d.ReleaseReservation(ctx, scope, kind, name, r.Epoch)
		},
		recover: func(ctx context.Context) (int, error) {
			return d.RecoverReservations(ctx, db.ReservationFilter{Scope: scope})
		},
	}
}
