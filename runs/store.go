package runs

import (
	"selvedge/db"
	traces "selvedge/internal/runs"
)

// A Store keeps the run traces of one scope. Its methods are safe for concurrent use, by many processes too.
type Store struct {
	db        *db.DB
	scope     string
	root      string
	retention RetentionConfig
	lease     db.LeaseTerms
	keys      traces.Keys
}

// Options are the choices of NewStore. The zero value is the default.
type Options struct {
	// Scope is the name of the scope. "" is the default scope.
	Scope string
	// Retention is what GC keeps; nil means 50 runs per agent and 30 days.
	Retention *RetentionConfig
	// Lease are the terms on which Begin and Resume hold a run. The zero value lasts as long as this process.
	Lease db.LeaseTerms
	// Root is the folder of an old tree that this store stands for. The store never opens it; Root
	// hands it back.
	Root string
}

// NewStore gives the store of a scope. Nothing is read or written; a scope comes into being with
// its first run.
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

// scopeIn gives the number of the store's scope in a transaction, which must be one of its file.
func (s *Store) scopeIn(rx *db.Rx) (id int64, ok bool, err error) {
	if err := rx.Of(s.db); err != nil {
		return 0, false, err
	}
	return rx.Scope(s.scope)
}

// Root is the folder of the old tree that this store stands for, or "".
func (s *Store) Root() string { return s.root }

// Scope is the name of the store's scope.
func (s *Store) Scope() string { return s.scope }

// Retention is what GC keeps.
func (s *Store) Retention() RetentionConfig { return s.retention }

// A RunRef names a run the way the calls that write it do. A started record inside the run may name
// other ids; summaries show those.
type RunRef struct {
	AgentID string `db:"agent_id"`
	RunID   string `db:"run_id"`
}

// failed names the run in an error.
func (r RunRef) failed(op string, err error) error { return traces.Ref(r).Failed(op, err) }
