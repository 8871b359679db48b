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
	return s.recoverOne(tx, runID, isOver)
}
