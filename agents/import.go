package agents

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
)

// The import door: what internal/legacy, and nothing else, calls.

// Under gives the entry the id of the file that it stands in, where the document says another. The document stays as it
// is for as long as nothing else of the entry changes.
func (e Entry) Under(id string) Entry {
	if e.document == nil {
		e.document = e.encode()
	}
	e.SessionID, e.documentOf = id, id
	return e
}

// ImportEntry adds an entry as it is, its times included, and gives the number of its row. An id that is taken is a
// db.ErrConflict.
func (r *Registry) ImportEntry(tx *db.Tx, e Entry) (row int64, err error) {
	if err := e.check(); err != nil {
		return 0, err
	}
	scope, err := tx.Scope(r.scope)
	if err != nil {
		return 0, err
	}
	row, ok, err := insert(tx, scope, &e)
	if err == nil && !ok {
		err = fmt.Errorf("%w: agent %s is here already", db.ErrConflict, e.SessionID)
	}
	return row, err
}

const (
	sqlRowOf     = `SELECT id FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL`
	sqlByRow     = sqlRow + `WHERE a.scope = ? AND a.id = ?`
	sqlRemoveRow = `DELETE FROM agents WHERE scope = ? AND id = ?`
	sqlIDsAfter  = `SELECT session_id FROM agents WHERE scope = ? AND put_aside_at IS NULL AND session_id > ? ORDER BY session_id LIMIT ?`
)

// RowOf gives the number of the row of the entry with the id.
func (r *Registry) RowOf(rx *db.Rx, id string) (row int64, ok bool, err error) {
	scope, ok, err := rx.Scope(r.scope)
	if err != nil || !ok {
		return 0, false, err
	}
	ok, err = rx.Find(&row, sqlRowOf, scope, id)
	return row, ok, err
}

// DocumentOfRow gives the entry in a row as a file of the original's, also when it was put aside.
func (r *Registry) DocumentOfRow(rx *db.Rx, row int64) (text []byte, ok bool, err error) {
	scope, ok, err := rx.Scope(r.scope)
	if err != nil || !ok {
		return nil, false, err
	}
	s, err := r.find(rx, sqlByRow, scope, row)
	if err != nil || s == nil {
		return nil, false, err
	}
	return s.TOML(), true, nil
}

// RemoveRow takes an entry out with all that belongs to it.
func (r *Registry) RemoveRow(tx *db.Tx, row int64) error {
	scope, err := tx.Scope(r.scope)
	if err != nil {
		return err
	}
	_, err = tx.Exec(sqlRemoveRow, scope, row)
	return err
}

// IDs gives the ids of all entries that were not put aside, in byte order, a page at a time.
func (r *Registry) IDs(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after := ""; ; {
			var ids []string
			err := r.read(ctx, "list agents", "", func(rx *db.Rx, scope int64) error {
				ids = nil
				return rx.Select(&ids, sqlIDsAfter, scope, after, maxPage)
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
			if len(ids) < maxPage {
				return
			}
		}
	}
}
