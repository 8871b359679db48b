package runs

import (
	"context"
	"errors"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Store keeps the run traces of one scope. Its methods are safe for concurrent use, also by
// several processes.
type Store struct {
	db        *db.DB
	scope     string
	root      string
	retention RetentionConfig
	lease     db.LeaseTerms
	keys      keyCache
}

// Options configure NewStore. The zero value is the default.
type Options struct {
	// Scope is the name of the scope. "" is the default scope.
	Scope string
	// Retention is what GC keeps; nil means 50 runs per agent and 30 days.
	Retention *RetentionConfig
	// Lease holds the terms on which Begin and Resume hold a run. The zero value lasts as long as
	// this process.
	Lease db.LeaseTerms
	// Root is the folder of an old tree that this store replaces. The store never opens it; the
	// method Root returns it.
	Root string
}

// NewStore returns the store of a scope. It reads and writes nothing; the first run creates the
// scope.
func NewStore(d *db.DB, options Options) *Store {
	s := &Store{
		db: d, scope: options.Scope, root: options.Root, lease: options.Lease,
		retention: DefaultRetention(),
	}
	if options.Retention != nil {
		s.retention = *options.Retention
	}
	return s
}

// scopeIn returns the number of the store's scope in a transaction, which must be one of the
// store's file.
func (s *Store) scopeIn(rx *db.Rx) (id int64, ok bool, err error) {
	return stores.Scope(rx, s.db, s.scope)
}

// read runs fn in a short read on the store's scope, unless nothing was ever written to it.
func (s *Store) read(ctx context.Context, op string, fn func(rx *db.Rx, scope int64) error) error {
	return s.db.Read(ctx, op, func(rx *db.Rx) error {
		scope, ok, err := rx.Store().Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		return fn(rx, scope)
	})
}

// Root returns the folder of the old tree that this store replaces, or "".
func (s *Store) Root() string { return s.root }

// A RunRef names a run as the calls that write it do. A started record inside the run may name
// other ids; summaries show those.
type RunRef struct {
	AgentID string `db:"agent_id"`
	RunID   string `db:"run_id"`
}

// check returns ErrInvalid, with the reason, for ids that no run can have.
func (r RunRef) check() error {
	if err := txn.CheckID("agent", r.AgentID); err != nil {
		return err
	}
	return txn.CheckID("run", r.RunID)
}

// failed names the run in an error, and keeps the error's hint if it has one.
func (r RunRef) failed(op string, err error) error {
	hint := db.Hint(err)
	if hint == "" && errors.Is(err, db.ErrNotFound) {
		hint = "look at the agent, at the scope, and at what there is: migrate runs list"
	}
	return &db.Error{Op: op, Entity: "run", ID: r.RunID, Hint: hint, Err: err}
}

// findLocked locks a run's row and reads it. ErrNotFound: the run does not exist.
func (s *Store) findLocked(tx *db.Tx, op string, run RunRef) (row runRow, err error) {
	scope, ok, err := s.scopeIn(&tx.Rx)
	if err == nil && ok {
		ok, err = tx.Store().FindToChange(&row, runByName, scope, run.RunID, run.AgentID)
	}
	if err == nil && !ok {
		err = db.ErrNotFound
	}
	if err != nil {
		err = run.failed(op, err)
	}
	return row, err
}
