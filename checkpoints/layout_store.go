package checkpoints

import (
	"selvedge/db"
	"selvedge/internal/tree"
)

// An import and an export access documents by their numbers. The number of a document is twice the id of
// its row, plus 1 if it is claimed: a claim or a recovery changes the number. The old program knows no
// agents: a run is that of the first agent by name, and the group of another's is its state and the
// agent.

func numberOf(id int64, state State) int64 {
	if state == Claimed {
		return 2*id + 1
	}
	return 2 * id
}

func partsOfNumber(n int64) (id int64, state string) {
	if n&1 == 1 {
		return n >> 1, string(Claimed)
	}
	return n >> 1, string(Paused)
}

const (
	sqlGroup = `c.state || CASE WHEN coalesce(c.agent_id, '') = (SELECT min(coalesce(f.agent_id, ''))
		FROM checkpoints AS f WHERE f.scope = c.scope AND f.run_id = c.run_id) THEN '' ELSE ' ' || c.agent_id END`
	sqlFindRow = `SELECT 2 * id + CASE state WHEN 'claimed' THEN 1 ELSE 0 END FROM checkpoints AS c
		WHERE scope = ? AND run_id = ? AND ` + sqlGroup + ` = ?`
	sqlTextOf = `SELECT d.document FROM checkpoints AS c
		JOIN checkpoint_documents AS d ON d.checkpoint = c.id WHERE c.id = ? AND c.state = ?`
	// epoch: for claims from before changes were counted
	sqlUntouched = `SELECT changes = 1 AND epoch IS NULL FROM checkpoints WHERE id = ? AND state = ?`
	sqlRemoveRow = `DELETE FROM checkpoints WHERE id = ? AND state = ?`
	sqlRunsAfter = `SELECT ` + sqlGroup + ` AS entity_group, run_id AS entity_id FROM checkpoints AS c
		WHERE scope = ? AND run_id >= ? AND (run_id, ` + sqlGroup + `) > (?, ?)
		ORDER BY run_id, entity_group LIMIT ?`
)

func (kind) Query(scope int64, e tree.Entity) (query string, args []any) {
	return sqlFindRow, []any{scope, e.ID, e.Group}
}

func (kind) Text(rx *db.Rx, n int64) (text []byte, ok bool, err error) {
	id, state := partsOfNumber(n)
	if ok, err = rx.Find(&text, sqlTextOf, id, state); ok {
		text = nonNil(text)
	}
	return text, ok, err
}

// Put adds a document in the state in which it was found, even one that can't be read.
func (kind) Put(tx *db.Tx, scope int64, e tree.Entity, _ any, text []byte) (int64, error) {
	if err := checkID(e.ID); err != nil {
		return 0, err
	}
	r := rowOf(e.ID, text)
	r.State, r.SavedAt = State(e.Group), db.Nanos(tx.Now())
	id, err := tx.Store().Number("checkpoints")
	if err == nil {
		err = r.add(tx, id, scope, text)
	}
	return numberOf(id, r.State), err
}

func (kind) Remove(tx *db.Tx, n int64) error {
	id, state := partsOfNumber(n)
	_, err := tx.Exec(sqlRemoveRow, id, state)
	return err
}

// Untouched reports whether a document is still in the state in which it was added, and was never
// saved, claimed or released since.
func (kind) Untouched(rx *db.Rx, n int64) (untouched bool, err error) {
	id, state := partsOfNumber(n)
	_, err = rx.Find(&untouched, sqlUntouched, id, state)
	return untouched, err
}

// Page reads the documents after one, by run id in byte order.
func (kind) Page(rx *db.Rx, scope int64, after tree.Entity, page *[]tree.Entity) error {
	return rx.Select(page, sqlRunsAfter, scope, after.ID, after.ID, after.Group, tree.PageRows)
}
