package txn

const (
	// ReservationSQL reads rows for a ReservationRow.
	ReservationSQL = `SELECT l.epoch, l.kind, l.name, coalesce(l.note, '') AS note, l.reserved_at, l.renewed_at,
    l.owner_id, l.lease_ttl, l.lease_until, l.lease_boot_id, l.lease_time_ns, l.lease_wall_until,
    coalesce(o.pid, 0) AS pid, coalesce(o.program, '') AS program
FROM leases AS l LEFT JOIN owners AS o ON o.id = l.owner_id `
	sqlReservationOf      = ReservationSQL + `WHERE l.scope = ? AND l.kind = ? AND l.name = ?`
	sqlReservationOfEpoch = ReservationSQL + `WHERE l.epoch = ?`
	// Compare-and-delete on the reservation we examined: a later one, or one that was renewed since,
	// stays.
	sqlTakeAway = `DELETE FROM leases WHERE epoch = ? AND lease_until IS NOT DISTINCT FROM ?`
)

// A ReservationRow is a row of ReservationSQL.
type ReservationRow struct {
	Epoch      int64  `db:"epoch"`
	Kind       string `db:"kind"`
	Name       string `db:"name"`
	Note       string `db:"note"`
	ReservedAt int64  `db:"reserved_at"`
	RenewedAt  int64  `db:"renewed_at"`
	PID        int    `db:"pid"`
	Program    string `db:"program"`
	LeaseColumns
}

// Columns are the columns that the row's checksum covers.
func (row *ReservationRow) Columns(scope int64) []any {
	var note *string
	if row.Note != "" {
		note = &row.Note
	}
	return append([]any{scope, row.Kind, row.Name, note, row.ReservedAt, row.RenewedAt}, row.Values()...)
}

// FindReservation returns the reservation of a kind and name, if there is one.
func (rx *Rx) FindReservation(scope int64, kind, name string) (row ReservationRow, ok bool, err error) {
	ok, err = rx.Find(&row, sqlReservationOf, scope, kind, name)
	return row, ok, err
}

// Reservation returns the reservation with this epoch, if there is one.
func (rx *Rx) Reservation(epoch int64) (row ReservationRow, ok bool, err error) {
	ok, err = rx.Find(&row, sqlReservationOfEpoch, epoch)
	return row, ok, err
}

// TakeReservation removes a reservation, unless it was renewed since it was read, or is gone.
func (tx *Tx) TakeReservation(epoch int64, until *int64) (taken bool, err error) {
	n, err := tx.Exec(sqlTakeAway, epoch, until)
	return n > 0, err
}

// IsReserved reports whether a row that names this epoch is held: there is such a reservation, and it is
// not over. nil names none.
func (rx *Rx) IsReserved(epoch *int64) (bool, error) {
	if epoch == nil {
		return false, nil
	}
	// Read the clock before the statements: the process may be paused after one, and the reservation
	// renewed meanwhile.
	rx.BootTime()
	held, ok, err := rx.Reservation(*epoch)
	if err != nil || !ok {
		return false, err
	}
	state, err := rx.LeaseState(held.LeaseColumns)
	return err == nil && !state.Over(), err
}

// Unreserve reports whether a row that names this epoch is unheld, for a caller that is about to remove
// what belongs to it. It removes a reservation that is over, so that its holder, which may be about to
// renew it, finds it lost. nil names none.
func (tx *Tx) Unreserve(epoch *int64) (free bool, err error) {
	if epoch == nil {
		return true, nil
	}
	tx.BootTime() // as in IsReserved
	for {
		held, ok, err := tx.Reservation(*epoch)
		if err != nil || !ok {
			return err == nil, err
		}
		if state, err := tx.LeaseState(held.LeaseColumns); err != nil || !state.Over() {
			return false, err
		}
		if taken, err := tx.TakeReservation(held.Epoch, held.Until); err != nil || taken {
			return err == nil, err
		}
	}
}
