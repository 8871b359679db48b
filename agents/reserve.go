package agents

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db"
	registry "selvedge/internal/agents"
)

// A Builder makes the entry for an id that the registry generated. It may choose another id, thread or status. It runs
// inside the transaction, and so must be short, must not call the registry, and may run more than once.
type Builder func(id string) (Entry, error)

// A ReserveOutcome is the answer to a reservation: exactly one of the two is set.
type ReserveOutcome struct {
	Reserved  *Entry `json:"reserved,omitempty"`   // the thread is the caller's
	LiveOwner *Entry `json:"live_owner,omitempty"` // somebody else, unchanged, has it
}

// A ReservedError says that a thread is somebody else's. It is a db.ErrConflict.
type ReservedError struct {
	Thread string
	Owner  Entry
}

// Error is the original's text.
func (e *ReservedError) Error() string {
	return fmt.Sprintf("configuration error: thread '%[1]s' already has active reservation %[2]s. Use `heddle thread show %[1]s` "+
		"to inspect it, or release the session before starting another writer.", e.Thread, e.Owner.SessionID)
}

// Unwrap makes it a db.ErrConflict.
func (e *ReservedError) Unwrap() error { return db.ErrConflict }

// TryReserveThread gives the thread to a new agent, unless one that is active on it lives, or may live (see LivenessFor
// and Lease): that one is the answer, and build is not called. Those that are met before it, by id, and are dead are
// abandoned; that stays so when build fails. An id of build's own that another agent has is a db.ErrConflict, and nothing
// is built.
//
// However many processes try at once, one gets the thread and each of the others is told whose it is.
func (r *Registry) TryReserveThread(ctx context.Context, thread string, build Builder) (ReserveOutcome, error) {
	out, _, err := r.reserve(ctx, "reserve thread", thread, nil, build)
	return out, err
}

// CreateGeneratedEntryForThread is TryReserveThread for callers to whom an owner is an error: a *ReservedError.
func (r *Registry) CreateGeneratedEntryForThread(ctx context.Context, thread string, build Builder) (Entry, error) {
	out, err := r.TryReserveThread(ctx, thread, build)
	if err == nil && out.LiveOwner != nil {
		err = &db.Error{
			Op: "reserve thread", Entity: "thread", ID: thread, Hint: "wait for agent " + out.LiveOwner.SessionID + ", or release it",
			Err: &ReservedError{Thread: thread, Owner: *out.LiveOwner},
		}
	}
	if err != nil {
		return Entry{}, err
	}
	return *out.Reserved, nil
}

// CreateGeneratedEntry adds what build makes for a new id. Nobody is asked about its thread.
func (r *Registry) CreateGeneratedEntry(ctx context.Context, build Builder) (e Entry, err error) {
	err = r.write(ctx, "create agent", "", func(tx *db.Tx, scope int64) error {
		e, _, err = r.build(tx, scope, build)
		return err
	})
	return e, err
}

// FindOrCreateActiveEntry gives update the first active entry, by id, that matches, and stores what it makes of it;
// nobody asks whether the agent lives. If none matches, what build makes for a new id is added, and created is true. Stale
// entries are put aside, also when build fails. The three functions run inside the transaction, as a Builder does.
func (r *Registry) FindOrCreateActiveEntry(
	ctx context.Context, matches func(Entry) bool, update func(*Entry), build Builder,
) (e Entry, created bool, err error) {
	const why = "find or create agent"
	var failed error
	more := false
	err = r.write(ctx, why, "", func(tx *db.Tx, scope int64) error {
		e, created, failed = Entry{}, false, nil
		if more, err = putAside(tx, scope); err != nil {
			return err
		}
		failed, err = inSavepoint(tx, func() error {
			e, created, err = r.findOrCreate(tx, scope, matches, update, build)
			return err
		})
		return err
	})
	if err == nil && failed != nil {
		err = named(why, "", failed)
	}
	if err != nil {
		return Entry{}, false, err
	}
	return e, created, r.putAsideRest(ctx, why, more)
}

func (r *Registry) findOrCreate(
	tx *db.Tx, scope int64, matches func(Entry) bool, update func(*Entry), build Builder,
) (Entry, bool, error) {
	active, err := registry.FindAll(&tx.Rx, sqlActive, scope)
	if err != nil {
		return Entry{}, false, err
	}
	for i := range active {
		if matches(entryOf(&active[i].Record)) {
			e, err := change(tx, scope, &active[i], update)
			return e, false, err
		}
	}
	e, _, err := r.build(tx, scope, build)
	return e, true, err
}

const (
	sqlActive   = registry.SQLRow + `WHERE a.scope = ? AND a.status = 'active' ORDER BY a.session_id`
	sqlOnThread = registry.SQLRow + `WHERE a.scope = ? AND a.thread = ? AND a.status = 'active' ORDER BY a.session_id`
	sqlIDTaken  = `SELECT EXISTS (SELECT 1 FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL)`

	sqlReserve = `INSERT INTO agent_reservations (scope, thread, agent_id, reserved_at, lease_ttl, lease_until, lease_boot_id, owner_id, pid_born_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING epoch`
)

// reserve is TryReserveThread, with a lease where one is wanted.
func (r *Registry) reserve(ctx context.Context, why, thread string, o *LeaseOptions, build Builder) (out ReserveOutcome, l *Lease, err error) {
	var failed error // the builder's: what was done before it is kept
	more := false
	err = r.write(ctx, why, "", func(tx *db.Tx, scope int64) error {
		out, l, failed = ReserveOutcome{}, nil, nil
		if more, err = putAside(tx, scope); err != nil {
			return err
		}
		owner, err := r.liveOwner(tx, scope, thread)
		if err != nil || owner != nil {
			out.LiveOwner = owner
			return err
		}
		failed, err = inSavepoint(tx, func() error {
			e, id, err := r.build(tx, scope, build)
			if err != nil {
				return err
			}
			l, err = r.claim(tx, scope, thread, &e, id, o)
			out.Reserved = &e
			return err
		})
		if errors.Is(failed, errTaken) {
			out.Reserved, l, failed = nil, nil, nil
			out.LiveOwner, err = r.holder(tx, scope, thread)
		}
		return err
	})
	if err == nil && failed != nil {
		err = named(why, "", failed)
	}
	if err != nil {
		return ReserveOutcome{}, nil, err
	}
	return out, l, r.putAsideRest(ctx, why, more)
}

var (
	errUndone = errors.New("undone")
	// errTaken: the thread's row is there already. Where there is one writer at a time, nobody's claim comes between.
	errTaken = errors.New("the thread was reserved meanwhile")
)

// inSavepoint keeps what was done before fn when fn fails, and fn's error apart from those that end the transaction.
func inSavepoint(tx *db.Tx, fn func() error) (failed, err error) {
	err = tx.Savepoint(func() error {
		if failed = fn(); failed != nil {
			return errUndone
		}
		return nil
	})
	if failed != nil && errors.Is(err, errUndone) {
		return failed, nil
	}
	return nil, err
}

// liveOwner abandons dead agents of the thread until it meets one that is not.
func (r *Registry) liveOwner(tx *db.Tx, scope int64, thread string) (*Entry, error) {
	active, err := registry.FindAll(&tx.Rx, sqlOnThread, scope, thread)
	if err != nil {
		return nil, err
	}
	for i := range active {
		one := &active[i]
		judged, err := r.liveness(&tx.Rx, &one.Row)
		if err != nil {
			return nil, err
		}
		if judged != Dead {
			owner := entryOf(&one.Record)
			return &owner, nil
		}
		if err := abandon(tx, one); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// build adds what the builder makes for an id that nobody has.
func (r *Registry) build(tx *db.Tx, scope int64, build Builder) (Entry, int64, error) {
	id, err := r.freeID(tx, scope)
	if err != nil {
		return Entry{}, 0, err
	}
	e, err := build(id)
	if err != nil {
		return Entry{}, 0, err
	}
	made := e.record()
	if err := made.Check(); err != nil {
		return Entry{}, 0, err
	}
	key, ok, err := registry.Insert(tx, scope, made)
	if err == nil && !ok {
		err = &registry.ConfigError{Text: fmt.Sprintf("the new entry took the session ID '%s' of another agent", e.SessionID), Is: db.ErrConflict}
	}
	return e, key, err
}

func (r *Registry) freeID(tx *db.Tx, scope int64) (string, error) {
	for {
		id := r.newID()
		taken := false
		if err := tx.Get(&taken, sqlIDTaken, scope, id); err != nil || !taken {
			return id, err
		}
	}
}

// claim makes the thread's own row. An entry that its builder made for another thread, or as ended, holds nothing.
func (r *Registry) claim(tx *db.Tx, scope int64, thread string, e *Entry, agent int64, o *LeaseOptions) (*Lease, error) {
	if e.Status != Active || e.Thread != thread {
		if o != nil {
			return nil, registry.Invalid("a lease on thread '%s' needs an active entry on it, not one that is %s on '%s'", thread, e.Status, e.Thread)
		}
		return nil, nil
	}
	var terms leaseTerms
	if o != nil {
		var err error
		if terms, err = r.terms(tx, e.record(), *o); err != nil {
			return nil, err
		}
	}
	var epoch int64
	ok, err := tx.Find(&epoch, sqlReserve, scope, thread, agent, db.Nanos(tx.Now()),
		terms.ttl, terms.until, terms.boot, terms.owner, terms.pidBorn)
	if err == nil && !ok {
		err = errTaken
	}
	if err != nil || o == nil {
		return nil, err
	}
	return &Lease{registry: r, id: e.SessionID, thread: thread, epoch: epoch, ttl: o.TTL}, nil
}

const sqlHolder = registry.SQLRow + `WHERE r.scope = ? AND r.thread = ?`

// holder gives the agent that has reserved the thread.
func (r *Registry) holder(tx *db.Tx, scope int64, thread string) (*Entry, error) {
	s, err := registry.Find(&tx.Rx, sqlHolder, scope, thread)
	if err != nil || s == nil {
		return nil, err
	}
	owner := entryOf(&s.Record)
	return &owner, nil
}
