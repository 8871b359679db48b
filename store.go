package selvedge

import (
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/runs"
	"selvedge/runs/live"
)

// A Ref names a run: the agent, and the id of the run. In the calls of a Store, an empty AgentID is
// the store's own agent.
type Ref = runs.RunRef

// Options configure a Store. The zero value is the default.
type Options struct {
	// Agent is the agent whose runs Submit, Take and Next make and take.
	Agent string
	// Scope is the name of the scope: ids of runs are unique in it. "" is the default scope.
	Scope string
	// Lease holds the terms on which a run is held. The zero value holds it as long as this process
	// lives; a process that hangs then keeps its runs. With a TTL, a process that does not renew in
	// time loses them.
	Lease db.LeaseTerms
	// Budget bounds what each of the runs uses.
	Budget Budget
	// DB are the options of the database, for Open.
	DB db.Options
}

// A Store makes and finds runs of one agent. Its methods are safe for concurrent use, also by
// several processes.
type Store struct {
	db     *db.DB
	opened bool // by Open
	o      Options
	runs   *runs.Store
	live   *live.Store
}

// The errors of this package. Each is a db.ErrConflict as well.
var (
	// ErrHeld: another holder has the run. The error names it; see [db.ReservedError].
	ErrHeld = fmt.Errorf("%w: the run is held", db.ErrConflict)
	// ErrEnded: the run has ended.
	ErrEnded = fmt.Errorf("%w: the run has ended", db.ErrConflict)
	// ErrWaiting: the run waits for the answer to a question. The error is a [NeedError].
	ErrWaiting = fmt.Errorf("%w: the run waits for an answer", db.ErrConflict)
	// ErrUnknown: an effect may have happened, and a person is asked. The error is a [NeedError].
	ErrUnknown = fmt.Errorf("%w: an effect may have happened", db.ErrConflict)
	// ErrGivenUp: an effect may have happened, and is not attempted again.
	ErrGivenUp = fmt.Errorf("%w: the effect was given up", db.ErrConflict)
	// ErrOverBudget: a run used its budget, and a person did not allow more.
	ErrOverBudget = fmt.Errorf("%w: the run is over its budget", db.ErrConflict)
)

// Open opens the database at path, as db.Open does, and returns a Store over it.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	d, err := db.Open(ctx, path, o.DB)
	if err != nil {
		return nil, err
	}
	s := On(d, o)
	s.opened = true
	return s, nil
}

// On returns a Store over an open database, beside its other stores.
func On(d *db.DB, o Options) *Store {
	return &Store{
		db: d, o: o,
		runs: runs.NewStore(d, runs.Options{Scope: o.Scope, Lease: o.Lease}),
		live: live.NewStore(d, live.Options{Scope: o.Scope, Lease: o.Lease}),
	}
}

// DB returns the database, for the other stores.
func (s *Store) DB() *db.DB { return s.db }

// Close closes the database if Open opened it. The runs that it held are then free.
func (s *Store) Close() error {
	if !s.opened {
		return nil
	}
	return s.db.Close()
}

// For returns a Store for the runs of another agent, over the same database.
func (s *Store) For(agent string) *Store {
	other := *s
	other.o.Agent, other.opened = agent, false
	return &other
}

// ref completes a reference.
func (s *Store) ref(r Ref) Ref {
	if r.AgentID == "" {
		r.AgentID = s.o.Agent
	}
	return r
}

// runRow holds the columns of a run that this package needs.
type runRow struct {
	Key     int64   `db:"key"`
	Scope   int64   `db:"scope"`
	Status  string  `db:"status"`
	Outcome *string `db:"outcome"`
	EndedAt *int64  `db:"ended_at"`
	Epoch   *int64  `db:"epoch"`
}

const sqlFindRun = `SELECT key, scope, status, outcome, ended_at, epoch FROM runs
	WHERE scope = ? AND run_id = ? AND agent_id = ?`

var (
	runByName = txn.Runs.Rows(sqlFindRun)
	runToAdd  = runByName.OrAdded()
	runName   = txn.Runs.Name("%d %q")
)

// find returns the row of a run.
func (s *Store) find(rx *db.Rx, ref Ref) (row runRow, found bool, err error) {
	scope, found, err := stores.Scope(rx, s.db, s.o.Scope)
	if err == nil && found {
		found, err = rx.Find(&row, sqlFindRun, scope, ref.RunID, ref.AgentID)
	}
	return row, found, err
}

// getLocked is get for a transaction that changes the run or what belongs to it: it locks the row.
func (s *Store) getLocked(tx *db.Tx, ref Ref) (row runRow, err error) {
	scope, found, err := stores.Scope(&tx.Rx, s.db, s.o.Scope)
	if err == nil && found {
		found, err = tx.Store().FindToChange(&row, runByName, scope, ref.RunID, ref.AgentID)
	}
	if err == nil && !found {
		err = db.ErrNotFound
	}
	return row, err
}

// get is find for a run that must exist.
func (s *Store) get(rx *db.Rx, ref Ref) (row runRow, err error) {
	row, found, err := s.find(rx, ref)
	if err == nil && !found {
		err = db.ErrNotFound
	}
	return row, err
}

// ended returns ErrEnded for a run that was completed or cancelled. An incomplete one can go on.
func (r *runRow) ended() error {
	switch {
	case r.EndedAt == nil || r.Status == string(runs.StatusIncomplete):
		return nil
	case r.Outcome != nil:
		return fmt.Errorf("%w: %s", ErrEnded, *r.Outcome)
	}
	return fmt.Errorf("%w: it was %s", ErrEnded, r.Status)
}

// named adds the run to an error.
func named(op string, ref Ref, err error) error {
	return db.About(err, op, "run", ref.RunID, db.Hint)
}

// check returns db.ErrInvalid for ids that no run can have.
func check(ref Ref) error {
	if ref.RunID == "" {
		return txn.Invalid("name the run; Submit makes an id", "the id of the run is empty")
	}
	if err := txn.CheckID("agent", ref.AgentID); err != nil {
		return err
	}
	return txn.CheckID("run", ref.RunID)
}
