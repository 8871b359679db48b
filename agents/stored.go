package agents

import (
	"fmt"
	"iter"
	"slices"

	"selvedge/db"
)

// A stored entry is one that was read, with its row.
type stored struct {
	entryRow
	Entry
}

// findEntry gives the one record of a query that begins with sqlRow; nil if there is none.
func findEntry(rx *db.Rx, query string, args ...any) (*stored, error) {
	var s stored
	if ok, err := rx.Find(&s.entryRow, query, args...); err != nil || !ok {
		return nil, err
	}
	return &s, s.complete(rx)
}

// findEntries gives all records of a query that begins with sqlRow.
func findEntries(rx *db.Rx, query string, args ...any) ([]stored, error) {
	var rows []entryRow
	if err := rx.Select(&rows, query, args...); err != nil {
		return nil, err
	}
	all := make([]stored, len(rows))
	for i := range rows {
		all[i].entryRow = rows[i]
		if err := all[i].complete(rx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// eachEntry gives the records of a query that begins with sqlRow one by one.
func eachEntry(rx *db.Rx, query string, args ...any) iter.Seq2[*stored, error] {
	return db.Each(rx, func(r *entryRow) (*stored, error) {
		s := &stored{entryRow: *r}
		return s, s.complete(rx)
	}, query, args...)
}

// complete makes the record of the row, context queries included.
func (s *stored) complete(rx *db.Rx) (err error) {
	if s.Entry, err = s.entry(); err != nil || !s.Queried {
		return err
	}
	s.ContextQueries, err = readQueries(rx, s.ID)
	return err
}

// insertEntry adds a new record, which must have been checked, and gives the number of its row; ok
// is false when its id is taken.
func insertEntry(tx *db.Tx, scope int64, e *Entry) (id int64, ok bool, err error) {
	now := db.Nanos(tx.Now())
	return insert(tx, scope, e, &now)
}

func insert(tx *db.Tx, scope int64, e *Entry, recordedAt *int64) (id int64, ok bool, err error) {
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

// rewrite gives the stored record new contents, which must have been checked; its id stays.
func (s *stored) rewrite(tx *db.Tx, e *Entry) error {
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
	sqlQueries = `SELECT path, part, queried_at, exact FROM agent_context_queries WHERE agent_id = ?
		ORDER BY position`
	sqlAddQuery = `INSERT INTO agent_context_queries (agent_id, position, path, part, queried_at, exact,
		checksum) VALUES (?, ?, ?, ?, ?, ?, ?)`
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

// appendQuery adds a query behind those that the record in the row has.
func appendQuery(tx *db.Tx, row int64, q ContextQuery) error {
	var count int
	if err := tx.Get(&count, sqlCountQueries, row); err != nil {
		return err
	}
	return appendQueries(tx, row, count, []ContextQuery{q})
}

// appendQueries adds queries from the given position on.
func appendQueries(tx *db.Tx, agent int64, from int, list []ContextQuery) error {
	for i, q := range list {
		columns := []any{
			agent, int64(from + i), q.Path, q.Scope, db.Nanos(q.QueriedAt),
			exactTime(q.QueriedAt, q.exact),
		}
		if err := tx.Queue(sqlAddQuery, append(columns, db.Checksum(columns...))...); err != nil {
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
	scopes := q.Scope == nil && other.Scope == nil || q.Scope != nil && other.Scope != nil &&
		*q.Scope == *other.Scope
	return scopes && q.Path == other.Path && q.timeText("", q.QueriedAt) == other.timeText("", other.QueriedAt)
}
