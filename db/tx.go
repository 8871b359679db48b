package db

import (
	"iter"
	"time"

	"selvedge/internal/txn"
)

// Rx is a read transaction: one snapshot of the file. It is valid inside the function that received
// it; later use, by goroutines that the function left behind, is ErrInvalid. Goroutines may share
// it while the function runs; their statements run one at a time.
type Rx struct{ in *txn.Rx }

// Tx is a write transaction. Everything done through it is committed together, or not at all.
type Tx struct {
	Rx
	in   *txn.Tx
	call *call
}

// Store returns the calls that the stores of this module need besides: see package internal/txn.
func (rx *Rx) Store() *txn.Rx { return rx.in }

// Store returns the calls that the stores of this module need besides: see package internal/txn.
func (tx *Tx) Store() *txn.Tx { return tx.in }

// Now is the time of this transaction, in UTC, the same at every call.
func (rx *Rx) Now() time.Time { return rx.in.Now() }

// Get reads one row into dest, a struct with db tags or a scalar. No row is ErrNotFound.
func (rx *Rx) Get(dest any, query string, args ...any) error { return rx.in.Get(dest, query, args...) }

// Find is Get for a row that may be missing: it reports whether there was one. If there was none, a
// struct is zero.
func (rx *Rx) Find(dest any, query string, args ...any) (bool, error) {
	return rx.in.Find(dest, query, args...)
}

// Select reads all rows into dest, a pointer to a slice of structs with db tags or of scalars.
func (rx *Rx) Select(dest any, query string, args ...any) error {
	return rx.in.Select(dest, query, args...)
}

// Query reads rows one by one. The rows are closed when the loop over them ends, even early; each
// row is valid until the next one. An error ends the loop.
func (rx *Rx) Query(query string, args ...any) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for row, err := range rx.in.Query(query, args...) {
			if !yield((*Row)(row), err) {
				return
			}
		}
	}
}

// A Row is one row of a query, valid until the next one.
type Row txn.Row

// Scan reads the row's columns in order.
func (r *Row) Scan(dest ...any) error { return (*txn.Row)(r).Scan(dest...) }

// ScanStruct reads the row into a struct with db tags.
func (r *Row) ScanStruct(dest any) error { return (*txn.Row)(r).ScanStruct(dest) }

// Exec changes rows and returns their number.
func (tx *Tx) Exec(query string, args ...any) (int64, error) { return tx.in.Exec(query, args...) }

// Savepoint runs fn inside a savepoint. If fn fails, its changes are undone and earlier ones stay;
// Savepoint returns fn's error. What other goroutines write through tx while fn runs belongs to the
// savepoint. If one of them has a savepoint open when fn returns, or fn still runs when the
// transaction's function has returned, the whole transaction is undone with ErrInvalid.
func (tx *Tx) Savepoint(fn func() error) error { return tx.in.Savepoint(fn) }

// AfterCommit runs fn once the transaction is committed, before Write returns; not if it is undone.
// fn must be short and must not use the database (an error at once). If fn panics or calls
// runtime.Goexit, so does this Write, and no other: the transaction stays committed, the other
// functions passed to AfterCommit still run, and the *Panic has Committed set.
func (tx *Tx) AfterCommit(fn func()) { tx.in.AfterCommit(fn) }
