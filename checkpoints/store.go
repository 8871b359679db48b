package checkpoints

import (
	"errors"
	"fmt"
	"time"

	"selvedge/checkpoints/internal/codec"
	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Options are the choices of NewStore. The zero value is the default.
type Options struct {
	// Scope is the part of the file that the store uses; "" is the default scope.
	Scope string
	// Agent restricts the store to the checkpoints of one agent: calls by the id of a run are about
	// that agent's run, and lists have no others. "" names no agent: lists have those of all
	// agents, and a call by an id that only named agents have is db.ErrConflict, which names the
	// first of them.
	Agent string
	// ClaimTTL is how long a claim lasts without a renewal before RecoverOrphaned may take it from a
	// process that still lives. 0 means that only the death of its process frees a claim.
	ClaimTTL time.Duration
}

// A Store keeps the checkpoints of one scope. Its methods are safe for concurrent use, in any
// number of processes.
type Store struct {
	db    *db.DB
	scope string
	agent string
	ttl   time.Duration
}

// NewStore returns the store of a scope. It reads and writes nothing.
func NewStore(d *db.DB, o Options) *Store {
	return &Store{db: d, scope: o.Scope, agent: o.Agent, ttl: max(0, o.ClaimTTL)}
}

// as returns the store of an agent; s itself for "".
func (s *Store) as(agent string) *Store {
	if agent == "" || agent == s.agent {
		return s
	}
	other := *s
	other.agent = agent
	return &other
}

const (
	// ofRun selects the rows of a run of an agent. The index has this expression.
	ofRun = `scope = ? AND run_id = ? AND coalesce(agent_id, '') = ?`
	// ofAgent selects the rows that the lists of a store have.
	ofAgent       = `? IN ('', coalesce(agent_id, ''))`
	sqlFirstAgent = `SELECT agent_id FROM checkpoints WHERE id = (SELECT min(id) FROM checkpoints
		WHERE scope = ? AND run_id = ? AND agent_id IS NOT NULL)`
)

// key returns the arguments of ofRun.
func (s *Store) key(scope int64, runID string) []any { return []any{scope, runID, s.agent} }

// otherAgent is the error of a call that found no row: ErrConflict if it named no agent, and a named
// one has the run.
func (s *Store) otherAgent(rx *db.Rx, scope int64, runID string) error {
	if s.agent != "" {
		return nil
	}
	var first string
	if taken, err := rx.Find(&first, sqlFirstAgent, scope, runID); err != nil || !taken {
		return err
	}
	return txn.Conflict("name the agent: Options.Agent and Ref.AgentID in Go, --agent in commands",
		"the agent %q has a run of that id", first)
}

// look checks the ids and runs fn on the scope. A scope without rows is empty: fn is
// not run.
func (s *Store) look(rx *db.Rx, op, runID string, fn func(scope int64) error) error {
	err := checkID(runID)
	if err == nil {
		err = txn.CheckID("agent", s.agent)
	}
	if err == nil {
		err = s.inScope(rx, fn)
	}
	return failed(op, runID, err)
}

// find is look for a function that reports whether it found its row; if not, the error is
// ErrNotFound.
func (s *Store) find(rx *db.Rx, op, runID string, fn func(scope int64) (bool, error)) error {
	found := false
	err := s.look(rx, op, runID, func(scope int64) (err error) {
		if found, err = fn(scope); err == nil && !found {
			err = s.otherAgent(rx, scope, runID)
		}
		return err
	})
	if err == nil && !found {
		err = failed(op, runID, db.ErrNotFound)
	}
	return err
}

// findRef is find for the checkpoint that ref names: fn gets the condition of its state, and the
// arguments of ofRun.
func (s *Store) findRef(rx *db.Rx, op string, ref Ref, fn func(inState string, run []any) (bool, error),
) error {
	s = s.as(ref.AgentID)
	return s.find(rx, op, ref.RunID, func(scope int64) (bool, error) {
		inState, err := ref.State.condition()
		if err != nil {
			return false, err
		}
		return fn(inState, s.key(scope, ref.RunID))
	})
}

func (s *Store) inScope(rx *db.Rx, fn func(scope int64) error) error {
	rx.Store().BootTime() // before the statements: a process may be stopped between any two
	scope, there, err := stores.Scope(rx, s.db, s.scope)
	if err == nil && there {
		err = fn(scope)
	}
	return err
}

func checkID(runID string) error { return txn.CheckID("run", runID) }

func invalid(err error) error { return fmt.Errorf("%w: the document: %w", db.ErrInvalid, err) }

func corrupt(err error) error { return fmt.Errorf("%w: the document: %w", db.ErrCorrupt, err) }

// failed adds the run's id to an error without one.
func failed(op, runID string, err error) error {
	if runID == "" {
		return db.About(err, op, "", "", hintFor)
	}
	return db.About(err, op, "checkpoint", runID, hintFor)
}

// hintFor returns what a person can do about an error that has no hint of its own.
func hintFor(err error) string {
	var document *codec.Error
	switch {
	case errors.Is(err, db.ErrCorrupt) && errors.As(err, &document):
		return "see the document with: migrate checkpoints show; mend it and save it again, or remove the run"
	case errors.As(err, &document):
		return "save a document that has all members and no kinds of stages that only later versions know"
	case errors.Is(err, db.ErrInvalid):
		return "an id is valid UTF-8 of at most 1 KiB without NUL; a state is paused or claimed"
	case errors.Is(err, db.ErrNotFound):
		return "see what there is: migrate checkpoints list"
	}
	return ""
}
