package db

import (
	"time"

	"selvedge/internal/txn"
)

// A Policy says which ended items Prune keeps; it removes the rest, oldest first. The zero value
// keeps everything. Open, pinned and held items always stay.
type Policy struct {
	// Age is how long an item is kept after its end; 0 is no limit.
	Age time.Duration
	// Count is how many of the newest items are kept per group that the store counts (the runs of an
	// agent); 0 is no limit.
	Count int
	// Bytes is how many bytes of the newest items are kept in the scope; 0 is no limit.
	Bytes int64
	// Pinned are ids that are kept in addition, whatever the limits say.
	Pinned []string
	// DryRun counts and removes nothing.
	DryRun bool
	// Each, if not nil, is called for each removed item after the commit, or for each item that would
	// be removed. It runs on the caller's goroutine: if it panics or calls runtime.Goexit, so does the
	// call, and what was removed stays removed.
	Each func(Gone)
}

// KeepNone is the limit of a Policy (Age, Count or Bytes) that keeps nothing that has ended.
const KeepNone = txn.KeepNone

// Pruned is what Prune removed, or would remove.
type Pruned struct {
	Removed   int   // things that went
	Bytes     int64 // that they held, about
	Ended     int   // runs that were open, and that nobody would have ended: they are incomplete now, and stay
	Remaining int   // things that have ended and stay
}

// Gone is an item that Prune removed, or would remove.
type Gone struct {
	Of    string // of whom a store counts it: the agent of a run, the session of a live run
	ID    string
	Bytes int64 // that it held, about
}
