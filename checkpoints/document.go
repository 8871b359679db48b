package checkpoints

import (
	"context"

	"selvedge/checkpoints/internal/codec"
	"selvedge/db"
	"selvedge/internal/transact"
)

const (
	opSave   = "save checkpoint"
	opLoad   = "load checkpoint"
	opDelete = "delete checkpoint"
)

// SaveTx is Save inside a transaction.
func (s *Store) SaveTx(tx *db.Tx, p *PausedWorkflow) error {
	if p.CreatedAt.IsZero() && p.document == nil {
		now := *p
		now.CreatedAt = tx.Now()
		p = &now
	}
	document, err := p.Document()
	if err != nil {
		return failed(opSave, p.RunID, invalid(err))
	}
	return s.SaveDocumentTx(tx, p.RunID, document)
}

// SaveDocument is Save for a document that was written elsewhere. It is kept byte for byte. runID
// is the run's name in this store, whatever the document says; a document that can't be read is
// ErrInvalid.
func (s *Store) SaveDocument(ctx context.Context, runID string, document []byte) error {
	r, err := readable(runID, document)
	if err != nil {
		return failed(opSave, runID, err)
	}
	return failed(opSave, runID, s.db.WriteLocked(ctx, opSave,
		func(tx *db.Tx) error { return s.put(tx, r, document) }))
}

// SaveDocumentTx is SaveDocument inside a transaction.
func (s *Store) SaveDocumentTx(tx *db.Tx, runID string, document []byte) error {
	r, err := readable(runID, document)
	if err == nil {
		err = s.put(tx, r, document)
	}
	return failed(opSave, runID, err)
}

// readable is the row of a document that can be read.
func readable(runID string, document []byte) (row, error) {
	if err := checkID(runID); err != nil {
		return row{}, err
	}
	r := rowOf(runID, document)
	if r.Problem != nil {
		return r, invalid(&codec.Error{Reason: *r.Problem})
	}
	return r, nil
}

func (s *Store) put(tx *db.Tx, r row, document []byte) error {
	if err := tx.Of(s.db); err != nil {
		return err
	}
	scope, err := tx.Scope(s.scope)
	if err != nil {
		return err
	}
	r.State, r.SavedAt = Paused, db.Nanos(tx.Now())
	_, err = r.put(tx, scope, document)
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

// LoadDocument gives the document of the run that waits under the id, byte for byte; ok is false
// when none does. One that can't be read is ErrCorrupt.
func (s *Store) LoadDocument(ctx context.Context, runID string) (document []byte, ok bool, err error) {
	return transact.Find(ctx, s.db.Read, opLoad, func(rx *db.Rx) ([]byte, bool, error) {
		return s.LoadDocumentTx(rx, runID)
	})
}

// LoadDocumentTx is LoadDocument inside a transaction.
func (s *Store) LoadDocumentTx(rx *db.Rx, runID string) (document []byte, ok bool, err error) {
	err = s.look(rx, opLoad, runID, func(scope int64) error {
		var found stored
		if there, err := rx.Find(&found, sqlStored, scope, runID, Paused); err != nil ||
			!there {
			return err
		}
		if refused := found.refusal(); refused != nil {
			return corrupt(refused)
		}
		document, ok = found.Document, true
		return nil
	})
	return document, ok, err
}

// DocumentTx gives the document of one checkpoint, paused or claimed, byte for byte, also one that
// can't be read. A Ref without a state means the one that waits, or else the claimed one.
// ErrNotFound: there is none.
func (s *Store) DocumentTx(rx *db.Rx, ref Ref) (document []byte, err error) {
	err = s.find(rx, opLoad, ref.RunID, func(scope int64) (there bool, err error) {
		states := []State{ref.State}
		if ref.State == "" {
			states = []State{Paused, Claimed}
		}
		for i := 0; i < len(states) && !there && err == nil; i++ {
			var found stored
			there, err = rx.Find(&found, sqlStored, scope, ref.RunID, string(states[i]))
			document = found.Document
		}
		return there, err
	})
	return document, err
}

const (
	sqlRemove      = `DELETE FROM checkpoints WHERE scope = ? AND run_id = ? AND state IN ('paused', 'claimed')`
	sqlRemoveState = `DELETE FROM checkpoints WHERE scope = ? AND run_id = ? AND state = ?`
)

// Delete takes a checkpoint away, whoever has claimed it; a claim that is taken away so is lost.
// Without a state it takes all that the run has. ErrNotFound: there is none.
func (s *Store) Delete(ctx context.Context, ref Ref) error {
	return s.db.Reclaim(ctx, opDelete, func(tx *db.Tx) error { return s.DeleteTx(tx, ref) })
}

// DeleteTx is Delete inside a transaction.
func (s *Store) DeleteTx(tx *db.Tx, ref Ref) error {
	return s.find(&tx.Rx, opDelete, ref.RunID, func(scope int64) (bool, error) {
		if _, err := ref.State.condition(); err != nil {
			return false, err
		}
		query, args := sqlRemove, []any{scope, ref.RunID}
		if ref.State != "" {
			query, args = sqlRemoveState, append(args, string(ref.State))
		}
		n, err := tx.Exec(query, args...)
		return n > 0, err
	})
}
