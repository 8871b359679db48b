// Package storetest is the suite that every store passes on every engine, through package db
// alone.
//
//	func TestStores(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) *db.DB { … }) // a handle on a new, empty file
//	}
//
// It holds the stores to docs/grammar.md (lists, cursors, limits, the errors of a missing thing
// and of an ended context, zero times, followers, holders, pruning), and to the promises of
// docs/guarantees.md: a batch is kept whole or not at all, a repeat does nothing, one of several
// claims wins, a replaced holder is refused, sequences are dense, a page is one snapshot, a
// function that fails or panics leaves nothing, and content comes back byte for byte or was
// refused.
//
// A store joins by an adapter in stores.go, which defines its calls in a few lines; the laws that
// apply to it follow from what the adapter has.
//
// # Caveats
//
// It knows no engine: no SQL, no paths. Faults that only one engine can have, of its disk or of
// its connection, are left to that engine's own tests. Without a second handle ([Run]) nothing is
// tried between handles, and without another process ([RunShared]) no process is killed.
package storetest
