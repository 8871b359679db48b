// Package storetest is the suite that every store passes on every engine, through package db alone.
//
//	func TestStores(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) *db.DB { … }) // a handle on a new, empty file
//	}
//
// It holds the stores to docs/grammar.md (lists, cursors, limits, what a missing thing and the end
// of a context are, zero times, followers, holders, pruning), and to what docs/guarantees.md
// promises of them: a batch is kept whole or not at all, a repeat does nothing, of those who claim
// one wins, who was replaced is refused, sequences are dense, a page is one snapshot, a function
// that fails or panics leaves nothing, and what is kept comes back byte for byte or was refused.
//
// A store joins by an adapter in stores.go, which says in a few lines what its calls are; which
// laws it is held to follows from what the adapter has.
//
// # Caveats
//
// It knows no engine: no SQL, no paths. What only one engine can do wrong, faults of its disk or of
// its connection, is that engine's own tests' to find. Without a second handle ([Run]) nothing is
// tried between handles, and without another process ([RunShared]) nobody is killed.
package storetest
