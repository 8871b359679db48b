package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"selvedge/db"
)

// Options are the choices of NewRegistry. The zero value is the default.
type Options struct {
	// Scope is the part of the file that the registry keeps to; "" is the default scope.
	Scope string
	// BootTime is the clock of leases; nil means db.ReadBootTime.
	BootTime func() db.BootTime
}

// A Registry keeps the agents of one scope. Its methods are safe for concurrent use, in any number of processes.
type Registry struct {
	db       *db.DB
	scope    string
	bootTime func() db.BootTime
	newID    func() string
}

// NewRegistry gives the registry of a scope of d. It writes nothing.
func NewRegistry(d *db.DB, o Options) *Registry {
	r := &Registry{db: d, scope: o.Scope, bootTime: o.BootTime, newID: GenerateID}
	if r.bootTime == nil {
		r.bootTime = db.ReadBootTime
	}
	return r
}

// staleAfter is the age, from its end, at which an entry leaves the registry.
const staleAfter = 7 * 24 * time.Hour

// staleBefore is the latest end of an entry that is stale at now.
func staleBefore(now time.Time) int64 { return db.Nanos(now.Add(-staleAfter)) }

const (
	sqlBySession   = sqlRow + `WHERE a.scope = ? AND a.session_id = ? AND a.put_aside_at IS NULL`
	sqlList        = sqlRow + `WHERE a.scope = ? AND a.put_aside_at IS NULL AND ` + sqlFresh + ` ORDER BY a.started_at DESC, a.session_id`
	sqlFresh       = `(a.status = 'active' OR coalesce(a.completed_at, a.started_at) > ?)`
	sqlStaleThere  = `SELECT EXISTS (SELECT 1 FROM agents WHERE scope = ? AND put_aside_at IS NULL AND status <> 'active' AND coalesce(completed_at, started_at) <= ?)`
	sqlPutAside    = `UPDATE agents SET put_aside_at = ? WHERE scope = ? AND put_aside_at IS NULL AND status <> 'active' AND coalesce(completed_at, started_at) <= ?`
	sqlPutAsideOne = sqlPutAside + ` AND session_id = ?`
	sqlDelete      = `DELETE FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL`
)

// Save puts an entry into the registry, in place of one with the same id. Nothing else is looked at: neither whether
// another agent is active on the thread, nor who wrote the entry before.
func (r *Registry) Save(ctx context.Context, e Entry) error {
	return r.write(ctx, "save agent", e.SessionID, func(tx *db.Tx, scope int64) error { return r.save(tx, scope, &e) })
}

// Load gives the entry with the id; ok is false when there is none. An entry that ended seven days ago or earlier is put
// aside in this call: no later one sees it.
func (r *Registry) Load(ctx context.Context, id string) (e Entry, ok bool, err error) {
	const why = "load agent"
	if err := checkID(id); err != nil {
		return Entry{}, false, named(why, id, err)
	}
	stale := false
	err = r.read(ctx, why, id, func(rx *db.Rx, scope int64) error {
		found, err := r.find(rx, sqlBySession, scope, id)
		if err != nil || found == nil {
			return err
		}
		e, ok, stale = found.Entry, true, found.stale(rx.Now())
		return nil
	})
	if err != nil || !stale {
		return e, ok, err
	}
	err = r.write(ctx, why, id, func(tx *db.Tx, scope int64) error {
		n, err := tx.ExecAffected(sqlPutAsideOne, db.Nanos(tx.Now()), scope, staleBefore(tx.Now()), id)
		ok = n == 0 // somebody brought it back meanwhile, or was faster
		return err
	})
	if err != nil || !ok {
		return Entry{}, false, err
	}
	return e, true, nil
}

// List gives all entries, the newest start first. Stale ones are put aside, as by Load.
func (r *Registry) List(ctx context.Context) (entries []Entry, err error) {
	err = r.look(ctx, "list agents", "", func(rx *db.Rx, scope int64) error {
		entries, err = r.entries(rx, sqlList, scope, staleBefore(rx.Now()))
		return err
	})
	return entries, err
}

// Delete takes the entry with the id out, whatever its status, and with it what it had reserved. A missing one is fine.
func (r *Registry) Delete(ctx context.Context, id string) error {
	const why = "delete agent"
	if err := checkID(id); err != nil {
		return named(why, id, err)
	}
	return r.write(ctx, why, id, func(tx *db.Tx, scope int64) error {
		_, err := tx.Exec(sqlDelete, scope, id)
		return err
	})
}

// read runs fn on the scope. A scope that nobody wrote to is empty: fn is not run.
func (r *Registry) read(ctx context.Context, why, id string, fn func(rx *db.Rx, scope int64) error) error {
	return named(why, id, r.db.Read(ctx, why, func(rx *db.Rx) error {
		scope, ok, err := rx.Scope(r.scope)
		if err != nil || !ok {
			return err
		}
		return fn(rx, scope)
	}))
}

func (r *Registry) write(ctx context.Context, why, id string, fn func(tx *db.Tx, scope int64) error) error {
	return named(why, id, r.db.Write(ctx, why, func(tx *db.Tx) error {
		scope, err := tx.Scope(r.scope)
		if err != nil {
			return err
		}
		return fn(tx, scope)
	}))
}

// look is a read that, as the original's, puts aside the stale entries that it met.
func (r *Registry) look(ctx context.Context, why, id string, fn func(rx *db.Rx, scope int64) error) error {
	met := false
	err := r.read(ctx, why, id, func(rx *db.Rx, scope int64) error {
		if err := rx.Get(&met, sqlStaleThere, scope, staleBefore(rx.Now())); err != nil {
			return err
		}
		return fn(rx, scope)
	})
	if err != nil || !met {
		return err
	}
	return r.write(ctx, why, id, putAside)
}

// putAside takes the stale entries out of the registry; their rows stay until GC.
func putAside(tx *db.Tx, scope int64) error {
	_, err := tx.Exec(sqlPutAside, db.Nanos(tx.Now()), scope, staleBefore(tx.Now()))
	return err
}

// named says in an error which agent it is about. The error may be the caller's own, so it is copied, not changed.
func named(why, id string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*db.Error](err)
	switch {
	case !ok:
		e = &db.Error{Op: why, Err: err}
	case e != err || e.Entity != "" || id == "":
		return err
	}
	more := *e
	if id != "" {
		more.Entity, more.ID = "agent", id
	}
	return &more
}

// A stored entry is one that was read, with its row.
type stored struct {
	row
	Entry
}

func (s *stored) stale(now time.Time) bool {
	if s.row.Status == Active {
		return false
	}
	end := s.row.StartedAt
	if s.row.CompletedAt != nil {
		end = *s.row.CompletedAt
	}
	return end <= staleBefore(now)
}

// find gives the one entry of a query, nil if there is none.
func (r *Registry) find(rx *db.Rx, query string, args ...any) (*stored, error) {
	var s stored
	if ok, err := rx.Find(&s.row, query, args...); err != nil || !ok {
		return nil, err
	}
	return &s, s.complete(rx)
}

func (r *Registry) findAll(rx *db.Rx, query string, args ...any) ([]stored, error) {
	var rows []row
	if err := rx.Select(&rows, query, args...); err != nil {
		return nil, err
	}
	all := make([]stored, len(rows))
	for i := range rows {
		all[i].row = rows[i]
		if err := all[i].complete(rx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *Registry) entries(rx *db.Rx, query string, args ...any) ([]Entry, error) {
	all, err := r.findAll(rx, query, args...)
	entries := make([]Entry, len(all))
	for i := range all {
		entries[i] = all[i].Entry
	}
	return entries, err
}

// complete makes the entry of the row, context queries included.
func (s *stored) complete(rx *db.Rx) (err error) {
	if s.Entry, err = s.entry(); err != nil || !s.Queried {
		return err
	}
	s.ContextQueries, err = readQueries(rx, s.ID)
	return err
}

// save inserts the entry or replaces the one with its id.
func (r *Registry) save(tx *db.Tx, scope int64, e *Entry) error {
	if err := e.check(); err != nil {
		return err
	}
	was, err := r.find(&tx.Rx, sqlBySession, scope, e.SessionID)
	if err != nil {
		return err
	}
	if was != nil {
		return was.replace(tx, e)
	}
	_, _, err = insert(tx, scope, e)
	return err
}

// insert adds a new entry, which must have been checked, and gives the number of its row; ok is false when its id is
// taken.
func insert(tx *db.Tx, scope int64, e *Entry) (id int64, ok bool, err error) {
	w, err := rowOf(e)
	if err != nil {
		return 0, false, err
	}
	args := append([]any{scope, w.SessionID}, w.columns()...)
	if ok, err = tx.Find(&id, sqlInsert, args...); err != nil || !ok {
		return 0, false, err
	}
	return id, true, appendQueries(tx, id, 0, e.ContextQueries)
}

const (
	sqlEndReservation = `DELETE FROM agent_reservations WHERE epoch = ?`
	sqlOtherPID       = `UPDATE agent_reservations SET pid_born_at = ? WHERE epoch = ?`
	sqlForgetBeat     = `UPDATE agent_reservations SET heartbeat_at = NULL WHERE epoch = ?`
)

// replace gives the stored entry new contents, which must have been checked; its id stays. A reservation lives as long as
// its entry is active on the thread.
func (s *stored) replace(tx *db.Tx, e *Entry) error {
	w, err := rowOf(e)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(sqlReplace, append(w.columns(), s.ID)...); err != nil {
		return err
	}
	if err := replaceQueries(tx, s.ID, s.ContextQueries, e.ContextQueries); err != nil || s.Epoch == nil {
		return err
	}
	if e.Status != Active || e.Thread != s.row.Thread {
		_, err = tx.Exec(sqlEndReservation, *s.Epoch)
		return err
	}
	if s.LeaseBeatAt != nil { // what was read had it, so what is written has it
		if _, err := tx.Exec(sqlForgetBeat, *s.Epoch); err != nil {
			return err
		}
	}
	if s.LeaseUntil == nil || e.PID == nil || s.row.PID != nil && *s.row.PID == *e.PID {
		return nil
	}
	_, err = tx.Exec(sqlOtherPID, processBorn(*e.PID), *s.Epoch) // another process than the lease was made for
	return err
}

const (
	sqlQueries      = `SELECT path, part, queried_at, exact FROM agent_context_queries WHERE agent_id = ? ORDER BY position`
	sqlAddQuery     = `INSERT INTO agent_context_queries (agent_id, position, path, part, queried_at, exact) VALUES (?, ?, ?, ?, ?, ?)`
	sqlDropQueries  = `DELETE FROM agent_context_queries WHERE agent_id = ?`
	sqlCountQueries = `SELECT coalesce(max(position), -1) + 1 FROM agent_context_queries WHERE agent_id = ?`
)

func readQueries(rx *db.Rx, agent int64) ([]ContextQuery, error) {
	var rows []struct {
		Path      string  `db:"path"`
		Part      *string `db:"part"`
		QueriedAt int64   `db:"queried_at"`
		Exact     *string `db:"exact"`
	}
	if err := rx.Select(&rows, sqlQueries, agent); err != nil {
		return nil, err
	}
	list := make([]ContextQuery, len(rows))
	for i, w := range rows {
		list[i] = ContextQuery{Path: w.Path, Scope: w.Part, QueriedAt: db.Time(w.QueriedAt)}
		if w.Exact == nil {
			continue
		}
		keep := func(_, text string) { list[i].exact = text }
		if err := restoreField(field{"queried_at", &list[i].QueriedAt}, *w.Exact, keep); err != nil {
			return nil, fmt.Errorf("%w: a context query's time: %w", db.ErrCorrupt, err)
		}
	}
	return list, nil
}

// appendQueries adds queries from the given position on.
func appendQueries(tx *db.Tx, agent int64, from int, list []ContextQuery) error {
	for i, q := range list {
		_, err := tx.Exec(sqlAddQuery, agent, from+i, q.Path, q.Scope, db.Nanos(q.QueriedAt), exactTime(q.QueriedAt, q.exact))
		if err != nil {
			return err
		}
	}
	return nil
}

// replaceQueries writes only what was added, where the old ones are still in front.
func replaceQueries(tx *db.Tx, agent int64, old, now []ContextQuery) error {
	if len(old) <= len(now) && slices.EqualFunc(old, now[:len(old)], ContextQuery.equal) {
		return appendQueries(tx, agent, len(old), now[len(old):])
	}
	if _, err := tx.Exec(sqlDropQueries, agent); err != nil {
		return err
	}
	return appendQueries(tx, agent, 0, now)
}

func (q ContextQuery) equal(other ContextQuery) bool {
	scopes := q.Scope == nil && other.Scope == nil || q.Scope != nil && other.Scope != nil && *q.Scope == *other.Scope
	return scopes && q.Path == other.Path && q.timeText("", q.QueriedAt) == other.timeText("", other.QueriedAt)
}
