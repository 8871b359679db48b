package agents

import (
	"context"
	"iter"

	"selvedge/db"
)

// A table is the records of one scope as an import and an export need them: by the numbers of their
// rows, and as files.
type table struct {
	scope string
}

// put adds a record whose id entryRow did not find as it is, its times included, and gives the
// number of its row.
func (t table) put(tx *db.Tx, e Entry) (row int64, err error) {
	if err := e.check(); err != nil {
		return 0, err
	}
	scope, err := tx.Scope(t.scope)
	if err != nil {
		return 0, err
	}
	w, err := rowOf(&e) // who knows when it was recorded
	if err != nil {
		return 0, err
	}
	if row, err = tx.Number("agents"); err != nil {
		return 0, err
	}
	if err := tx.Queue(sqlInsertAs, append(append([]any{scope, w.SessionID}, w.columns(scope)...),
		row)...); err != nil {
		return 0, err
	}
	return row, appendQueries(tx, row, 0, e.ContextQueries)
}

// prefetch names what entryRow is about to ask.
func (t table) prefetch(rx *db.Rx, id string, ask func(query string, args ...any)) error {
	scope, ok, err := rx.Scope(t.scope)
	if err == nil && ok {
		ask(sqlRowOf, scope, id)
	}
	return err
}

const (
	sqlRowOf     = `SELECT id FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL`
	sqlByRow     = sqlRow + `WHERE a.scope = ? AND a.id = ?`
	sqlUntouched = `SELECT a.changes = 1 AND NOT EXISTS (SELECT 1 FROM agent_reservations AS r WHERE r.agent_id = a.id) FROM agents AS a WHERE a.scope = ? AND a.id = ?`
	sqlRemoveRow = `DELETE FROM agents WHERE scope = ? AND id = ?`
	sqlIDsAfter  = `SELECT session_id FROM agents WHERE scope = ? AND put_aside_at IS NULL AND session_id > ?
		ORDER BY session_id LIMIT ?`
)

// entryRow gives the number of the row of the record with the id.
func (t table) row(rx *db.Rx, id string) (row int64, ok bool, err error) {
	scope, ok, err := rx.Scope(t.scope)
	if err != nil || !ok {
		return 0, false, err
	}
	ok, err = rx.Find(&row, sqlRowOf, scope, id)
	return row, ok, err
}

// toml gives the record in a row as a file, also when it was put aside.
func (t table) toml(rx *db.Rx, row int64) (text []byte, ok bool, err error) {
	scope, ok, err := rx.Scope(t.scope)
	if err != nil || !ok {
		return nil, false, err
	}
	s, err := findEntry(rx, sqlByRow, scope, row)
	if err != nil || s == nil {
		return nil, false, err
	}
	return s.TOML(), true, nil
}

// untouched reports whether a record is there, put aside or not, and was never written since it was
// added, nor made the holder of a thread.
func (t table) untouched(rx *db.Rx, row int64) (untouched bool, err error) {
	scope, ok, err := rx.Scope(t.scope)
	if err == nil && ok {
		_, err = rx.Find(&untouched, sqlUntouched, scope, row)
	}
	return untouched, err
}

// remove takes a record out with all that belongs to it.
func (t table) remove(tx *db.Tx, row int64) error {
	scope, err := tx.Scope(t.scope)
	if err != nil {
		return err
	}
	_, err = tx.Exec(sqlRemoveRow, scope, row)
	return err
}

const idsAtOnce = 1000

// ids gives the ids of all records that were not put aside, in byte order, a page at a time.
func (t table) ids(ctx context.Context, d *db.DB) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after := ""; ; {
			var ids []string
			err := d.Read(ctx, "list agents", func(rx *db.Rx) error {
				ids = nil
				scope, ok, err := rx.Scope(t.scope)
				if err != nil || !ok {
					return err
				}
				return rx.Select(&ids, sqlIDsAfter, scope, after, idsAtOnce)
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
				after = id
			}
			if len(ids) < idsAtOnce {
				return
			}
		}
	}
}
