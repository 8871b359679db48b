package db

import (
	"fmt"
	"time"
)

// A Policy says what Prune keeps, of what has ended: the rest goes, the oldest first. The zero value keeps everything. What
// has not ended always stays, and so does what is pinned (see [DB.Pin]).
type Policy struct {
	// Age is how long a thing is kept behind its end; 0 is no limit.
	Age time.Duration
	// Count is how many are kept, the newest, of each of those that a store counts apart (the runs of an agent); 0 is no limit.
	Count int
	// Bytes is how much is kept in the scope, the newest; 0 is no limit.
	Bytes int64
	// Pinned are the ids of what is kept besides, whatever the limits say.
	Pinned []string
	// DryRun counts and removes nothing.
	DryRun bool
	// Each is called for each thing that went, after the commit, or that would go; nil is nobody.
	Each func(Gone)
}

// KeepNone is the limit of a Policy, Age, Count or Bytes, under which nothing stays that has ended.
const KeepNone = -1

// Pruned is what Prune did, or would do.
type Pruned struct {
	Removed   int   // things that went
	Bytes     int64 // that they held, about
	Remaining int   // things that have ended and stay
}

// Gone is a thing that Prune removed, or would remove.
type Gone struct {
	Of    string // of whom a store counts it: the agent of a run, the session of a live run
	ID    string
	Bytes int64 // that it held, about
}

// Check reports, as ErrInvalid, a limit that is none.
func (p Policy) Check() error {
	if p.Age < KeepNone || p.Count < KeepNone || p.Bytes < KeepNone {
		return &Error{Op: "prune", Hint: "0 is no limit, and db.KeepNone keeps nothing", Err: fmt.Errorf("%w: a limit below 0", ErrInvalid)}
	}
	return nil
}

// Limited reports whether the policy has a limit: without one it keeps everything.
func (p Policy) Limited() bool { return p.Age != 0 || p.Count != 0 || p.Bytes != 0 }
