package db

import (
	"time"

	"selvedge/internal/txn"
)

// A Policy selects the ended items that Prune keeps; Prune removes the rest, oldest first. The zero
// value keeps everything. Open, pinned and held items always stay.
type Policy struct {
	// Age is how long an item is kept after its end; 0 is no limit.
	Age time.Duration
	// Count is how many of the newest items are kept per group that the store counts (the runs of an
	// agent); 0 is no limit.
	Count int
	// Bytes is how many bytes of the newest items are kept in the scope; 0 is no limit.
	Bytes int64
	// Pinned are ids that are kept regardless of the limits.
	Pinned []string
	// DryRun counts and removes nothing.
	DryRun bool
	// Each, if not nil, is called for each removed item after the commit, or for each item that would
	// be removed. It runs on the caller's goroutine: if it panics or calls runtime.Goexit, so does the
	// call; removed items stay removed.
	Each func(Gone)
}

// KeepNone is the limit of a Policy (Age, Count or Bytes) that keeps nothing that has ended.
const KeepNone = txn.KeepNone

// Pruned is what Prune removed, or would remove.
type Pruned struct {
	Removed   int   // items that were removed
	Bytes     int64 // of these items, about
	Ended     int   // open runs that no process would end: they are incomplete now, and stay
	Remaining int   // items that have ended and stay
}

// Gone is an item that Prune removed, or would remove.
type Gone struct {
	Of    string // its group in the store: the agent of a run, the session of a live run
	ID    string
	Bytes int64 // of the item, about
}
