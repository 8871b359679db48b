package db

import "time"

// A Policy says what Prune keeps, of what has ended: the rest goes, the oldest first. The zero value keeps everything. What
// has not ended always stays.
type Policy struct {
	// Age is how long a thing is kept behind its end; 0 is no limit.
	Age time.Duration
	// Count is how many are kept, the newest, of each of those that a store counts apart (the runs of an agent); 0 is no limit.
	Count int
	// Bytes is how much is kept in the scope, the newest; 0 is no limit.
	Bytes int64
	// Pinned are the ids of what is kept whatever the limits say.
	Pinned []string
	// DryRun counts and removes nothing.
	DryRun bool
}

// Pruned is what Prune did, or would do.
type Pruned struct {
	Removed   int   // things that went
	Bytes     int64 // that they held
	Remaining int   // things that have ended and stay
}
