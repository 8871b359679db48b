// Package txn is a transaction as the stores of this module use it. Package db gives its users the
// few calls of db.Rx and db.Tx; a store gets the rest with their method Store:
//
//   - the kinds of things that calls change, which decide about row locks and isolation on a server
//   - queued statements and prefetches, which a server needs and a file does not
//   - the columns of a lease, owners, and the clock that leases run on
//   - scopes, cursors and checksums
//
// A transaction is for one function. Goroutines that the function starts may share it; what they
// call after it has returned is ErrInvalid.
package txn
