package db

import "fmt"

// Of reports, as ErrInvalid, that the transaction is one of another file than d. A store asks it of the transactions that it
// is given: numbers of rows mean other things there.
func (rx *Rx) Of(d *DB) error {
	if rx.db == d || rx.db.path == d.path && d.path != memoryPath {
		return nil
	}
	return &Error{
		Op: "use transaction", Hint: "give the store a transaction of the file that it was made for",
		Err: fmt.Errorf("%w: the transaction is of another file, %s; the store's is %s", ErrInvalid, rx.db.path, d.path),
	}
}
