package txn

// Lock locks the rows that the query selects, until the transaction ends. A transaction that
// changes what belongs to a row locks the row first, or changes it. What is read after Lock in
// WriteLocked is the latest committed state. The query selects rows of one table, without a FOR
// clause; rows are locked in the order of the result. In a file there is one writer, and Lock does
// nothing.
func (tx *Tx) Lock(query string, args ...any) error {
	return tx.do(args, func() error { return tx.engine.Lock(query, args) })
}

// Hold keeps the rows that the query selects from being removed, until the transaction ends: the
// holder of a lease does its work after it. Others may still change a row, but not its keys, as a
// renewal does. The query is as for Lock.
func (tx *Tx) Hold(query string, args ...any) error {
	return tx.do(args, func() error { return tx.engine.Hold(query, args) })
}

// LockName excludes other transactions that lock the same name of a table, until this one ends. It
// is for check-then-insert, when there is no row to lock yet. What is read after it is as for Lock.
// In a file it does nothing.
func (tx *Tx) LockName(table, name string) error {
	return tx.do(nil, func() error { return tx.engine.LockName(table, name) })
}

// mostReplaced is how often a row may be replaced while its lock is awaited, before the row counts
// as readable but not lockable.
const mostReplaced = 100

// FindLocked is Find for a row of one table, locked as by Lock: the row is the latest committed
// one, and stays so. If another row replaced it during the wait, that one is found. A row that a
// policy of the server lets this user read but not change is engine.ErrInvalid. The query is as for Lock.
func (tx *Tx) FindLocked(dest any, query string, args ...any) (bool, error) {
	for range mostReplaced {
		found, err := tx.FindForInsert(dest, query, args...)
		if found || err != nil || tx.SingleWriter() {
			return found, err
		}
		// The row may be gone, and its replacement newer than the query.
		if found, err := tx.Find(dest, query, args...); !found || err != nil {
			return false, err
		}
	}
	return false, Invalid("let the user change what it may read: see the policies for row security of "+
		"the table", "a row is there that can't be locked")
}

// FindForInsert is FindLocked for a caller that inserts the row if there is none: if another
// transaction inserted it meanwhile, a unique key fails and the function runs again.
func (tx *Tx) FindForInsert(dest any, query string, args ...any) (bool, error) {
	return tx.Find(dest, tx.engine.Locking(query, args), args...)
}

// SingleWriter reports whether this is the only writing transaction, so that one statement may read the
// last value and write the next. Otherwise those are two statements, and db.Write runs the
// transaction again if it conflicts with another.
func (tx *Tx) SingleWriter() bool { return tx.engine.SingleWriter() }
