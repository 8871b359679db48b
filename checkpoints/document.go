package checkpoints

import (
	"cmp"
	"context"

	"selvedge/checkpoints/internal/codec"
	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opSave   = "save checkpoint"
	opLoad   = "load checkpoint"
	opDelete = "delete checkpoint"
)

// SaveTx is Save inside a transaction.
func (s *Store) SaveTx(tx *db.Tx, p *PausedWorkflow) error {
	if p.CreatedAt.IsZero() && p.read == nil {
		now := *p
		now.CreatedAt = tx.Now()
		p = &now
	}
	document, err := p.text()
	if err != nil {
		return failed(opSave, p.RunID, invalid(err))
	}
	return s.SaveDocumentTx(tx, p.RunID, document)
}

// SaveDocument is Save for a document that was written elsewhere. It is kept byte for byte. runID
// is the run's name in this store, even if the document has another. An unreadable document is
// ErrInvalid.
func (s *Store) SaveDocument(ctx context.Context, runID string, document []byte) error {
	r, err := s.readable(runID, document)
	if err == nil {
		err = stores.On(s.db, txn.Checkpoints).Write(ctx, opSave,
			func(tx *db.Tx) error { return s.put(tx, r, document) })
	}
	return failed(opSave, runID, err)
}

// SaveDocumentTx is SaveDocument inside a transaction.
func (s *Store) SaveDocumentTx(tx *db.Tx, runID string, document []byte) error {
	r, err := s.readable(runID, document)
	if err == nil {
		err = s.put(tx, r, document)
	}
	return failed(opSave, runID, err)
}

// readable returns the row of a document, or an error if it can't be read.
func (s *Store) readable(runID string, document []byte) (row, error) {
	if err := cmp.Or(checkID(runID), txn.CheckID("agent", s.agent)); err != nil {
		return row{}, err
	}
	r := rowOf(runID, document)
	r.AgentID = said(s.agent)
	if r.Problem != nil {
		return r, invalid(&codec.Error{Reason: *r.Problem})
	}
	return r, nil
}

func (s *Store) put(tx *db.Tx, r row, document []byte) error {
	scope, err := stores.NewScope(tx, s.db, s.scope)
	if err != nil {
		return err
	}
	r.State, r.SavedAt = Paused, db.Nanos(tx.Now())
	put, err := r.put(tx, scope, document)
	if err == nil && !put {
		err = s.otherAgent(&tx.Rx, scope, r.RunID)
	}
	return err
}

// LoadTx is Load inside a transaction.
func (s *Store) LoadTx(rx *db.Rx, runID string) (p *PausedWorkflow, ok bool, err error) {
	document, ok, err := s.LoadDocumentTx(rx, runID)
	if err != nil || !ok {
		return nil, false, err
	}
	if p, err = Decode(document); err != nil {
		return nil, false, failed(opLoad, runID, corrupt(err))
	}
	return p, true, nil
}

// LoadDocument returns the document of the run that waits under the id, byte for byte; ok is false
// if none does. An unreadable document is ErrCorrupt.
func (s *Store) LoadDocument(ctx context.Context, runID string) (document []byte, ok bool, err error) {
	return stores.Find(ctx, s.db.Read, opLoad, func(rx *db.Rx) ([]byte, bool, error) {
		return s.LoadDocumentTx(rx, runID)
	})
}

// LoadDocumentTx is LoadDocument inside a transaction.
func (s *Store) LoadDocumentTx(rx *db.Rx, runID string) (document []byte, ok bool, err error) {
	err = s.look(rx, opLoad, runID, func(scope int64) error {
		var found stored
		if there, err := rx.Find(&found, sqlStored, append(s.key(scope, runID), Paused)...); err != nil {
			return err
		} else if !there {
			return s.otherAgent(rx, scope, runID)
		}
		if refused := found.refusal(); refused != nil {
			return corrupt(refused)
		}
		document, ok = found.Document, true
		return nil
	})
	return document, ok, err
}

// DocumentTx returns the document of one checkpoint, paused or claimed, byte for byte, even if it
// is unreadable. A Ref without a state means the waiting checkpoint if there is one, else the
// claimed one. A missing checkpoint is ErrNotFound.
func (s *Store) DocumentTx(rx *db.Rx, ref Ref) (document []byte, err error) {
	err = s.findRef(rx, opLoad, ref, func(inState string, run []any) (bool, error) {
		return rx.Find(&document, sqlDocumentOf+inState+sqlWaitingFirst, run...)
	})
	return document, err
}

const (
	sqlDocumentOf = `SELECT d.document FROM checkpoints AS c
	JOIN checkpoint_documents AS d ON d.checkpoint = c.id WHERE ` + ofRun
	sqlRemove = `DELETE FROM checkpoints AS c WHERE ` + ofRun + ` AND state IN ('paused', 'claimed')`
)

// Delete removes a checkpoint, claimed or not; its claim is lost. Without a state in ref, it
// removes both checkpoints of the run. If there is none, the error is ErrNotFound.
func (s *Store) Delete(ctx context.Context, ref Ref) error {
	return stores.On(s.db, txn.Checkpoints).Remove(ctx, opDelete, stores.With(s.DeleteTx, ref))
}

// DeleteTx is Delete inside a transaction.
func (s *Store) DeleteTx(tx *db.Tx, ref Ref) error {
	return s.findRef(&tx.Rx, opDelete, ref, func(inState string, run []any) (bool, error) {
		return remove(tx, inState, run)
	})
}

// remove removes the checkpoints of a run in a state, or in both.
func remove(tx *db.Tx, inState string, run []any) (removed bool, err error) {
	if err := tx.Store().WillChange(rowsOfRun, run...); err != nil {
		return false, err
	}
	var ids []int64 // by which a server tells followers
	err = tx.Select(&ids, sqlRemove+inState+` RETURNING id`, run...)
	return len(ids) > 0, err
}
