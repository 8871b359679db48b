package live

import (
	"context"

	"selvedge/db"
)

// A Store keeps the live runs of one scope. Its methods are safe for concurrent use, by many processes too.
type Store struct {
	db    *db.DB
	scope string
	caps  caps
	lease db.LeaseTerms
}

// Options are the choices of NewStore. The zero value is the default: no caps.
type Options struct {
	// Scope is the name of the scope: what ids are unique in, and what the whole-store calls are
	// about. "" is the default scope.
	Scope string
	// MaxRuns bounds the runs of the scope. When a run is added, those added first go, whatever their
	// status; at most 200 of them for one that is added.
	MaxRuns *uint64
	// MaxEventsPerRun bounds the events kept of a run, and MaxEventBytesPerRun the bytes of their
	// records as compact JSON. When an event is added, the oldest go until both hold. An event larger
	// than the bytes goes at once: status, count and sequence move on all the same.
	//
	// One call takes at most 4,000 events out, so that none holds the writer for long: where a cap is
	// far below what is kept, several calls bring it there.
	MaxEventsPerRun     *uint64
	MaxEventBytesPerRun *uint64
	// Lease are the terms on which Begin and Resume hold a run. The zero value: as long as this process lives.
	Lease db.LeaseTerms
}

// caps are the largest numbers; nil is none.
type caps struct{ runs, events, bytes *uint64 }

// over is by how much n exceeds a cap.
func over(limit *uint64, n int64) int64 {
	if limit == nil || n <= 0 || uint64(n) <= *limit {
		return 0
	}
	return n - int64(*limit)
}

// full reports whether a run keeps more than the caps allow.
func (c *caps) full(events, bytes int64) bool {
	return over(c.events, events) > 0 || over(c.bytes, bytes) > 0
}

// NewStore gives the store of a scope. Nothing is read or written; a scope comes into being with
// its first run.
func NewStore(d *db.DB, o Options) *Store {
	return &Store{
		db: d, scope: o.Scope,
		caps: caps{runs: o.MaxRuns, events: o.MaxEventsPerRun, bytes: o.MaxEventBytesPerRun}, lease: o.Lease,
	}
}

// look runs fn in a transaction of the caller's that reads. A scope that was never written to has
// no runs: fn is not called.
func (s *Store) look(rx *db.Rx, why, runID string, fn func(scope int64) error) error {
	if err := db.CheckID("run", runID); err != nil {
		return &db.Error{Op: why, Entity: "live run", Err: err}
	}
	scope, ok, err := s.scopeIn(rx)
	if err == nil && ok {
		err = fn(scope)
	}
	return named(why, runID, err)
}

// scopeIn gives the number of the store's scope in a transaction, which must be one of the store's
// file; ok is false where nothing was ever written to it.
func (s *Store) scopeIn(rx *db.Rx) (scope int64, ok bool, err error) {
	if err := rx.Of(s.db); err != nil {
		return 0, false, err
	}
	return rx.Scope(s.scope)
}

// inside runs fn in a transaction of the caller's that writes.
func (s *Store) inside(tx *db.Tx, why, runID string, fn func(scope int64) error) error {
	if err := db.CheckID("run", runID); err != nil {
		return &db.Error{Op: why, Entity: "live run", Err: err}
	}
	err := tx.Of(s.db)
	if err == nil {
		var scope int64
		if scope, err = tx.Scope(s.scope); err == nil {
			err = fn(scope)
		}
	}
	return named(why, runID, err)
}

// A writer is one of the calls of [db.DB] that write.
type writer func(d *db.DB, ctx context.Context, why string, fn func(*db.Tx) error) error

// writing is how events are written: an end alone also on a full disk, so that the run's holder can
// let it go.
func writing(events []Event) writer {
	for i := range events {
		if kind := events[i].kind; kind != "agent_end" && kind != "error" {
			return (*db.DB).WriteLocked
		}
	}
	return (*db.DB).WriteEnd
}

// write runs fn in a transaction that locks the run's row first, and keeps to the run.
func (s *Store) write(ctx context.Context, write writer, why, runID string,
	fn func(tx *db.Tx, scope int64) error,
) error {
	if err := db.CheckID("run", runID); err != nil {
		return &db.Error{Op: why, Entity: "live run", Err: err}
	}
	return named(why, runID, write(s.db, ctx, why, func(tx *db.Tx) error {
		scope, err := tx.Scope(s.scope)
		if err != nil {
			return err
		}
		return fn(tx, scope)
	}))
}

// read runs fn in a read transaction of the store's scope, for one run. A scope that was never
// written to has no runs: fn is not called.
func (s *Store) read(ctx context.Context, why, runID string, fn func(rx *db.Rx, scope int64) error) error {
	if err := db.CheckID("run", runID); err != nil {
		return &db.Error{Op: why, Entity: "live run", Err: err}
	}
	return named(why, runID, s.readScope(ctx, why, fn))
}

func (s *Store) readScope(ctx context.Context, why string, fn func(rx *db.Rx, scope int64) error) error {
	return s.db.Read(ctx, why, func(rx *db.Rx) error {
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		return fn(rx, scope)
	})
}

// named says in an error which run it is about.
func named(why, runID string, err error) error {
	return db.About(err, why, "live run", runID, nil)
}
