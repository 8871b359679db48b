package agents

import (
	"context"
	"time"

	"selvedge/db"
)

// UpdateStatus sets an entry's status, and with it the time of its end: now, or none for Active. A missing entry is
// fine. Stale entries that no call met yet can be brought back by it.
func (r *Registry) UpdateStatus(ctx context.Context, id string, status Status) error {
	const why = "update agent status"
	if err := checkID(id); err != nil {
		return named(why, id, err)
	}
	if err := status.check(id); err != nil {
		return named(why, id, err)
	}
	return r.write(ctx, why, id, func(tx *db.Tx, scope int64) error {
		s, err := r.find(&tx.Rx, sqlBySession, scope, id)
		if err != nil || s == nil {
			return err
		}
		return s.end(tx, status)
	})
}

// end sets the status, and the time of the end as UpdateStatus says.
func (s *stored) end(tx *db.Tx, status Status) error {
	e := s.clone()
	e.Status, e.CompletedAt = status, nil
	if status != Active {
		e.CompletedAt = now(tx)
	}
	if err := e.check(); err != nil {
		return err
	}
	return s.replace(tx, &e)
}

// now is the transaction's time as entries have it.
func now(tx *db.Tx) *time.Time {
	t := tx.Now()
	return &t
}

// abandon is what reaping does to a dead agent.
func (s *stored) abandon(tx *db.Tx) error { return s.end(tx, Abandoned) }

// UpdateEntry gives the entry to update and stores what it makes of it; ok is false when there is none. If update changes
// the id, the entry with the old id stays as it was, and one with the new id is saved. update runs inside the transaction,
// as a Builder does. Heartbeats of programs without a lease are such updates, of HeartbeatAt and LastProgressAt.
func (r *Registry) UpdateEntry(ctx context.Context, id string, update func(*Entry)) (e Entry, ok bool, err error) {
	const why = "update agent"
	if err := checkID(id); err != nil {
		return Entry{}, false, named(why, id, err)
	}
	err = r.write(ctx, why, id, func(tx *db.Tx, scope int64) error {
		e, ok = Entry{}, false
		s, err := r.find(&tx.Rx, sqlBySession, scope, id)
		if err != nil || s == nil {
			return err
		}
		e, err = r.change(tx, scope, s, update)
		ok = err == nil
		return err
	})
	return e, ok, err
}

// change stores what update makes of the entry, under the id that it has then.
func (r *Registry) change(tx *db.Tx, scope int64, s *stored, update func(*Entry)) (Entry, error) {
	e := s.clone()
	update(&e)
	if e.SessionID != s.row.SessionID {
		return e, r.save(tx, scope, &e)
	}
	if err := e.check(); err != nil {
		return e, err
	}
	return e, s.replace(tx, &e)
}

// LogContextQuery adds a query to an active entry. For an entry that is not active, or missing, nothing is done.
func (r *Registry) LogContextQuery(ctx context.Context, id string, q ContextQuery) error {
	const why = "log context query"
	if err := checkID(id); err != nil {
		return named(why, id, err)
	}
	return r.write(ctx, why, id, func(tx *db.Tx, scope int64) error { return r.logQuery(tx, scope, id, q) })
}

const sqlForQuery = `SELECT id, status, document FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL`

// logQuery reads neither the entry nor its queries, however many there are; only where a document is kept must it be
// brought up to date.
func (r *Registry) logQuery(tx *db.Tx, scope int64, id string, q ContextQuery) error {
	var w row
	if ok, err := tx.Find(&w, sqlForQuery, scope, id); err != nil || !ok || w.Status != Active {
		return err
	}
	if w.Document != nil {
		s, err := r.find(&tx.Rx, sqlBySession, scope, id)
		if err != nil {
			return err
		}
		_, err = r.change(tx, scope, s, func(e *Entry) { e.ContextQueries = append(e.ContextQueries, q) })
		return err
	}
	probe := Entry{SessionID: id, Status: Active, ContextQueries: []ContextQuery{q}}
	if err := probe.check(); err != nil {
		return err
	}
	var count int
	if err := tx.Get(&count, sqlCountQueries, w.ID); err != nil {
		return err
	}
	return appendQueries(tx, w.ID, count, probe.ContextQueries)
}

// ReapDead abandons all active entries whose agents are dead (see LivenessFor and Lease), and counts them.
func (r *Registry) ReapDead(ctx context.Context) (int, error) {
	return r.reap(ctx, "reap dead agents", sqlActive)
}

// ReapDeadForThread is ReapDead for the agents of one thread.
func (r *Registry) ReapDeadForThread(ctx context.Context, thread string) (int, error) {
	return r.reap(ctx, "reap dead agents of a thread", sqlOnThread, thread)
}

func (r *Registry) reap(ctx context.Context, why, query string, args ...any) (reaped int, err error) {
	err = r.write(ctx, why, "", func(tx *db.Tx, scope int64) error {
		reaped = 0
		active, err := r.findAll(&tx.Rx, query, append([]any{scope}, args...)...)
		if err != nil {
			return err
		}
		for i := range active {
			judged, err := r.liveness(&tx.Rx, &active[i].row, active[i].Entry)
			if err != nil {
				return err
			}
			if judged != Dead {
				continue
			}
			if err := active[i].abandon(tx); err != nil {
				return err
			}
			reaped++
		}
		if reaped == 0 {
			return nil
		}
		return tx.ForgetDeadOwners()
	})
	if err != nil {
		return 0, err
	}
	return reaped, nil
}
