package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"selvedge/internal/paging"
	"selvedge/internal/txn"
)

// LeaseTerms are the terms of a lease. The zero value lasts as long as this process.
type LeaseTerms struct {
	// TTL is how long the lease lasts from its beginning and from each renewal; 0 means as long as the
	// process lives. A TTL beyond the clock's range lasts to its end.
	TTL time.Duration
	// Detached makes the lease outlive this process: only its time and its release end it, and every
	// process that knows its epoch may use it. It needs a TTL.
	Detached bool
}

// ReserveOptions are the terms of a reservation. The zero value holds as long as this process
// lives.
type ReserveOptions struct {
	LeaseTerms
	// Scope is the name of the scope that the reservation belongs to; "" is the default scope.
	Scope string
	// Note is the purpose of the reservation, for people.
	Note string
}

// A Lease is the reservation of a named resource that has one holder at a time: a port, a worktree,
// a path. See [Handle] for how long it holds. Every later reservation in the file, of any kind and
// name, has a greater epoch.
type Lease struct {
	*Handle
	scope string
	of    int64              // number of the scope
	shown string             // id in errors; "": the name
	row   txn.ReservationRow // at the reservation; renewals change its times
	grant *txn.Grant
}

// Kind is the kind of resource that is reserved.
func (l *Lease) Kind() string { return l.row.Kind }

// Name is the name of the resource within its kind.
func (l *Lease) Name() string { return l.row.Name }

// A ReservedError reports that another holder has the resource. It is an ErrConflict.
type ReservedError struct{ Holder Reservation }

// Error names the holder as far as it is known.
func (e *ReservedError) Error() string {
	h := &e.Holder
	who := "a holder without a process"
	if h.PID != 0 {
		who = fmt.Sprintf("process %d (%s)", h.PID, h.Program)
	}
	return fmt.Sprintf("%v: it is reserved by %s since %s", ErrConflict, who, h.ReservedAt.Format(time.RFC3339))
}

// Unwrap returns ErrConflict.
func (e *ReservedError) Unwrap() error { return ErrConflict }

// Reserve reserves the resource of that kind and name. Of any number of calls, in any number of
// processes, one succeeds; the others get a *ReservedError, an ErrConflict, that names the holder.
// A reservation of this process conflicts like any other.
//
// With ErrOutcomeUnknown, Reserve also returns the reservation that may have been made; ask about
// it with Reattach.
func (d *DB) Reserve(ctx context.Context, kind, name string, o ReserveOptions) (*Lease, error) {
	const op = "reserve"
	var l *Lease
	err := d.WriteLocked(ctx, op, func(tx *Tx) (err error) {
		l, err = d.ReserveTx(tx, kind, name, o)
		return err
	})
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		l = nil
	}
	return l, err
}

const (
	sqlReserve = `INSERT INTO leases (scope, kind, name, note, reserved_at, renewed_at, ` +
		txn.LeaseColumnNames + `, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING epoch`
)

var (
	reservation     = txn.Leases.Rows(`SELECT epoch FROM leases WHERE scope = ? AND kind = ? AND name = ?`)
	reservationName = txn.Leases.Name("%d %q %q")
)

// ReserveTx is Reserve in the caller's transaction. The reservation holds once that is committed.
func (d *DB) ReserveTx(tx *Tx, kind, name string, o ReserveOptions) (*Lease, error) {
	l := newLease(o.Scope, kind, name)
	if err := l.check(); err != nil {
		return nil, l.failed("reserve", err)
	}
	in := tx.in
	if err := in.Of(&d.store); err != nil {
		return nil, l.failed("reserve", err)
	}
	in.BootTime() // before the statements: a process may be stopped between any two
	scope, err := in.Scope(o.Scope)
	if err != nil {
		return nil, l.failed("reserve", err)
	}
	// Serialize reservations of one name, so that an epoch is drawn only while no other caller can
	// take and release it.
	if err = in.WillChange(reservationName, scope, kind, name); err == nil {
		l.of, l.row.Note = scope, o.Note
		err = l.take(in, o.LeaseTerms)
	}
	if err != nil {
		return nil, l.failed("reserve", err)
	}
	return l.handle(d, &in.Rx), nil
}

func newLease(scope, kind, name string) *Lease {
	return &Lease{scope: scope, row: txn.ReservationRow{Kind: kind, Name: name}}
}

// handle completes a lease whose row was written or read in rx.
func (l *Lease) handle(d *DB, rx *txn.Rx) *Lease {
	l.Handle = d.NewHandle(rx, Leased{
		Noun: "reservation", Epoch: l.row.Epoch, Row: reservation, Key: l.key, Renew: l.renewed, Named: l.failed,
		Held: func(rx *Rx, _ string, clock func() BootTime) (txn.LeaseColumns, error) {
			return l.held(&d.store, rx.in, clock)
		},
	}, l.row.LeaseColumns)
	return l
}

func (l *Lease) check() error {
	kind, name := l.row.Kind, l.row.Name
	if kind == "" {
		return txn.Invalid("say what sort of thing it is: port, path", "the kind is empty")
	}
	if name == "" {
		return txn.Invalid("say which one of its kind it is", "the name is empty")
	}
	if err := txn.CheckID("kind", kind); err != nil {
		return err
	}
	return txn.CheckID(kind, name)
}

// take removes a reservation that is over and adds its own. The holder may release or renew
// meanwhile, and other callers may remove what is over, so it retries.
func (l *Lease) take(tx *txn.Tx, o LeaseTerms) error {
	for {
		free, err := l.makeWay(tx)
		if err != nil {
			return err
		}
		if !free {
			continue
		}
		if taken, err := l.add(tx, o); taken || err != nil {
			return err
		}
	}
}

// add makes the reservation unless there is one.
func (l *Lease) add(tx *txn.Tx, o LeaseTerms) (ok bool, err error) {
	if l.row.LeaseColumns, err = tx.GrantLease(txn.LeaseTerms(o)); err != nil {
		return false, err
	}
	l.row.ReservedAt = Nanos(tx.Now())
	l.row.RenewedAt = l.row.ReservedAt
	columns := l.row.Columns(l.of)
	ok, err = tx.Find(&l.row.Epoch, sqlReserve, append(columns, txn.Checksum(columns...))...)
	if err == nil && ok {
		l.grant, err = tx.Grant("leases", l.row.Epoch)
	}
	return ok, err
}

// makeWay removes a reservation that is over, and returns an error for one that is not. free is
// false if it was renewed or removed since it was judged.
func (l *Lease) makeWay(tx *txn.Tx) (free bool, err error) {
	row, ok, err := tx.FindReservation(l.of, l.row.Kind, l.row.Name)
	if err != nil || !ok {
		return err == nil, err
	}
	held, err := judged(&tx.Rx, &row, l.scope)
	if err != nil {
		return false, err
	}
	if !held.State.Over() {
		return false, &Error{
			Op: "reserve", Entity: l.row.Kind, ID: l.id(),
			Hint: "wait until it is released, or release it: migrate reservations release",
			Err:  &ReservedError{held},
		}
	}
	taken, err := tx.TakeReservation(held.Epoch, row.Until)
	if err != nil || !taken {
		return false, err
	}
	return true, tx.ForgetDeadOwners()
}

// FreeTx returns a *ReservedError, inside the error about, if the reservation with this epoch holds. It
// is for a store whose row names the epoch under which it is written; nil names none. Lock that row
// first. A reservation that is over is removed, so that a renewal in progress finds it lost. scope is
// that of the reservation.
func FreeTx(tx *Tx, scope string, epoch *int64, about Error) error {
	if epoch == nil {
		return nil
	}
	in := tx.in
	in.BootTime() // before the statements
	for {
		row, ok, err := in.Reservation(*epoch)
		if err != nil || !ok {
			return err
		}
		held, err := judged(&in.Rx, &row, scope)
		if err != nil {
			return err
		}
		if !held.State.Over() {
			about.Hint = "wait until it is released, or write through its handle; see migrate reservations list"
			about.Err = &ReservedError{held}
			return &about
		}
		taken, err := in.TakeReservation(*epoch, row.Until)
		if err == nil && taken {
			err = in.ForgetDeadOwners()
		}
		if err != nil || taken {
			return err
		}
	}
}

// Call sets the id that errors of the lease show, for a store that reserves by the numbers of its rows.
// "" shows the name.
func (l *Lease) Call(id string) { l.shown = id }

func (l *Lease) id() string { return cmp.Or(l.shown, l.row.Name) }

// Reattach returns the handle of an existing reservation: one of this process, after an unknown
// outcome, or a detached one of any process. For any other reservation, and one that is over, the
// error is ErrLeaseLost. A process that has closed the file has released what it held.
func (d *DB) Reattach(ctx context.Context, scope, kind, name string, epoch int64) (l *Lease, err error) {
	err = d.Read(ctx, "reattach reservation", func(rx *Rx) error {
		l, err = d.ReattachTx(rx, scope, kind, name, epoch)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// ReattachTx is Reattach in the caller's transaction.
func (d *DB) ReattachTx(rx *Rx, scope, kind, name string, epoch int64) (*Lease, error) {
	l := newLease(scope, kind, name)
	l.row.Epoch = epoch
	_, err := l.held(&d.store, rx.in, rx.in.BootTime)
	if err != nil {
		return nil, err
	}
	row, found, err := rx.in.Reservation(epoch)
	if err == nil && !found {
		err = l.lost()
	}
	if err == nil {
		l.row = row
		l.handle(d, rx.in)
		l.of, _, err = rx.in.Scope(scope)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

const sqlHeld = `SELECT ` + txn.LeaseColumnNames + ` FROM leases
	WHERE epoch = ? AND scope = ? AND kind = ? AND name = ?`

// held returns the lease if it holds, and ErrLeaseLost if not. It reads the clock after the row.
func (l *Lease) held(of *txn.Handle, rx *txn.Rx, clock func() BootTime) (c txn.LeaseColumns, err error) {
	if err := rx.Of(of); err != nil {
		return c, l.failed("hold reservation", err)
	}
	rx.BootTime() // before the statements
	scope, ok, err := rx.Scope(l.scope)
	if err == nil && ok {
		ok, err = rx.Find(&c, sqlHeld, l.row.Epoch, scope, l.row.Kind, l.row.Name)
	}
	clock()
	if err == nil && ok && !l.grant.Undone() {
		ok, err = rx.HoldsLease(c)
	} else {
		ok = false
	}
	if err == nil && !ok {
		err = l.lost()
	}
	return c, l.failed("hold reservation", err)
}

// key returns the arguments of the lease's row. One with the lease's epoch existed before it is locked.
func (l *Lease) key(rx *Rx) ([]any, error) {
	if err := rx.in.Of(&l.db.store); err != nil {
		return nil, err
	}
	rx.in.BootTime() // before the statements
	scope, ok, err := rx.in.Scope(l.scope)
	if err != nil || !ok {
		return nil, err
	}
	return []any{scope, l.row.Kind, l.row.Name}, nil
}

func (l *Lease) lost() error {
	return &Error{
		Op: "hold reservation", Entity: l.row.Kind, ID: l.id(),
		Hint: "it was released, its time passed, or it is with another holder; stop working on it",
		Err:  fmt.Errorf("%w: the reservation with epoch %d is no longer held", ErrLeaseLost, l.row.Epoch),
	}
}

const sqlRenew = `UPDATE leases
	SET renewed_at = ?, lease_until = ?, lease_boot_id = ?, lease_time_ns = ?, lease_wall_until = ?, checksum = ?
WHERE epoch = ? AND lease_until IS NOT DISTINCT FROM ?`

// renewed stores the end of a renewed lease.
func (l *Lease) renewed(tx *Tx, exec func(query string, args ...any) (int64, error),
	was, now txn.LeaseColumns,
) error {
	row := l.row
	row.RenewedAt, row.LeaseColumns = Nanos(tx.Now()), now
	n, err := exec(sqlRenew, row.RenewedAt, row.Until, row.Boot, row.TimeNS, row.WallUntil,
		txn.Checksum(row.Columns(l.of)...), row.Epoch, was.Until)
	if err == nil && n == 0 {
		err = l.lost()
	}
	return err
}

// Release ends the reservation.
func (l *Lease) Release(ctx context.Context) error {
	return l.db.WriteEnd(ctx, "release reservation", l.ReleaseTx)
}

// ReleaseTx is Release in the caller's transaction.
func (l *Lease) ReleaseTx(tx *Tx) error {
	const op = "release reservation"
	err := l.Handle.row(tx, tx.in.WillChange)
	if err != nil {
		return l.failed(op, err)
	}
	was, err := l.held(&l.db.store, &tx.in.Rx, tx.in.ReadBootTime)
	if err != nil {
		return err
	}
	taken, err := tx.in.TakeReservation(l.row.Epoch, was.Until)
	if err == nil && !taken {
		err = l.lost()
	}
	return l.failed(op, err)
}

// failed adds the resource to an error that names none.
func (l *Lease) failed(op string, err error) error {
	if _, said := errors.AsType[*Error](err); err == nil || said {
		return err
	}
	return About(err, op, l.row.Kind, l.id(), nil)
}

// A Reservation is one entry of the list of reservations, with its state at the time of the call.
type Reservation struct {
	Scope      string
	Kind       string
	Name       string
	Epoch      int64
	Note       string        // purpose of the reservation; may be empty
	ReservedAt time.Time     // UTC
	RenewedAt  time.Time     // UTC; ReservedAt if it was never renewed
	TTL        time.Duration // from each renewal; 0: as long as its process lives
	Detached   bool          // it outlives its process
	PID        int           // of its process, in the process's own namespace; 0: detached
	Program    string        // its process's program; "": detached
	State      LeaseState
}

func judged(rx *txn.Rx, row *txn.ReservationRow, scope string) (v Reservation, err error) {
	v = Reservation{
		Scope: scope, Kind: row.Kind, Name: row.Name, Epoch: row.Epoch, Note: row.Note,
		ReservedAt: Time(row.ReservedAt), RenewedAt: Time(row.RenewedAt),
		Detached: row.Owner == nil, PID: row.PID, Program: row.Program,
	}
	if row.TTL != nil {
		v.TTL = time.Duration(*row.TTL)
	}
	v.State, err = rx.LeaseState(row.LeaseColumns)
	return v, err
}

// LeaseState is the state of a lease: "held"; "expired" (its time is over); "dead" (its process is
// gone); or "unknown", which counts as held: its time is not over, and its process can't be examined.
// Its method Over reports whether it is expired or dead.
type LeaseState = txn.LeaseState

// ReservationFilter selects reservations. The zero value selects all of the default scope.
type ReservationFilter struct {
	Scope string
	Kind  string // "": of every kind
}

const reservationsList = "reservations"

const (
	sqlReservations = txn.ReservationSQL +
		`WHERE l.scope = ? AND (l.kind, l.name) > (?, ?) ORDER BY l.kind, l.name LIMIT ` + paging.BoundLimit
	sqlReservationsOfKind = txn.ReservationSQL +
		`WHERE l.scope = ? AND l.kind = ? AND l.name > ? ORDER BY l.name LIMIT ` + paging.BoundLimit
)

// Reservations lists reservations by kind and name, including those that are over and have no new
// holder.
func (d *DB) Reservations(ctx context.Context, f ReservationFilter, at At) (page Page[Reservation],
	err error,
) {
	const op = "list reservations"
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	err = d.Read(ctx, op, func(rx *Rx) error {
		page = Page[Reservation]{}
		scope, ok, err := rx.in.Scope(f.Scope)
		if err != nil {
			return err
		}
		kind, name := f.Kind, ""
		if err := rx.in.ReadListCursor(reservationsList, at.After, []int64{scope}, &kind, &name); err != nil {
			return err
		}
		if f.Kind != "" && f.Kind != kind {
			return txn.NotThisCursor(at.After)
		}
		if !ok {
			return nil
		}
		query := sqlReservations
		if f.Kind != "" {
			query = sqlReservationsOfKind
		}
		items := txn.Each(rx.in, func(r *txn.ReservationRow) (Reservation, error) {
			return judged(rx.in, r, f.Scope)
		}, query, scope, kind, name, room.Items+1)
		page.Items, page.Next, err = paging.Fill(room, items,
			func(v *Reservation) int { return 200 + len(v.Name) + len(v.Note) },
			func(v *Reservation) string { return rx.in.Cursor(reservationsList, []int64{scope}, v.Kind, v.Name) })
		return err
	})
	return page, err
}

// Reservation returns the reservation of a kind and name, if there is one.
func (d *DB) Reservation(ctx context.Context, scope, kind, name string) (r Reservation, ok bool, err error) {
	err = d.Read(ctx, "find reservation", func(rx *Rx) error {
		id, there, err := rx.in.Scope(scope)
		if err != nil || !there {
			return err
		}
		row, found, err := rx.in.FindReservation(id, kind, name)
		if ok = found; err == nil && ok {
			r, err = judged(rx.in, &row, scope)
		}
		return err
	})
	return r, ok, err
}

// AllReservations iterates over all pages of Reservations.
func (d *DB) AllReservations(ctx context.Context, f ReservationFilter) iter.Seq2[Reservation, error] {
	return paging.All(func(at At) (Page[Reservation], error) { return d.Reservations(ctx, f, at) })
}

const (
	sqlHeldFrom       = txn.ReservationSQL + `WHERE l.scope = ? AND l.epoch > ? ORDER BY l.epoch LIMIT ?`
	sqlHeldFromOfKind = txn.ReservationSQL +
		`WHERE l.scope = ? AND l.epoch > ? AND l.kind = ? ORDER BY l.epoch LIMIT ?`
)

// recoverBatch is the number of reservations that one transaction examines, so that other writers
// don't wait long.
const recoverBatch = 200

// RecoverReservations removes the reservations that pass the filter and are over, and returns how
// many there were. Such reservations block no caller: this only tidies up. It is safe to call at
// any time.
func (d *DB) RecoverReservations(ctx context.Context, f ReservationFilter) (removed int, err error) {
	from := int64(0)
	for more := true; more && err == nil; {
		n, last := 0, from
		err = d.Reclaim(ctx, "recover reservations", func(tx *Tx) (err error) {
			n, last, more, err = recoverReservations(tx.in, f, from)
			return err
		})
		if from = last; err == nil {
			removed += n
		}
	}
	return removed, err
}

func recoverReservations(tx *txn.Tx, f ReservationFilter, from int64) (removed int, last int64, more bool,
	err error,
) {
	tx.BootTime() // before the statements
	scope, ok, err := tx.Rx.Scope(f.Scope)
	if err != nil || !ok {
		return 0, from, false, err
	}
	query, args := sqlHeldFrom, []any{scope, from, recoverBatch}
	if f.Kind != "" {
		query, args = sqlHeldFromOfKind, []any{scope, from, f.Kind, recoverBatch}
	}
	var rows []txn.ReservationRow
	if err := tx.Select(&rows, query, args...); err != nil {
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
		taken, err := tx.TakeReservation(rows[i].Epoch, rows[i].Until)
		if err != nil {
			return 0, from, false, err
		}
		if taken {
			removed++
		}
	}
	if removed > 0 {
		err = tx.ForgetDeadOwners()
	}
	return removed, last, len(rows) == recoverBatch, err
}

// ReleaseReservation ends another holder's reservation; that holder's lease is lost. Use it only if
// the holder is known not to return. The epoch, as listed, ensures that the right reservation is
// released. If nothing is reserved, or the epoch differs, it returns ErrNotFound.
func (d *DB) ReleaseReservation(ctx context.Context, scope, kind, name string, epoch int64) error {
	const op = "release reservation"
	return d.WriteEnd(ctx, op, func(tx *Tx) error {
		id, ok, err := tx.in.Rx.Scope(scope)
		var n int64
		if err == nil && ok {
			n, err = tx.Exec(sqlReleaseAny, epoch, id, kind, name)
		}
		if err == nil && n == 0 {
			return &Error{
				Op: op, Entity: kind, ID: name, Hint: "see what is reserved: migrate reservations list",
				Err: ErrNotFound,
			}
		}
		return err
	})
}

const sqlReleaseAny = `DELETE FROM leases WHERE epoch = ? AND scope = ? AND kind = ? AND name = ?`
