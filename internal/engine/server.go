package engine

import (
	"context"
	"time"
)

// A Server is how a server is doing, as far as its user may see.
type Server struct {
	SeesAll bool       `db:"sees_all"` // the user may see what others' sessions do
	Waits   []LockWait // the longest first
	// Oldest has the transaction that is open for longest; its PID is 0 where none is open.
	Oldest          Session
	Connections     int64 `db:"connections"`
	MostConnections int64 `db:"most"` // for users other than administrators
	// Awaited are the standbys that a commit waits for, in the server's own notation; "" for none.
	Awaited        string    `db:"awaited"`
	AwaitedThere   bool      `db:"there"`   // one of those streams
	CommitsWaiting int64     `db:"waiting"` // commits that wait for one
	Standbys       []Standby // those that are connected
	IDsSpent       int64     `db:"spent"` // transactions since the oldest row that is not frozen
	Slots          []Slot    // that keep WAL for a consumer that is not connected
	// ArchiveFails is the WAL file that the archive refused last; "" where it takes them.
	ArchiveFails string `db:"archive_fails"`
}

// A Session of a server is one connection, or a transaction that was prepared.
type Session struct {
	// PID is the server's process; 0 for a prepared transaction, which has none.
	PID     int64  `db:"pid"`
	Program string `db:"program"` // as it calls itself, or the name of the prepared transaction
	User    string `db:"role"`
	// as the server has it: active, idle in transaction …; "" where the user may not see it
	State string `db:"state"`
	Nanos int64  `db:"nanos"` // for how long its transaction is open; 0 where the user may not see it
}

// For is for how long its transaction is open.
func (s Session) For() time.Duration { return time.Duration(s.Nanos) }

// A LockWait is a session that waits for a lock, and the sessions that hold it or wait before it.
type LockWait struct {
	Session
	Waited time.Duration
	HeldBy []Session
}

// A Standby of a server.
type Standby struct {
	Name   string `db:"name"`
	State  string `db:"state"`  // streaming, catchup …
	Sync   string `db:"sync"`   // sync, quorum, potential or async
	Behind int64  `db:"behind"` // bytes of WAL that it has not replayed
}

// A Slot keeps WAL.
type Slot struct {
	Name string `db:"name"`
	Kept int64  `db:"kept"` // bytes
}

type waitsKey struct{}

// WithWaits makes calls that get the context report the sessions that they wait for.
func WithWaits(ctx context.Context, tell func([]Session)) context.Context {
	return context.WithValue(ctx, waitsKey{}, tell)
}

// TellingWaits is the context's function for waits; nil without one.
func TellingWaits(ctx context.Context) func([]Session) {
	tell, _ := ctx.Value(waitsKey{}).(func([]Session))
	return tell
}
