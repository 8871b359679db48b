package db

// What is the kind of an item that a follower receives.
type What int

const (
	// Written: an item was written.
	Written What = iota
	// StatusChanged: the followed entity has a new status.
	StatusChanged
	// Gap: items, or the entity itself, were removed before the follower read them.
	Gap
)

// A Followed is one item that a follower receives. R identifies the followed entity, and T is an
// item of its stream.
type Followed[R, T any] struct {
	Of     R
	What   What
	Item   T      // Written
	Status string // StatusChanged: the new one
	Reason string // Gap: what was removed
	Gone   bool   // Gap: the entity itself is gone; its stream ends
	// Cursor is the position after this item in the stream of Of: pass it to Follow to continue from
	// there.
	Cursor string
}
