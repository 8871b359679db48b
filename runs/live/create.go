package live

import (
	"errors"

	"github.com/google/uuid"

	"selvedge/db"
	"selvedge/internal/txn"
)

// A Reservation is the result of ReserveRunWithID.
type Reservation struct {
	Snapshot RunSnapshot
	// Existing is true if the run existed; the call's session and prompt were ignored then.
	Existing bool
}

const (
	opCreate  = "create live run"
	opReserve = "reserve live run"
)

// CreateRunWithIDTx is CreateRunWithID inside the caller's transaction.
func (s *Store) CreateRunWithIDTx(tx *db.Tx, id, sessionID, prompt string) (run RunSnapshot, err error) {
	err = s.inside(tx, opCreate, id, func(scope int64) error {
		if run, err = created(tx, id, sessionID, prompt); err != nil {
			return err
		}
		there, found, err := rowToChange(tx, runToAdd, scope, id)
		if err == nil && found {
			err = s.free(tx, opCreate, there)
		}
		if err == nil && found {
			left := fullBudget()
			err = there.remove(tx, &left)
		}
		if err != nil {
			return err
		}
		return s.add(tx, scope, run)
	})
	return run, err
}

// ReserveRunWithIDTx is ReserveRunWithID inside the caller's transaction.
func (s *Store) ReserveRunWithIDTx(tx *db.Tx, id, sessionID, prompt string) (r Reservation, err error) {
	err = s.inside(tx, opReserve, id, func(scope int64) error {
		row, found, err := rowToChange(tx, runToAdd, scope, id)
		if err == nil && found {
			r.Existing = true
			r.Snapshot, err = row.seen(&tx.Rx)
		}
		if err != nil || found {
			return err
		}
		if r.Snapshot, err = created(tx, id, sessionID, prompt); err != nil {
			return err
		}
		return s.add(tx, scope, r.Snapshot)
	})
	return orZero(r, err)
}

func (s *Store) snapshot(rx *db.Rx, scope int64, runID string) (found bool, run RunSnapshot, err error) {
	row, found, err := findRow(rx, scope, runID)
	if err != nil || !found {
		return false, RunSnapshot{}, err
	}
	run, err = row.seen(rx)
	return err == nil, run, err
}

// seen returns the run as callers see it.
func (w *runRow) seen(rx *db.Rx) (RunSnapshot, error) {
	whole, err := w.whole(rx)
	return whole.snapshot(), err
}

func created(tx *db.Tx, id, sessionID, prompt string) (RunSnapshot, error) {
	if err := errors.Join(txn.CheckID("session", sessionID), checkText("prompt", &prompt)); err != nil {
		return RunSnapshot{}, err
	}
	now := nowMillis(&tx.Rx)
	return RunSnapshot{
		ID: id, SessionID: sessionID, Status: Created, Prompt: prompt, CreatedAtMs: now,
		UpdatedAtMs: now,
	}, nil
}

// nowMillis returns the transaction's time in Unix milliseconds; 0 before 1970.
func nowMillis(rx *db.Rx) uint64 { return uint64(max(0, rx.Now().UnixMilli())) }

// add writes a new run, and enforces the cap on runs.
func (s *Store) add(tx *db.Tx, scope int64, run RunSnapshot) error {
	if s.caps.runs != nil && *s.caps.runs == 0 {
		return nil // the cap would remove it at once
	}
	row := rowOf(scope, &RunRecord{Snapshot: run})
	err := row.add(tx)
	if err == nil {
		err = countIn(tx, scope, 1, row.Key)
	}
	if err == nil && s.caps.runs != nil {
		err = s.dropOldest(tx, scope, row.Key)
	}
	return err
}

func newID() string { return "run-" + uuid.NewString() }
