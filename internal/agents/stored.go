package agents

import (
	"fmt"
	"iter"
	"slices"

	"selvedge/db"
)

// A Stored record is one that was read, with its row.
type Stored struct {
	Row
	Record
}

// Find gives the one record of a query that begins with SQLRow; nil if there is none.
func Find(rx *db.Rx, query string, args ...any) (*Stored, error) {
	var s Stored
	if ok, err := rx.Find(&s.Row, query, args...); err != nil || !ok {
		return nil, err
	}
	return &s, s.complete(rx)
}

// FindAll gives all records of a query that begins with SQLRow.
func FindAll(rx *db.Rx, query string, args ...any) ([]Stored, error) {
	var rows []Row
	if err := rx.Select(&rows, query, args...); err != nil {
		return nil, err
	}
	all := make([]Stored, len(rows))
	for i := range rows {
		all[i].Row = rows[i]
		if err := all[i].complete(rx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Each gives the records of a query that begins with SQLRow one by one.
func Each(rx *db.Rx, query string, args ...any) iter.Seq2[*Stored, error] {
	return db.Each(rx, func(r *Row) (*Stored, error) {
		s := &Stored{Row: *r}
		return s, s.complete(rx)
	}, query, args...)
}

// complete makes the record of the row, context queries included.
func (s *Stored) complete(rx *db.Rx) (err error) {
	if s.Record, err = s.record(); err != nil || !s.Queried {
		return err
	}
	s.ContextQueries, err = readQueries(rx, s.ID)
	return err
}

// Insert adds a new record, which must have been checked, and gives the number of its row; ok is false when its id is
// taken.
func Insert(tx *db.Tx, scope int64, e *Record) (id int64, ok bool, err error) {
	now := db.Nanos(tx.Now())
	return insert(tx, scope, e, &now)
}

func insert(tx *db.Tx, scope int64, e *Record, recordedAt *int64) (id int64, ok bool, err error) {
	w, err := rowOf(e)
	if err != nil {
		return 0, false, err
	}
	w.RecordedAt = recordedAt
	args := append([]any{scope, w.SessionID}, w.columns(scope)...)
	if ok, err = tx.Find(&id, sqlInsert, args...); err != nil || !ok {
		return 0, false, err
	}
	return id, true, appendQueries(tx, id, 0, e.ContextQueries)
}

// Rewrite gives the stored record new contents, which must have been checked; its id stays.
func (s *Stored) Rewrite(tx *db.Tx, e *Record) error {
	w, err := rowOf(e)
	if err != nil {
		return err
	}
	w.RecordedAt = s.RecordedAt
	if _, err := tx.Exec(sqlReplace, append(w.columns(s.Scope), s.ID)...); err != nil {
		return err
	}
	return replaceQueries(tx, s.ID, s.ContextQueries, e.ContextQueries)
}

const (
	sqlQueries      = `SELECT path, part, queried_at, exact FROM agent_context_queries WHERE agent_id = ? ORDER BY position`
	sqlAddQuery     = `INSERT INTO agent_context_queries (agent_id, position, path, part, queried_at, exact, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)`
	sqlDropQueries  = `DELETE FROM agent_context_queries WHERE agent_id = ?`
	sqlCountQueries = `SELECT coalesce(max(position), -1) + 1 FROM agent_context_queries WHERE agent_id = ?`
)

func readQueries(rx *db.Rx, agent int64) ([]Query, error) {
	var rows []struct {
		Path      string  `db:"path"`
		Part      *string `db:"part"`
		QueriedAt int64   `db:"queried_at"`
		Exact     *string `db:"exact"`
	}
	if err := rx.Select(&rows, sqlQueries, agent); err != nil {
		return nil, err
	}
	list := make([]Query, len(rows))
	for i, w := range rows {
		list[i] = Query{Path: w.Path, Scope: w.Part, QueriedAt: db.Time(w.QueriedAt)}
		if w.Exact == nil {
			continue
		}
		keep := func(_, text string) { list[i].Exact = text }
		if err := restoreField(field{"queried_at", &list[i].QueriedAt}, *w.Exact, keep); err != nil {
			return nil, fmt.Errorf("%w: a context query's time: %w", db.ErrCorrupt, err)
		}
	}
	return list, nil
}

// AppendQuery adds a query behind those that the record in the row has.
func AppendQuery(tx *db.Tx, row int64, q Query) error {
	var count int
	if err := tx.Get(&count, sqlCountQueries, row); err != nil {
		return err
	}
	return appendQueries(tx, row, count, []Query{q})
}

// appendQueries adds queries from the given position on.
func appendQueries(tx *db.Tx, agent int64, from int, list []Query) error {
	for i, q := range list {
		columns := []any{agent, int64(from + i), q.Path, q.Scope, db.Nanos(q.QueriedAt), exactTime(q.QueriedAt, q.Exact)}
		if err := tx.Queue(sqlAddQuery, append(columns, db.Checksum(columns...))...); err != nil {
			return err
		}
	}
	return nil
}

// replaceQueries writes only what was added, where the old ones are still in front.
func replaceQueries(tx *db.Tx, agent int64, old, now []Query) error {
	if len(old) <= len(now) && slices.EqualFunc(old, now[:len(old)], Query.equal) {
		return appendQueries(tx, agent, len(old), now[len(old):])
	}
	if _, err := tx.Exec(sqlDropQueries, agent); err != nil {
		return err
	}
	return appendQueries(tx, agent, 0, now)
}

func (q Query) equal(other Query) bool {
	scopes := q.Scope == nil && other.Scope == nil || q.Scope != nil && other.Scope != nil && *q.Scope == *other.Scope
	return scopes && q.Path == other.Path && q.timeText("", q.QueriedAt) == other.timeText("", other.QueriedAt)
}
