package checkpoints

import (
	"fmt"

	"selvedge/db"
)

// The import door. Only internal/legacy uses it.

// A RowNumber names a document of the store together with the state it is in: a claim, or a recovery, gives it another.
type RowNumber int64

func numberOf(id int64, state State) RowNumber {
	n := RowNumber(id << 1)
	if state == Claimed {
		n++
	}
	return n
}

func (n RowNumber) parts() (id int64, state State) {
	if n&1 == 1 {
		return int64(n >> 1), Claimed
	}
	return int64(n >> 1), Paused
}

const (
	sqlFindRow   = `SELECT id FROM checkpoints WHERE scope = ? AND run_id = ? AND state = ?`
	sqlRemoveRow = `DELETE FROM checkpoints WHERE id = ? AND state = ?`
	sqlDocument  = `SELECT d.document FROM checkpoints AS c JOIN checkpoint_documents AS d ON d.checkpoint = c.id WHERE c.id = ? AND c.state = ?`
)

// RowOf gives the number of what the store has of a run in a state.
func (s *Store) RowOf(rx *db.Rx, state State, runID string) (n RowNumber, ok bool, err error) {
	scope, there, err := rx.Scope(s.scope)
	if err != nil || !there {
		return 0, false, err
	}
	var id int64
	ok, err = rx.Find(&id, sqlFindRow, scope, runID, string(state))
	return numberOf(id, state), ok, err
}

// DocumentOfRow gives a document; ok is false when it is gone, or in the other state.
func (s *Store) DocumentOfRow(rx *db.Rx, n RowNumber) (document []byte, ok bool, err error) {
	id, state := n.parts()
	ok, err = rx.Find(&document, sqlDocument, id, string(state))
	if ok {
		document = nonNil(document)
	}
	return document, ok, err
}

// ImportDocument adds a document in the state it was found in, also one that can't be read. There must be none in that
// state. A claimed one is nobody's until recovery re-arms it.
func (s *Store) ImportDocument(tx *db.Tx, state State, runID string, document []byte) (RowNumber, error) {
	if err := checkID(runID); err != nil {
		return 0, err
	}
	scope, err := tx.Scope(s.scope)
	if err != nil {
		return 0, err
	}
	if _, taken, err := s.RowOf(&tx.Rx, state, runID); err != nil || taken {
		if err == nil {
			err = fmt.Errorf("%w: run %q is %s here already", db.ErrConflict, runID, state)
		}
		return 0, err
	}
	r := rowOf(runID, document)
	r.State, r.SavedAt = string(state), db.Nanos(tx.Now())
	id, err := putRow(tx, scope, r, document)
	return numberOf(id, state), err
}

// RemoveRow takes a document out.
func (s *Store) RemoveRow(tx *db.Tx, n RowNumber) error {
	id, state := n.parts()
	_, err := tx.Exec(sqlRemoveRow, id, string(state))
	return err
}

// Problem is why the original can't read a document, in its words; "" if it can.
func Problem(document []byte) string {
	_, reason := readDocument(document, true)
	return reason
}
