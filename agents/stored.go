package agents

import (
	"fmt"
	"slices"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// findEntry returns the one entry of a query that begins with sqlRow; nil if there is none.
func findEntry(rx *db.Rx, query string, args ...any) (*stored, error) {
	var s stored
	if ok, err := rx.Find(&s, query, args...); err != nil || !ok {
		return nil, err
	}
	return &s, s.complete(rx)
}

// findOne is findEntry for a caller that does not change the entry.
func findOne(rx *db.Rx, query string, args ...any) (e Entry, ok bool, err error) {
	s, err := findEntry(rx, query, args...)
	if err != nil || s == nil {
		return Entry{}, false, err
	}
	return s.Entry, true, nil
}

// findEntries returns all entries of a query that begins with sqlRow.
func findEntries(rx *db.Rx, query string, args ...any) (all []stored, err error) {
	err = rx.Select(&all, query, args...)
	for i := 0; i < len(all) && err == nil; i++ {
		err = all[i].complete(rx)
	}
	return all, err
}

// complete makes the entry of the row, context queries included.
func (s *stored) complete(rx *db.Rx) error {
	err := s.convert()
	if err == nil && s.Queried {
		s.ContextQueries, err = readQueries(rx, s.ID)
	}
	return err
}

// insertEntry adds a new entry, which must have been checked, and returns the number of its row; ok
// is false if its id is taken.
func insertEntry(tx *db.Tx, scope int64, e *Entry) (id int64, ok bool, err error) {
	now := db.Nanos(tx.Now())
	columns, err := e.columns(scope, &now)
	if err == nil {
		ok, err = tx.Find(&id, sqlInsert, append([]any{scope, e.SessionID}, columns...)...)
	}
	if err != nil || !ok {
		return 0, false, err
	}
	return id, true, appendQueries(tx, id, 0, e.ContextQueries)
}

// rewrite overwrites the stored entry with new contents, which must have been checked; its id
// stays.
func (s *stored) rewrite(tx *db.Tx, e *Entry) error {
	columns, err := e.columns(s.Scope, s.RecordedAt)
	if err == nil {
		_, err = tx.Exec(sqlReplace, append(columns, s.ID)...)
	}
	if err != nil {
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

// appendQueries adds queries from position from on.
func appendQueries(tx *db.Tx, agent int64, from int, list []ContextQuery) error {
	for i, q := range list {
		err := stores.Put(tx, sqlAddQuery, agent, int64(from+i), q.Path, q.Scope, db.Nanos(q.QueriedAt),
			exactTime(q.QueriedAt, q.exact))
		if err != nil {
			return err
		}
	}
	return nil
}

// replaceQueries writes only the added queries if the list still begins with the old ones.
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
	return q.Path == other.Path && txn.Arg(q.Scope) == txn.Arg(other.Scope) &&
		q.timeText("", q.QueriedAt) == other.timeText("", other.QueriedAt)
}
