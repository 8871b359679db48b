package agents

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Builder makes the entry for an id that the registry generated. It may choose another id, thread
// or status. It runs inside the transaction, and so must be short, must not call the registry, and
// may run more than once.
type Builder func(id string) (Entry, error)

// A ReserveOutcome is the answer to a reservation: exactly one of the two is set.
type ReserveOutcome struct {
	Reserved  *Entry `json:"reserved,omitempty"`   // the thread is the caller's
	LiveOwner *Entry `json:"live_owner,omitempty"` // another agent, unchanged, has it
}

const opReserve = "reserve thread"

// TryReserveThreadTx is TryReserveThread inside a transaction. If build fails and the caller
// commits nevertheless, the entries that it put aside or abandoned stay so.
func (r *Registry) TryReserveThreadTx(tx *db.Tx, thread string, build Builder) (ReserveOutcome, error) {
	a, err := r.attempt(tx, opReserve, thread, nil, build)
	a, err = a.end(opReserve, err)
	return a.outcome, err
}

// An attempt is the outcome of an attempt at a thread, or of a search for an entry.
type attempt struct {
	outcome ReserveOutcome
	lease   *Lease
	entry   Entry // found, or created
	created bool
	failed  error // of the caller's functions: the changes before them are kept
	more    bool  // there are more stale entries to put aside
}

// end returns the attempt, or its error.
func (a attempt) end(why string, err error) (attempt, error) {
	if err == nil && a.failed != nil {
		err = named(why, "", a.failed)
	}
	if err != nil {
		return attempt{}, err
	}
	return a, nil
}

// try commits an attempt even if the caller's functions failed, and puts the remaining stale
// entries aside.
func (r *Registry) try(ctx context.Context, kind txn.Kind, why string, do func(*db.Tx) (attempt, error),
) (attempt, error) {
	a, err := stores.Get(ctx, stores.On(r.db, kind).Write, why, do)
	if a, err = a.end(why, err); err == nil {
		err = r.putAsideRest(ctx, why, a.more)
	}
	return a, err
}

// attempt is TryReserveThread, with a lease if o is not nil.
func (r *Registry) attempt(tx *db.Tx, why, thread string, o *db.LeaseTerms, build Builder) (a attempt,
	err error,
) {
	err = r.writeTx(tx, why, "", func(scope int64) error {
		if o != nil && o.TTL <= 0 {
			return invalid("set LeaseTerms.TTL", "a lease needs a time to live, not %v", o.TTL)
		}
		if err := tx.Store().WillChange(threadName, scope, thread); err != nil {
			return err
		}
		if err := tx.Store().Prefetch(sqlOnThread, scope, thread); err != nil {
			return err
		}
		if a.more, err = putAside(tx, scope); err != nil {
			return err
		}
		owner, err := r.liveOwner(tx, scope, thread)
		if err != nil || owner != nil {
			a.outcome.LiveOwner = owner
			return err
		}
		a.failed, err = inSavepoint(tx, func() error {
			e, id, err := r.build(tx, scope, build)
			if err != nil {
				return err
			}
			a.lease, err = r.claim(tx, scope, thread, &e, id, o)
			a.outcome.Reserved = &e
			return err
		})
		if errors.Is(a.failed, errTaken) {
			a.outcome.Reserved, a.lease, a.failed = nil, nil, nil
			holder, there, wrong := findOne(&tx.Rx, sqlHolder, scope, thread)
			if err = wrong; there {
				a.outcome.LiveOwner = &holder
			}
		}
		return err
	})
	return a, err
}

var (
	errUndone = errors.New("undone")
	// errTaken: the thread's row exists already, and no agent is active on it. A program that does not lock
	// the thread's name, of an older release, is adding both.
	errTaken = errors.New("the thread was reserved meanwhile")
)

// inSavepoint keeps the changes made before fn if fn fails. It returns fn's error apart from those
// that end the transaction.
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

// threadName is what a reservation locks before it reads who is active on the thread.
var threadName = txn.Agents.Name("%d thread %q")

// enter is for a call that makes an entry active on a thread without reserving it. On a server, a
// serialisable transaction may have read that nobody is active there before another one reserved the
// thread. Then the insertion fails, because it meets a row that the transaction does not see, and the
// transaction runs again. Later reservations wait until it ends.
func enter(tx *db.Tx, scope int64, e *Entry, agent int64) error {
	if e.Status != Active || tx.Store().SingleWriter() || !tx.Store().Serializable() {
		return nil
	}
	err := tx.Store().Keep(threadName, scope, e.Thread)
	if err == nil {
		err = tx.Store().Queue(sqlMeet, scope, e.Thread, agent, 0)
	}
	if err == nil {
		err = tx.Store().Queue(sqlMet, agent)
	}
	return err
}

// liveOwner abandons the dead agents of the thread until it finds one that is not dead.
func (r *Registry) liveOwner(tx *db.Tx, scope int64, thread string) (*Entry, error) {
	if tx.Store().SingleWriter() { // a server's rows came with the last message
		taken := false // the driver names all columns of an entry, even for a query without rows
		if err := tx.Get(&taken, sqlThreadTaken, scope, thread); err != nil || !taken {
			return nil, err
		}
	}
	active, err := findEntries(&tx.Rx, sqlOnThread, scope, thread)
	if err != nil {
		return nil, err
	}
	for i := range active {
		one := &active[i]
		judged, err := liveness(&tx.Rx, one)
		if err == nil && judged == Dead {
			one, judged, err = lockDead(tx, scope, one)
		}
		if err != nil {
			return nil, err
		}
		if one == nil || one.Status != Active || one.Thread != thread {
			continue // it left meanwhile
		}
		if judged != Dead {
			owner := one.Entry
			return &owner, nil
		}
		if err := end(tx, one, Abandoned); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// lockDead locks an entry whose agent was dead, and judges it again. It is nil if it was removed meanwhile.
func lockDead(tx *db.Tx, scope int64, was *stored) (s *stored, judged Liveness, err error) {
	if tx.Store().SingleWriter() {
		return was, Dead, nil
	}
	s, err = lockedEntry(tx, scope, was.SessionID)
	if err == nil && s != nil && s.TTL != nil {
		err = relock(tx, s)
	}
	if err != nil || s == nil {
		return nil, Unknown, err
	}
	judged, err = liveness(&tx.Rx, s)
	return s, judged, err
}

const opCreate = "create agent"

// CreateGeneratedEntryTx is CreateGeneratedEntry inside a transaction.
func (r *Registry) CreateGeneratedEntryTx(tx *db.Tx, build Builder) (e Entry, err error) {
	err = r.writeTx(tx, opCreate, "", func(scope int64) error {
		e, err = r.add(tx, scope, build)
		return err
	})
	return e, err
}

// add is build for an entry that reserves nothing.
func (r *Registry) add(tx *db.Tx, scope int64, build Builder) (Entry, error) {
	e, key, err := r.build(tx, scope, build)
	if err == nil {
		err = enter(tx, scope, &e, key)
	}
	return e, err
}

// build adds the entry that the builder makes for a new id.
func (r *Registry) build(tx *db.Tx, scope int64, build Builder) (Entry, int64, error) {
	for {
		id := r.newID()
		e, err := build(id)
		if err != nil {
			return Entry{}, 0, err
		}
		made := e.started(tx)
		e.StartedAt = made.StartedAt
		if err := made.check(); err != nil {
			return Entry{}, 0, err
		}
		key, ok, err := insertEntry(tx, scope, made)
		switch {
		case err != nil || ok:
			return e, key, err
		case e.SessionID != id:
			return e, 0, &configError{
				Hint: "keep the id that was generated, or choose another",
				Text: fmt.Sprintf("the new entry took the session ID '%s' of another agent", e.SessionID),
				Is:   db.ErrConflict,
			}
		}
	} // the id was taken
}

// claim adds the thread's row. An entry that its builder made for another thread, or as ended,
// holds nothing.
func (r *Registry) claim(tx *db.Tx, scope int64, thread string, e *Entry, agent int64,
	o *db.LeaseTerms,
) (*Lease, error) {
	if e.Status != Active || e.Thread != thread {
		if o != nil {
			return nil, invalid("build an active entry on the thread that the lease is for",
				"a lease on thread '%s' needs an active entry on it, not one that is %s on '%s'", thread, e.Status,
				e.Thread)
		}
		if err := tx.Store().Keep(threadName, scope, e.Thread); err != nil { // others may be reserving that
			return nil, err
		}
		return nil, enter(tx, scope, e, agent)
	}
	l := &Lease{registry: r, id: e.SessionID, thread: thread}
	var columns txn.LeaseColumns
	var born *int64
	if o != nil {
		if !tx.Store().SingleWriter() {
			tx.Store().ReadBootTime() // the lease begins after the wait for the thread
		}
		var err error
		if columns, err = tx.Store().GrantLease(txn.LeaseTerms(*o)); err != nil {
			return nil, err
		}
		if o.Detached && e.PID != nil && LivenessFor(*e) == Alive {
			born = processBorn(*e.PID)
		}
	}
	args := append([]any{scope, thread, agent, db.Nanos(tx.Now()), born}, columns.Values()...)
	ok, err := tx.Find(&l.epoch, sqlReserve, args...)
	if err == nil && !ok {
		err = errTaken
	}
	if err == nil {
		l.grant, err = tx.Store().Grant("agent_reservations", l.epoch)
	}
	if err != nil || o == nil {
		return nil, err
	}
	return l.handle(&tx.Rx, columns), nil
}

var sqlHolder = sqlRow + `WHERE r.scope = ?1 AND ` + paging.Same("r.thread", "?2")

const opFindOrCreate = "find or create agent"

// FindOrCreateActiveEntryTx is FindOrCreateActiveEntry inside a transaction.
func (r *Registry) FindOrCreateActiveEntryTx(
	tx *db.Tx, matches func(Entry) bool, update func(*Entry), build Builder,
) (e Entry, created bool, err error) {
	a, err := r.findOrCreate(tx, matches, update, build)
	a, err = a.end(opFindOrCreate, err)
	return a.entry, a.created, err
}

func (r *Registry) findOrCreate(
	tx *db.Tx, matches func(Entry) bool, update func(*Entry), build Builder,
) (a attempt, err error) {
	err = r.writeTx(tx, opFindOrCreate, "", func(scope int64) error {
		if err := tx.Store().WillChange(allActive, scope); err != nil {
			return err
		}
		if a.more, err = putAside(tx, scope); err != nil {
			return err
		}
		a.failed, err = inSavepoint(tx, func() error {
			active, err := findEntries(&tx.Rx, sqlActive, scope)
			if err != nil {
				return err
			}
			for i := range active {
				if one := &active[i]; matches(one.Entry) {
					if one.TTL != nil { // its lease is locked after it
						err = tx.Store().WillChange(entryByID, scope, one.SessionID)
					}
					if err != nil {
						return err
					}
					a.entry, err = change(tx, scope, one, update, nil)
					return err
				}
			}
			a.created = true
			a.entry, err = r.add(tx, scope, build)
			return err
		})
		return err
	})
	return a, err
}

// allActive is what a search reads, and may add to.
var allActive = txn.FoundAgents.Rows(`SELECT id FROM scopes WHERE id = ?`)

var (
	sqlActive   = sqlRow + `WHERE a.scope = ? AND a.status = 'active' ORDER BY a.session_id`
	sqlOnThread = sqlRow + `WHERE a.scope = ?1 AND ` + paging.Same("a.thread", "?2") +
		` AND a.status = 'active' ORDER BY a.session_id`
	sqlThreadTaken = `SELECT EXISTS (SELECT 1 FROM agents WHERE scope = ?1 AND ` +
		paging.Same("thread", "?2") + ` AND status = 'active')`

	sqlReserve = `INSERT INTO agent_reservations (scope, thread, agent_id, reserved_at, pid_born_at, ` +
		txn.LeaseColumnNames + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING epoch`
	sqlMeet = `INSERT INTO agent_reservations (scope, thread, agent_id, reserved_at) VALUES (?, ?, ?, ?)
		ON CONFLICT DO NOTHING`
	sqlMet = `DELETE FROM agent_reservations WHERE agent_id = ?`
)
