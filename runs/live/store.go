package live

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Store keeps the live runs of one scope. Its methods are safe for concurrent use, also by
// several processes.
type Store struct {
	db    *db.DB
	scope string
	caps  caps
	lease db.LeaseTerms
}

// Options configure NewStore. The zero value is the default: no caps.
type Options struct {
	// Scope is the name of the scope: ids are unique in it, and calls on the whole store stay
	// within it. "" is the default scope.
	Scope string
	// MaxRuns bounds the runs of the scope; nil is no bound. Adding a run removes those added
	// first, whatever their status, at most 200 of them. Runs that are held stay, so the scope may
	// hold more.
	MaxRuns *uint64
	// MaxEventsPerRun bounds the events kept of a run, and MaxEventBytesPerRun the bytes of their
	// records as compact JSON; nil is no bound. Adding an event removes the oldest until both
	// bounds hold. An event larger than the bytes is removed at once, but counts and sets the
	// status.
	//
	// One call removes at most 4,000 events, so that none holds the writer for long; where a cap is
	// far below what is kept, it takes several calls.
	MaxEventsPerRun     *uint64
	MaxEventBytesPerRun *uint64
	// Lease holds the terms of Begin and Resume. The zero value holds a run as long as this process
	// lives.
	Lease db.LeaseTerms
}

// caps holds the largest numbers that are allowed; nil is no cap.
type caps struct{ runs, events, bytes *uint64 }

// over returns by how much n exceeds a cap.
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

// NewStore returns the store of a scope. It reads and writes nothing; the first run creates the
// scope.
func NewStore(d *db.DB, o Options) *Store {
	return &Store{
		db: d, scope: o.Scope,
		caps: caps{runs: o.MaxRuns, events: o.MaxEventsPerRun, bytes: o.MaxEventBytesPerRun}, lease: o.Lease,
	}
}

// lookup runs fn in the caller's read transaction. It does not call fn if nothing was ever written
// to the scope.
func (s *Store) lookup(rx *db.Rx, why, runID string, fn func(scope int64) error) error {
	if err := checkID(why, runID); err != nil {
		return err
	}
	scope, ok, err := s.scopeIn(rx)
	if err == nil && ok {
		err = fn(scope)
	}
	return named(why, runID, err)
}

// scopeIn returns the number of the store's scope in a transaction, which must be of the store's
// file; ok is false if nothing was ever written to the scope.
func (s *Store) scopeIn(rx *db.Rx) (int64, bool, error) { return stores.Scope(rx, s.db, s.scope) }

// inside runs fn in the caller's write transaction.
func (s *Store) inside(tx *db.Tx, why, runID string, fn func(scope int64) error) error {
	if err := checkID(why, runID); err != nil {
		return err
	}
	scope, err := stores.NewScope(tx, s.db, s.scope)
	if err == nil {
		err = fn(scope)
	}
	return named(why, runID, err)
}

// within returns what fn returns in a transaction of in, also with an error.
func within[T any](ctx context.Context, in stores.In[*db.Tx], why string, fn func(*db.Tx) (T, error),
) (v T, err error) {
	err = in(ctx, why, func(tx *db.Tx) error {
		v, err = fn(tx)
		return err
	})
	return v, err
}

// writing returns the call that writes events. Ends alone are written on a full disk too, so that a
// holder can release its run.
func writing(d *db.DB, events []Event) stores.In[*db.Tx] {
	to := stores.On(d, txn.LiveRuns)
	for i := range events {
		if kind := events[i].kind; kind != "agent_end" && kind != "error" {
			return to.Write
		}
	}
	return to.End
}

// write runs fn in a transaction that locks the run's row first, and writes to no other run.
func (s *Store) write(ctx context.Context, write stores.In[*db.Tx], why, runID string,
	fn func(tx *db.Tx, scope int64) error,
) error {
	if err := checkID(why, runID); err != nil {
		return err
	}
	return named(why, runID, write(ctx, why, func(tx *db.Tx) error {
		scope, err := tx.Store().Scope(s.scope)
		if err != nil {
			return err
		}
		return fn(tx, scope)
	}))
}

// read is lookup in a transaction of its own.
func (s *Store) read(ctx context.Context, why, runID string, fn func(rx *db.Rx, scope int64) error) error {
	if err := checkID(why, runID); err != nil {
		return err
	}
	return named(why, runID, s.readScope(ctx, why, fn))
}

func (s *Store) readScope(ctx context.Context, why string, fn func(rx *db.Rx, scope int64) error) error {
	return s.db.Read(ctx, why, func(rx *db.Rx) error {
		scope, ok, err := rx.Store().Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		return fn(rx, scope)
	})
}

// checkID returns db.ErrInvalid for an id that no run can have.
func checkID(why, runID string) error {
	if err := txn.CheckID("run", runID); err != nil {
		return &db.Error{Op: why, Entity: "live run", Err: err}
	}
	return nil
}

// named adds the run's id to an error.
func named(why, runID string, err error) error {
	return db.About(err, why, "live run", runID, nil)
}
