package agents

import (
	"selvedge/db"
	"selvedge/internal/tree"
)

// An import and an export access the registry by the numbers of its rows.

var sqlByRow = sqlRow + `WHERE a.id = ?`

const (
	sqlUntouched = `SELECT a.changes = 1 AND NOT EXISTS (
		SELECT 1 FROM agent_reservations AS r WHERE r.agent_id = a.id) FROM agents AS a WHERE a.id = ?`
	sqlRemoveRow = `DELETE FROM agents WHERE id = ?`
	sqlIDsAfter  = `SELECT '' AS entity_group, session_id AS entity_id FROM agents
		WHERE scope = ? AND put_aside_at IS NULL AND session_id > ? ORDER BY session_id LIMIT ?`
)

func (kind) Query(scope int64, e tree.Entity) (query string, args []any) {
	return sqlKeyOf, []any{scope, e.ID}
}

// Text is the entry in a row as a file, even if it was put aside.
func (kind) Text(rx *db.Rx, row int64) (text []byte, ok bool, err error) {
	s, err := findEntry(rx, sqlByRow, row)
	if err != nil || s == nil {
		return nil, false, err
	}
	return s.TOML(), true, nil
}

// Put adds an entry as it is, its times included.
func (kind) Put(tx *db.Tx, scope int64, e tree.Entity, value any, _ []byte) (row int64, err error) {
	entry := value.(Entry)
	if entry.SessionID != e.ID {
		entry = entry.under(e.ID)
	}
	if err := entry.check(); err != nil {
		return 0, err
	}
	columns, err := entry.columns(scope, nil) // the time of recording is not known
	if err != nil {
		return 0, err
	}
	if row, err = tx.Store().Number("agents"); err != nil {
		return 0, err
	}
	values := append([]any{scope, entry.SessionID}, columns...)
	if err := tx.Store().Queue(sqlInsertAs, append(values, row)...); err != nil {
		return 0, err
	}
	return row, appendQueries(tx, row, 0, entry.ContextQueries)
}

func (kind) Remove(tx *db.Tx, row int64) error {
	_, err := tx.Exec(sqlRemoveRow, row)
	return err
}

// Untouched reports whether an entry was not written since it was added, and has reserved no
// thread.
func (kind) Untouched(rx *db.Rx, row int64) (untouched bool, err error) {
	_, err = rx.Find(&untouched, sqlUntouched, row)
	return untouched, err
}

// Page reads the ids after one in byte order, without those that were put aside.
func (kind) Page(rx *db.Rx, scope int64, after tree.Entity, page *[]tree.Entity) error {
	return rx.Select(page, sqlIDsAfter, scope, after.ID, tree.PageRows)
}
