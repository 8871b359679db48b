package db

// What is the kind of news that a follower gets.
type What int

const (
	// Written: an item was written.
	Written What = iota
	// StatusChanged: the followed thing has a new status.
	StatusChanged
	// Gap: items, or the thing itself, were removed before the follower read them.
	Gap
)

// A Followed is one piece of news for a follower. R identifies the followed thing, and T is an item
// of its stream.
type Followed[R, T any] struct {
	Of     R
	What   What
	Item   T      // Written
	Status string // StatusChanged: the new one
	Reason string // Gap: what went
	Gone   bool   // Gap: the thing itself is gone, and nothing more comes of it
	// Cursor is the position after this item in the stream of Of: pass it to Follow to continue from
	// there.
	Cursor string
}
