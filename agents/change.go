package agents

import (
	"cmp"
	"slices"

	"selvedge/db"
	"selvedge/internal/txn"
)

const opSave = "save agent"

// SaveTx is Save inside a transaction.
func (r *Registry) SaveTx(tx *db.Tx, e Entry) error {
	return r.writeTx(tx, opSave, e.SessionID, func(scope int64) error { return save(tx, scope, e.started(tx)) })
}

// started is the entry with a start: one without begins now.
func (e Entry) started(tx *db.Tx) *Entry {
	if e.StartedAt.IsZero() && !e.kept.yearOne {
		e.StartedAt = tx.Now()
	}
	return &e
}

const opDelete = "delete agent"

// DeleteTx is Delete inside a transaction.
func (r *Registry) DeleteTx(tx *db.Tx, id string) error {
	return r.writeTx(tx, opDelete, id, func(scope int64) error {
		if err := checkID(id); err != nil {
			return err
		}
		var row int64 // by which a server tells followers
		_, err := tx.Find(&row, sqlDelete, scope, id)
		return err
	})
}

const opStatus = "update agent status"

// UpdateStatusTx is UpdateStatus inside a transaction.
func (r *Registry) UpdateStatusTx(tx *db.Tx, id string, status Status) error {
	if err := cmp.Or(tx.Store().Of(r.db.Store()), status.check(id)); err != nil {
		return named(opStatus, id, err)
	}
	return r.changeTx(tx, opStatus, id, func(_ int64, s *stored) error { return end(tx, s, status) })
}

// end sets the status, and the time of the end as UpdateStatus does.
func end(tx *db.Tx, s *stored, status Status) error {
	e := s.Entry
	e.Status, e.CompletedAt = status, nil
	if status != Active {
		now := tx.Now()
		e.CompletedAt = &now
	}
	if err := e.check(); err != nil {
		return err
	}
	return replace(tx, s, &e)
}

const opUpdate = "update agent"

// UpdateEntryTx is UpdateEntry inside a transaction.
func (r *Registry) UpdateEntryTx(tx *db.Tx, id string, update func(*Entry)) (e Entry, ok bool, err error) {
	err = r.changeTx(tx, opUpdate, id, func(scope int64, s *stored) (err error) {
		e, err = change(tx, scope, s, update, nil)
		ok = err == nil
		return err
	})
	return e, ok, err
}

// change runs update on the entry and stores the result, under the id that update left it with. If
// under is set and that lease is over by then, it is an error.
func change(tx *db.Tx, scope int64, s *stored, update func(*Entry), under *Lease) (Entry, error) {
	e := s.Entry
	e.ContextQueries = slices.Clone(e.ContextQueries) // s keeps what the rows hold
	update(&e)
	if err := e.check(); err != nil {
		return e, err
	}
	over, err := isOver(tx, s)
	if err == nil && over && under != nil {
		err = under.lost()
	}
	if err != nil {
		return e, err
	}
	if e.SessionID != s.SessionID {
		return e, save(tx, scope, &e)
	}
	return e, rewrite(tx, s, &e, over)
}

const opLogQuery = "log context query"

// LogContextQueryTx is LogContextQuery inside a transaction.
func (r *Registry) LogContextQueryTx(tx *db.Tx, id string, q ContextQuery) error {
	return r.logQuery(tx, id, q, func() error { return nil })
}

// logQuery adds a query unless may, called once the entry is locked, returns an error.
func (r *Registry) logQuery(tx *db.Tx, id string, q ContextQuery, may func() error) error {
	return r.writeTx(tx, opLogQuery, id, func(scope int64) error {
		err := checkID(id)
		var w stored
		there := false
		if err == nil {
			there, err = tx.Store().FindToChange(&w, entryForQuery, scope, id)
		}
		if err == nil {
			err = may()
		}
		if err != nil || !there || w.Status != Active {
			return err
		}
		return addQuery(tx, scope, id, &w, q)
	})
}

var entryForQuery = txn.Agents.Rows(sqlForQuery)

const (
	sqlForQuery = `SELECT id, status, document FROM agents WHERE scope = ? AND session_id = ?
		AND put_aside_at IS NULL`
	sqlTouch = `UPDATE agents SET changes = changes WHERE id = ?`
)

// addQuery reads neither the entry nor its queries, however many there are. Only a kept document
// must be brought up to date.
func addQuery(tx *db.Tx, scope int64, id string, w *stored, q ContextQuery) error {
	if q.QueriedAt.IsZero() && q.exact == "" {
		q.QueriedAt = tx.Now()
	}
	if w.Document != nil {
		s, err := findEntry(&tx.Rx, sqlBySession, scope, id)
		if err != nil {
			return err
		}
		_, err = change(tx, scope, s, func(e *Entry) { e.ContextQueries = append(e.ContextQueries, q) }, nil)
		return err
	}
	probe := Entry{SessionID: id, Status: Active, ContextQueries: []ContextQuery{q}}
	if err := probe.check(); err != nil {
		return err
	}
	if err := tx.Store().Touch(sqlTouch, w.ID); err != nil {
		return err
	}
	var count int
	if err := tx.Get(&count, sqlCountQueries, w.ID); err != nil {
		return err
	}
	return appendQueries(tx, w.ID, count, probe.ContextQueries)
}
