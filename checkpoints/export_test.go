package checkpoints

import (
	"selvedge/checkpoints/internal/codec"
	"selvedge/db"
	"selvedge/internal/tree"
)

// A DocumentError is why a document can't be read, in the words of the original.
type DocumentError = codec.Error

// Canonical is the value that the original reads from a document.
func Canonical(document []byte) ([]byte, error) { return codec.Canonical(document) }

// Problem is why the original can't read a document; "" if it can.
func Problem(document []byte) string { return codec.Problem(document) }

// Sum is the checksum of a document.
func Sum(document []byte) int64 { return checksum(document) }

// PutImported adds a document to the default scope as an import does.
func PutImported(tx *db.Tx, state State, runID string, document []byte) error {
	_, err := table{}.Put(tx, tree.Entity{Group: string(state), ID: runID}, nil, document)
	return err
}

// InSmallTurns has recovery look at two claims at once and write about one, for the rest of a test.
func InSmallTurns(t interface{ Cleanup(func()) }) {
	turn, at := longestTurn, recoverBatch
	longestTurn, recoverBatch = 0, 2
	t.Cleanup(func() { longestTurn, recoverBatch = turn, at })
}

// RecoverOneTx recovers one claim, as Recover does each.
func (s *Store) RecoverOneTx(tx *db.Tx, runID string) (freed bool, err error) {
	var id string
	return freed, s.look(&tx.Rx, opRecover, runID, func(scope int64) error {
		found, err := tx.Find(&id, `SELECT CAST(id AS TEXT) FROM checkpoints WHERE `+ofRun+` AND state = 'claimed'`,
			s.key(scope, runID)...)
		if found {
			freed, err = s.recoverOne(tx, id, isOver)
		}
		return err
	})
}
