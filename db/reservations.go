package db

import (
	"context"
	"iter"
	"time"
)

// A Reservation is what the file says of something that is reserved, and what can be said about it now.
type Reservation struct {
	Scope      string
	Kind       string
	Name       string
	Epoch      int64
	Note       string        // what the holder wants it for; may be empty
	ReservedAt time.Time     // UTC
	RenewedAt  time.Time     // UTC; as ReservedAt when it never was
	TTL        time.Duration // from each renewal; 0: as long as its process lives
	Detached   bool          // it outlives its process
	PID        int           // of its process, in the process's own namespace; 0: detached
	Program    string        // its process's program; "": detached
	State      LeaseState

	columns LeaseColumns
}

func (row *reservationRow) judged(rx *Rx, scope string) (Reservation, error) {
	v := Reservation{
		Scope: scope, Kind: row.Kind, Name: row.Name, Epoch: row.Epoch, Note: row.Note,
		ReservedAt: Time(row.ReservedAt), RenewedAt: Time(row.RenewedAt),
		Detached: row.Owner == nil, PID: row.PID, Program: row.Program, columns: row.LeaseColumns,
	}
	if row.TTL != nil {
		v.TTL = time.Duration(*row.TTL)
	}
	var err error
	v.State, err = rx.LeaseState(row.LeaseColumns)
	return v, err
}

// ReservationFilter chooses reservations. The zero value is all of the default scope.
type ReservationFilter struct {
	Scope string
	Kind  string // "": of every kind
}

const reservationsList = "reservations"

const (
	sqlReservations       = sqlReservation + `WHERE l.scope = ? AND (l.kind, l.name) > (?, ?) ORDER BY l.kind, l.name`
	sqlReservationsOfKind = sqlReservation + `WHERE l.scope = ? AND l.kind = ? AND l.name > ? ORDER BY l.name`
)

// Reservations lists what is reserved, by kind and name, with those that are over and that nobody has taken since.
func (d *DB) Reservations(ctx context.Context, f ReservationFilter, at At) (page Page[Reservation], err error) {
	const op = "list reservations"
	room, err := at.Room()
	if err != nil {
		return page, err
	}
	err = d.Read(ctx, op, func(rx *Rx) error {
		page = Page[Reservation]{}
		scope, ok, err := rx.Scope(f.Scope)
		if err != nil {
			return err
		}
		kind, name := f.Kind, ""
		if at.After != "" {
			of := []int64{0}
			if err := rx.ReadCursor(reservationsList, at.After, of, &kind, &name); err != nil {
				return err
			}
			if of[0] != scope || f.Kind != "" && f.Kind != kind {
				return NotThisCursor(at.After)
			}
		}
		if !ok {
			return nil
		}
		query := sqlReservations
		if f.Kind != "" {
			query = sqlReservationsOfKind
		}
		items := rx.reservations(f.Scope, query, scope, kind, name)
		page, err = FillPage(room, items,
			func(v *Reservation) int { return 200 + len(v.Name) + len(v.Note) },
			func(v *Reservation) string { return rx.Cursor(reservationsList, []int64{scope}, v.Kind, v.Name) })
		return err
	})
	return page, err
}

// Reservation gives the one of a kind and name, if it is there.
func (d *DB) Reservation(ctx context.Context, scope, kind, name string) (r Reservation, ok bool, err error) {
	err = d.Read(ctx, "find reservation", func(rx *Rx) error {
		id, there, err := rx.Scope(scope)
		if err != nil || !there {
			return err
		}
		l := &Lease{db: d, scope: scope, kind: kind, name: name}
		r, ok, err = l.row(rx, id)
		return err
	})
	return r, ok, err
}

// AllReservations lists them all.
func (d *DB) AllReservations(ctx context.Context, f ReservationFilter) iter.Seq2[Reservation, error] {
	return AllPages(func(at At) (Page[Reservation], error) { return d.Reservations(ctx, f, at) })
}

func (rx *Rx) reservations(scope, query string, args ...any) iter.Seq2[Reservation, error] {
	return Each(rx, func(r *reservationRow) (Reservation, error) { return r.judged(rx, scope) }, query, args...)
}

const sqlHeldFrom = sqlReservation + `WHERE l.scope = ? AND l.epoch > ? ORDER BY l.epoch LIMIT ?`

// recoverBatch is how many reservations one transaction looks at, so that no other writer waits long.
const recoverBatch = 200

// RecoverReservations removes the reservations of a scope that are over, and tells how many there were. They were in nobody's
// way: this only tidies up. Anybody may call it at any time.
func (d *DB) RecoverReservations(ctx context.Context, scope string) (removed int, err error) {
	from := int64(0)
	for more := true; more && err == nil; {
		n := 0
		err = d.Write(ctx, "recover reservations", func(tx *Tx) (err error) {
			n, from, more, err = tx.recoverReservations(scope, from)
			return err
		})
		if err == nil {
			removed += n
		}
	}
	return removed, err
}

func (tx *Tx) recoverReservations(name string, from int64) (removed int, last int64, more bool, err error) {
	tx.BootTime() // before the statements
	scope, ok, err := tx.Rx.Scope(name)
	if err != nil || !ok {
		return 0, from, false, err
	}
	var rows []reservationRow
	if err := tx.Select(&rows, sqlHeldFrom, scope, from, recoverBatch); err != nil {
		return 0, from, false, err
	}
	for i := range rows {
		last = rows[i].Epoch
		state, err := tx.LeaseState(rows[i].LeaseColumns)
		if err != nil {
			return 0, from, false, err
		}
		if !state.Over() {
			continue
		}
		n, err := tx.Exec(sqlTakeAway, rows[i].Epoch, rows[i].Until)
		if err != nil {
			return 0, from, false, err
		}
		removed += int(n)
	}
	if removed > 0 {
		err = tx.ForgetDeadOwners()
	}
	return removed, last, len(rows) == recoverBatch, err
}

// ReleaseReservation takes a reservation away from its holder, whoever that is, who finds it lost. A person does that, who
// knows that the holder is not coming back. The epoch, as listed, makes sure that it is the one that was looked at. What is
// not reserved, or with another epoch, is ErrNotFound.
func (d *DB) ReleaseReservation(ctx context.Context, scope, kind, name string, epoch int64) error {
	const op = "release reservation"
	return d.Write(ctx, op, func(tx *Tx) error {
		id, ok, err := tx.Rx.Scope(scope)
		var n int64
		if err == nil && ok {
			n, err = tx.Exec(sqlReleaseAny, epoch, id, kind, name)
		}
		if err == nil && n == 0 {
			return &Error{Op: op, Entity: kind, ID: name, Hint: "see what is reserved: migrate reservations list", Err: ErrNotFound}
		}
		return err
	})
}

const sqlReleaseAny = `DELETE FROM leases WHERE epoch = ? AND scope = ? AND kind = ? AND name = ?`
