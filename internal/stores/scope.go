package stores

import "selvedge/db"

// Scope returns the number of the scope of that name in a transaction, which must be of d's file; ok is
// false if nothing was ever written to the scope.
func Scope(rx *db.Rx, d *db.DB, name string) (id int64, ok bool, err error) {
	if err := rx.Store().Of(d.Store()); err != nil {
		return 0, false, err
	}
	return rx.Store().Scope(name)
}

// NewScope is Scope for a transaction that writes to the scope, and adds it if it is missing.
func NewScope(tx *db.Tx, d *db.DB, name string) (int64, error) {
	if err := tx.Store().Of(d.Store()); err != nil {
		return 0, err
	}
	return tx.Store().Scope(name)
}
