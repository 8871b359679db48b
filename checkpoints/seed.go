package checkpoints

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// The calls of the old store, under their names and with their behaviour: docs/parity.md lists
// them. They are thin; if the grammar of all stores has a better call, they name it. The other
// calls of the old store, which need no other form, are Claim and RecoverOrphaned.

// Save stores a paused run, which then waits and can be claimed. It replaces a checkpoint of the
// run that waits already. A claim on the run stays, so that a resumed run can pause again.
// CreatedAt defaults to now.
func (s *Store) Save(ctx context.Context, p *PausedWorkflow) error {
	if p.CreatedAt.IsZero() {
		return stores.On(s.db, txn.Checkpoints).Write(ctx, opSave, func(tx *db.Tx) error { return s.SaveTx(tx, p) })
	}
	document, err := p.text()
	if err != nil {
		return failed(opSave, p.RunID, invalid(err))
	}
	return s.SaveDocument(ctx, p.RunID, document)
}

// Load returns the run that waits under the id; ok is false if none waits or it is only claimed. An
// unreadable document is ErrCorrupt.
func (s *Store) Load(ctx context.Context, runID string) (*PausedWorkflow, bool, error) {
	return stores.Find(ctx, s.db.Read, opLoad, func(rx *db.Rx) (*PausedWorkflow, bool, error) {
		return s.LoadTx(rx, runID)
	})
}

// Complete ends the run's claim by id, without a handle. A run that is not claimed is no error. A
// claim that another living process holds is ErrLeaseLost; one of this process, of a dead one or
// from an import ends. [Claim.Complete] is fenced.
func (s *Store) Complete(ctx context.Context, runID string) error {
	return stores.On(s.db, txn.Checkpoints).End(ctx, opComplete, stores.With(s.CompleteTx, runID))
}

const opRemove = "remove checkpoint"

// Remove removes the run, whether it waits, is claimed, or both. A missing run is no error; for
// [Store.Delete] it is.
func (s *Store) Remove(ctx context.Context, runID string) error {
	return stores.On(s.db, txn.Checkpoints).Remove(ctx, opRemove, stores.With(s.RemoveTx, runID))
}

// RemoveTx is Remove inside a transaction.
func (s *Store) RemoveTx(tx *db.Tx, runID string) error {
	return s.look(&tx.Rx, opRemove, runID, func(scope int64) error {
		removed, err := remove(tx, "", s.key(scope, runID))
		if err == nil && !removed {
			err = s.otherAgent(&tx.Rx, scope, runID)
		}
		return err
	})
}

const sqlList = `SELECT run_id FROM checkpoints WHERE scope = ? AND coalesce(agent_id, '') = ?
	AND state = 'paused' ORDER BY run_id`

// List returns the ids of the agent's runs that wait, in byte order, including those with an unreadable
// document. A store without an agent lists those for which none was named. Read lists that may be long
// in parts, with [Store.Page] or [Store.All].
func (s *Store) List(ctx context.Context) ([]string, error) {
	return stores.Get(ctx, s.db.Read, opList, func(rx *db.Rx) ([]string, error) {
		ids := []string{}
		err := s.look(rx, opList, "", func(scope int64) error { return rx.Select(&ids, sqlList, scope, s.agent) })
		return ids, err
	})
}
