package runs

import (
	"context"
	"errors"

	"selvedge/db"
	"selvedge/internal/txn"
)

const opPin = "pin run"

// Pin keeps a run whatever retention says, until Unpin; Delete removes it all the same.
// ErrNotFound: there is no such run. A pin is of the run's name: a run that comes under it later is
// pinned too.
func (s *Store) Pin(ctx context.Context, run RunRef) error {
	return s.db.Write(ctx, opPin, func(tx *db.Tx) error { return s.PinTx(tx, run) })
}

// PinTx is Pin inside a transaction.
func (s *Store) PinTx(tx *db.Tx, run RunRef) error {
	if _, err := s.GetTx(&tx.Rx, run); errors.Is(err, db.ErrNotFound) {
		return run.failed(opPin, db.ErrNotFound)
	} else if err != nil {
		return err
	}
	return tx.Store().Pin(s.scope, run.pin())
}

// Unpin takes the pin of a run away; one without is fine.
func (s *Store) Unpin(ctx context.Context, run RunRef) error {
	return s.db.Reclaim(ctx, "unpin run", func(tx *db.Tx) error { return s.UnpinTx(tx, run) })
}

// UnpinTx is Unpin inside a transaction.
func (s *Store) UnpinTx(tx *db.Tx, run RunRef) error {
	if err := tx.Store().Of(s.db.Store()); err != nil {
		return run.failed("unpin run", err)
	}
	return tx.Store().Unpin(s.scope, run.pin())
}

func (r RunRef) pin() txn.Pinned {
	return txn.Pinned{Store: txn.StoreRuns, ID: r.RunID, Owner: r.AgentID}
}
