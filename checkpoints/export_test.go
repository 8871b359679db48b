package checkpoints

import (
	"errors"

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
	scope, err := tx.Store().Scope("")
	if err == nil {
		_, err = kind{}.Put(tx, scope, tree.Entity{Group: string(state), ID: runID}, nil, document)
	}
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
	var id int64
	return freed, s.look(&tx.Rx, opRecover, runID, func(scope int64) error {
		found, err := tx.Find(&id, `SELECT id FROM checkpoints WHERE `+ofRun+` AND state = 'claimed'`,
			s.key(scope, runID)...)
		if found {
			freed, err = s.recoverOne(tx, id, isOver)
		}
		return err
	})
}

// Outdated rearms, ends and renews the claim as calls do that read it with an epoch or an end that has
// changed since by so much. It returns which of them took effect.
func (c *Claim) Outdated(tx *db.Tx, epoch, until int64) (took []string, err error) {
	row, err := c.held(&tx.Rx, "outdated", tx.Store().ReadBootTime)
	if err != nil {
		return nil, err
	}
	*row.Epoch += epoch
	*row.Until += until
	other := *c
	other.epoch = *row.Epoch
	for name, call := range map[string]func() (bool, error){
		"renew": func() (bool, error) {
			err := other.renew(tx, tx.Exec, row.LeaseColumns, row.LeaseColumns)
			if errors.Is(err, db.ErrLeaseLost) {
				return false, nil
			}
			return err == nil, err
		},
		"rearm": func() (bool, error) { return row.rearm(tx) },
		"end":   func() (bool, error) { return row.end(tx, Completed, Decision{}) },
	} {
		err = errors.Join(err, tx.Savepoint(func() error {
			ok, err := call()
			if ok {
				took = append(took, name)
			}
			return errors.Join(err, errUndo)
		}))
	}
	if errors.Is(err, errUndo) {
		err = nil
	}
	return took, err
}

var errUndo = errors.New("undo")
