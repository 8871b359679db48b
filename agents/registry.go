package agents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Options are the choices of NewRegistry. The zero value is the default.
type Options struct {
	// Scope is the part of the file that the registry uses; "" is the default scope.
	Scope string
}

// A Registry keeps the agents of one scope. Its methods are safe for concurrent use, in any number
// of processes.
type Registry struct {
	db    *db.DB
	scope string
	newID func() string
}

// NewRegistry returns the registry of a scope of d. It writes nothing.
func NewRegistry(d *db.DB, o Options) *Registry {
	return &Registry{db: d, scope: o.Scope, newID: GenerateID}
}

// staleAfter is the age, from its end, at which an entry leaves the registry.
const staleAfter = 7 * 24 * time.Hour

// staleBefore is the latest end of an entry that is stale at now.
func staleBefore(now time.Time) int64 { return db.Nanos(now.Add(-staleAfter)) }

const (
	sqlFresh      = `(a.status = 'active' OR coalesce(a.completed_at, a.started_at) > ?)`
	sqlStaleThere = `SELECT EXISTS (SELECT 1 FROM agents WHERE scope = ? AND put_aside_at IS NULL
		AND status <> 'active' AND coalesce(completed_at, started_at) <= ?)`
	sqlPutAside = `UPDATE agents SET put_aside_at = ? WHERE ` + sqlStale +
		` AND id IN (SELECT id FROM agents WHERE scope = ? AND ` + sqlStale + ` LIMIT ?)`
	sqlAside       = `UPDATE agents SET put_aside_at = ? WHERE id = ?`
	sqlPutAsideOne = `UPDATE agents SET put_aside_at = ? WHERE ` + sqlStale + ` AND scope = ? AND session_id = ?`
	sqlStale       = `put_aside_at IS NULL AND status <> 'active' AND coalesce(completed_at, started_at) <= ?`
	sqlDelete      = `DELETE FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL
	RETURNING id`
)

var (
	sqlBySession = sqlRow + `WHERE a.scope = ? AND a.session_id = ? AND a.put_aside_at IS NULL`
	sqlList      = sqlRow + `WHERE a.scope = ? AND a.put_aside_at IS NULL AND ` + sqlFresh +
		` ORDER BY a.started_at DESC, a.session_id`
)

// readTx runs fn on the scope. A scope without rows is empty: fn is not run.
func (r *Registry) readTx(rx *db.Rx, why, id string, fn func(scope int64) error) error {
	rx.Store().BootTime() // before the statements: a process may be stopped between any two
	scope, ok, err := stores.Scope(rx, r.db, r.scope)
	if err == nil && ok {
		err = fn(scope)
	}
	return named(why, id, err)
}

// findTx is readTx for a function that reports whether it found its row; if not, the error is
// ErrNotFound.
func (r *Registry) findTx(rx *db.Rx, why, id string, fn func(scope int64) (bool, error)) error {
	found := false
	err := r.readTx(rx, why, id, func(scope int64) (err error) {
		found, err = fn(scope)
		return err
	})
	if err == nil && !found {
		err = named(why, id, db.ErrNotFound)
	}
	return err
}

func (r *Registry) writeTx(tx *db.Tx, why, id string, fn func(scope int64) error) error {
	tx.Store().BootTime()
	scope, err := stores.NewScope(tx, r.db, r.scope)
	if err == nil {
		err = fn(scope)
	}
	return named(why, id, err)
}

// changeTx runs fn on the entry with the id, locked, if there is one.
func (r *Registry) changeTx(tx *db.Tx, why, id string, fn func(scope int64, s *stored) error) error {
	return r.writeTx(tx, why, id, func(scope int64) error {
		if err := checkID(id); err != nil {
			return err
		}
		s, err := lockedEntry(tx, scope, id)
		if err != nil || s == nil {
			return err
		}
		return fn(scope, s)
	})
}

func (r *Registry) write(ctx context.Context, why, id string, fn func(tx *db.Tx, scope int64) error) error {
	return stores.On(r.db, txn.Agents).Write(ctx, why, func(tx *db.Tx) error {
		return r.writeTx(tx, why, id, func(scope int64) error { return fn(tx, scope) })
	})
}

// look runs fn in a read transaction, and puts aside the stale entries that it finds.
func (r *Registry) look(ctx context.Context, why string, fn func(rx *db.Rx) error) error {
	met := false
	err := r.db.Read(ctx, why, func(rx *db.Rx) error {
		met = false
		err := r.readTx(rx, why, "", func(scope int64) error {
			return rx.Get(&met, sqlStaleThere, scope, staleBefore(rx.Now()))
		})
		if err != nil {
			return err
		}
		return fn(rx)
	})
	if err != nil {
		return err
	}
	return r.putAsideRest(ctx, why, met)
}

// asideAtOnce is how many entries one transaction puts aside, so that other writers don't wait
// long.
const asideAtOnce = 500

// putAside takes stale entries out of the registry; their rows stay until Prune. more reports
// whether there may be others.
func putAside(tx *db.Tx, scope int64) (more bool, err error) {
	before := staleBefore(tx.Now())
	if tx.Store().SingleWriter() {
		n, err := tx.Exec(sqlPutAside, db.Nanos(tx.Now()), before, scope, before, asideAtOnce)
		return n == asideAtOnce, err
	}
	there := false // a lock waits for the disk, and may delay other writers
	if err := tx.Get(&there, sqlStaleThere, scope, before); err != nil || !there {
		return false, err
	}
	var keys []int64
	if err := tx.Store().SelectToChange(&keys, staleEntries, scope, before, asideAtOnce); err != nil {
		return false, err
	}
	for _, key := range keys {
		if err := tx.Store().Queue(sqlAside, db.Nanos(tx.Now()), key); err != nil {
			return false, err
		}
	}
	return len(keys) == asideAtOnce, nil
}

// putAsideRest puts stale entries aside for as long as there are more.
func (r *Registry) putAsideRest(ctx context.Context, why string, more bool) error {
	for more {
		err := r.write(ctx, why, "", func(tx *db.Tx, scope int64) (err error) {
			more, err = putAside(tx, scope)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// named adds the agent's id to an error.
func named(why, id string, err error) error {
	if id == "" {
		return db.About(err, why, "", "", hintFor)
	}
	return db.About(err, why, "agent", id, hintFor)
}

// hintFor returns what a person can do about an error that has no hint of its own.
func hintFor(err error) string {
	if wrong, ok := errors.AsType[*configError](err); ok {
		return wrong.Hint
	}
	switch {
	case errors.Is(err, db.ErrLeaseLost):
		return "stop working on the thread, and reserve it again"
	case errors.Is(err, db.ErrNotFound):
		return "see what there is: migrate agents list"
	}
	return ""
}

func stale(s *stored, now time.Time) bool {
	end := s.Started
	if s.Completed != nil {
		end = *s.Completed
	}
	return s.Status != Active && end <= staleBefore(now)
}

// save inserts the record or replaces the one with its id.
func save(tx *db.Tx, scope int64, e *Entry) error {
	if err := e.check(); err != nil {
		return err
	}
	for range mostTaken {
		was, err := lockedEntry(tx, scope, e.SessionID)
		if err != nil {
			return err
		}
		if was != nil {
			return replace(tx, was, e)
		}
		key, ok, err := insertEntry(tx, scope, e)
		if err == nil && ok {
			err = enter(tx, scope, e, key)
		}
		if ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the id is taken, and nobody can be seen who has it", db.ErrConflict)
}

// mostTaken is how often an id may be taken between the read and the insertion, and free again at
// the next read.
const mostTaken = 100

// lockedEntry returns the entry with its row locked. A call that changes an entry, or what belongs
// to it, locks or changes that row first.
func lockedEntry(tx *db.Tx, scope int64, id string) (*stored, error) {
	if tx.Store().SingleWriter() {
		return findEntry(&tx.Rx, sqlBySession, scope, id)
	}
	var key int64
	if there, err := tx.Store().FindToChange(&key, entryByID, scope, id); err != nil || !there {
		return nil, err
	}
	return findEntry(&tx.Rx, sqlByKey, key)
}

var (
	entryByID    = txn.Agents.Rows(sqlKeyOf)
	staleEntries = txn.Agents.Rows(`SELECT id FROM agents WHERE scope = ? AND ` + sqlStale + ` LIMIT ?`).Free()
	leaseByEpoch = txn.AgentReservations.Rows(`SELECT pid_born_at, ` + txn.LeaseColumnNames +
		` FROM agent_reservations WHERE epoch = ?`)
)

const (
	sqlEndReservation = `DELETE FROM agent_reservations WHERE epoch = ?`
	sqlOtherPID       = `UPDATE agent_reservations SET pid_born_at = ? WHERE epoch = ?`
	sqlForgetBeat     = `UPDATE agent_reservations SET heartbeat_at = NULL WHERE epoch = ? AND heartbeat_at = ?`
)

// replace overwrites the stored record with new contents, which must have been checked; its id
// stays.
func replace(tx *db.Tx, s *stored, e *Entry) error {
	over, err := isOver(tx, s)
	if err != nil {
		return err
	}
	return rewrite(tx, s, e, over)
}

// isOver reports whether the entry's lease is over, and locks it. Call it after the caller's
// function, so that renewals don't wait for that.
func isOver(tx *db.Tx, s *stored) (bool, error) {
	if s.TTL == nil {
		return false, nil
	}
	if err := relock(tx, s); err != nil {
		return false, err
	}
	judged, err := liveness(&tx.Rx, s)
	return judged == Dead, err
}

// rewrite is replace for an entry with a lease that was judged. A reservation lasts as long as its
// agent is active on the thread. A lease that is over ends with any change: no new pid brings it
// back.
func rewrite(tx *db.Tx, s *stored, e *Entry, over bool) error {
	if err := s.rewrite(tx, e); err != nil {
		return err
	}
	left := e.Status != Active || e.Thread != s.Thread
	if s.Epoch != nil && (over || left) {
		if _, err := tx.Exec(sqlEndReservation, *s.Epoch); err != nil {
			return err
		}
	}
	switch {
	case left || s.Status != Active && s.Epoch == nil:
		return enter(tx, s.Scope, e, s.ID)
	case over || s.Epoch == nil:
		return nil
	}
	if s.LeaseBeatAt != nil { // the row that was read had it, so the new one has it
		if _, err := tx.Exec(sqlForgetBeat, *s.Epoch, *s.LeaseBeatAt); err != nil {
			return err
		}
	}
	if s.TTL == nil || s.Owner != nil || e.PID == nil || s.PID != nil && *s.PID == *e.PID {
		return nil
	}
	_, err := tx.Exec(sqlOtherPID, processBorn(*e.PID), *s.Epoch) // not the process of the lease
	return err
}

// relock locks the lease of an entry, which may have been renewed since it was read, and then reads
// the clock.
func relock(tx *db.Tx, s *stored) error {
	if tx.Store().SingleWriter() {
		return nil
	}
	var now struct {
		PIDBorn *int64 `db:"pid_born_at"`
		txn.LeaseColumns
	}
	there, err := tx.Store().FindToChange(&now, leaseByEpoch, *s.Epoch)
	if err == nil && !there { // a call that removes it locks or changes the entry first
		err = fmt.Errorf("%w: epoch %d is gone", db.ErrConflict, *s.Epoch)
	}
	s.LeasePIDBorn, s.LeaseColumns = now.PIDBorn, now.LeaseColumns
	tx.Store().ReadBootTime()
	return err
}
