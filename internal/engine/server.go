package engine

import (
	"context"
	"slices"
	"time"
)

// A Server is the state of a server, as far as its user may see it.
type Server struct {
	SeesAll bool       `db:"sees_all"` // the user may see what others' sessions do
	Waits   []LockWait // the longest wait first
	// Oldest is the session whose transaction has been open for the longest time; its PID is 0 if
	// none is open.
	Oldest          Session
	Connections     int64 `db:"connections"`
	MostConnections int64 `db:"most"` // for users other than administrators
	// Awaited is the standbys that a commit waits for, in the server's own notation; "" for none.
	Awaited        string    `db:"awaited"`
	AwaitedThere   bool      `db:"there"`   // one of those streams
	CommitsWaiting int64     `db:"waiting"` // commits that wait for one
	Standbys       []Standby // those that are connected
	IDsSpent       int64     `db:"spent"` // transactions since the oldest row that is not frozen
	Slots          []Slot    // that retain WAL for a consumer that is not connected
	// ArchiveFails is the WAL file that the archive refused last; "" if it takes them.
	ArchiveFails string `db:"archive_fails"`
}

// A Session is a connection to a server, or a prepared transaction.
type Session struct {
	// PID is the server's process; 0 for a prepared transaction, which has none.
	PID     int    `db:"pid"`
	Program string `db:"program"` // as it calls itself, or the name of the prepared transaction
	User    string `db:"role"`
	// as the server reports it: active, idle in transaction …; "" if the user may not see it
	State string `db:"state"`
	// For is how long its transaction has been open; 0 if the user may not see it.
	For time.Duration `db:"nanos"`
}

// A LockWait is a session that waits for a lock, and the sessions that hold it or wait before it.
type LockWait struct {
	Session
	Waited time.Duration
	HeldBy []Session
}

// A Standby is a standby of a server.
type Standby struct {
	Name   string `db:"name"`
	State  string `db:"state"`  // streaming, catchup …
	Sync   string `db:"sync"`   // sync, quorum, potential or async
	Behind int64  `db:"behind"` // bytes of WAL that it has not replayed
}

// A Slot is a replication slot, which retains WAL.
type Slot struct {
	Name string `db:"name"`
	Kept int64  `db:"kept"` // bytes
}

type waitsKey struct{}

// WithWaits makes calls that get the context report the sessions that they wait for.
func WithWaits(ctx context.Context, tell func([]Session)) context.Context {
	return context.WithValue(ctx, waitsKey{}, tell)
}

// TellingWaits returns a function that reports the sessions that hold up one wait, when they change; nil if
// the context asks for none.
func TellingWaits(ctx context.Context) func([]Session) {
	tell, ok := ctx.Value(waitsKey{}).(func([]Session))
	if !ok {
		return nil
	}
	var told []int
	return func(sessions []Session) {
		var now []int
		for _, s := range sessions {
			now = append(now, s.PID)
		}
		if !slices.Equal(now, told) {
			told = now
			tell(sessions)
		}
	}
}
