package agents

import (
	"context"
	"time"

	"selvedge/db"
	registry "selvedge/internal/agents"
)

// UpdateStatus sets an entry's status, and with it the time of its end: now, or none for Active. A missing entry is
// fine. Stale entries that no call met yet can be brought back by it.
func (r *Registry) UpdateStatus(ctx context.Context, id string, status Status) error {
	const why = "update agent status"
	if err := registry.CheckID(id); err != nil {
		return named(why, id, err)
	}
	if err := registry.Status(status).Check(id); err != nil {
		return named(why, id, err)
	}
	return r.write(ctx, why, id, func(tx *db.Tx, scope int64) error {
		s, err := registry.Find(&tx.Rx, sqlBySession, scope, id)
		if err != nil || s == nil {
			return err
		}
		return end(tx, s, status)
	})
}

// end sets the status, and the time of the end as UpdateStatus says.
func end(tx *db.Tx, s *registry.Stored, status Status) error {
	e := s.Record
	e.Status, e.CompletedAt = registry.Status(status), nil
	if status != Active {
		e.CompletedAt = now(tx)
	}
	if err := e.Check(); err != nil {
		return err
	}
	return replace(tx, s, &e)
}

// now is the transaction's time as entries have it.
func now(tx *db.Tx) *time.Time {
	t := tx.Now()
	return &t
}

// abandon is what reaping does to a dead agent.
func abandon(tx *db.Tx, s *registry.Stored) error { return end(tx, s, Abandoned) }

// UpdateEntry gives the entry to update and stores what it makes of it; ok is false when there is none. If update changes
// the id, the entry with the old id stays as it was, and one with the new id is saved. update runs inside the transaction,
// as a Builder does. Heartbeats of programs without a lease are such updates, of HeartbeatAt and LastProgressAt.
func (r *Registry) UpdateEntry(ctx context.Context, id string, update func(*Entry)) (e Entry, ok bool, err error) {
	const why = "update agent"
	if err := registry.CheckID(id); err != nil {
		return Entry{}, false, named(why, id, err)
	}
	err = r.write(ctx, why, id, func(tx *db.Tx, scope int64) error {
		e, ok = Entry{}, false
		s, err := registry.Find(&tx.Rx, sqlBySession, scope, id)
		if err != nil || s == nil {
			return err
		}
		e, err = change(tx, scope, s, update)
		ok = err == nil
		return err
	})
	return e, ok, err
}

// change stores what update makes of the entry, under the id that it has then.
func change(tx *db.Tx, scope int64, s *registry.Stored, update func(*Entry)) (Entry, error) {
	e := entryOf(&s.Record)
	update(&e)
	changed := e.record()
	if e.SessionID != s.Row.SessionID {
		return e, save(tx, scope, changed)
	}
	if err := changed.Check(); err != nil {
		return e, err
	}
	return e, replace(tx, s, changed)
}

// LogContextQuery adds a query to an active entry. For an entry that is not active, or missing, nothing is done.
func (r *Registry) LogContextQuery(ctx context.Context, id string, q ContextQuery) error {
	const why = "log context query"
	if err := registry.CheckID(id); err != nil {
		return named(why, id, err)
	}
	return r.write(ctx, why, id, func(tx *db.Tx, scope int64) error { return logQuery(tx, scope, id, q) })
}

const sqlForQuery = `SELECT id, status, document FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL`

// logQuery reads neither the entry nor its queries, however many there are; only where a document is kept must it be
// brought up to date.
func logQuery(tx *db.Tx, scope int64, id string, q ContextQuery) error {
	var w registry.Row
	if ok, err := tx.Find(&w, sqlForQuery, scope, id); err != nil || !ok || w.Status != registry.Active {
		return err
	}
	if w.Document != nil {
		s, err := registry.Find(&tx.Rx, sqlBySession, scope, id)
		if err != nil {
			return err
		}
		_, err = change(tx, scope, s, func(e *Entry) { e.ContextQueries = append(e.ContextQueries, q) })
		return err
	}
	probe := registry.Record{SessionID: id, Status: registry.Active, ContextQueries: []registry.Query{q.query()}}
	if err := probe.Check(); err != nil {
		return err
	}
	return registry.AppendQuery(tx, w.ID, probe.ContextQueries[0])
}
