package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"time"

	"selvedge/db"
	documents "selvedge/internal/checkpoints"
)

// Options are the choices of NewStore. The zero value is the default.
type Options struct {
	// Scope is the part of the file that the store keeps to, what the folder was to the original. "" is the default scope.
	Scope string
	// ClaimTTL is how long a claim lasts without a renewal before RecoverOrphaned may take it from a process that still
	// lives. 0 means that only the death of its process frees a claim.
	ClaimTTL time.Duration
	// BootTime is the clock of claims that expire; nil means db.ReadBootTime.
	BootTime func() db.BootTime
}

// A Store keeps the checkpoints of one scope. Its methods are safe for concurrent use, in any number of processes.
type Store struct {
	db       *db.DB
	scope    string
	ttl      time.Duration
	bootTime func() db.BootTime
}

// NewStore gives the store of a scope. It reads and writes nothing.
func NewStore(d *db.DB, o Options) *Store {
	s := &Store{db: d, scope: o.Scope, ttl: o.ClaimTTL, bootTime: o.BootTime}
	if s.bootTime == nil {
		s.bootTime = db.ReadBootTime
	}
	return s
}

// Scope is the name of the store's scope.
func (s *Store) Scope() string { return s.scope }

// Save keeps a paused run: it waits from then on and can be claimed. One that waits already is replaced; a claim on the
// run stays as it is, so that a resumed run can pause again.
func (s *Store) Save(ctx context.Context, p *PausedWorkflow) error {
	document, err := p.Document()
	if err != nil {
		return failed("save checkpoint", p.RunID, invalid(err))
	}
	return s.save(ctx, p.RunID, document)
}

// SaveTx is Save in a transaction of the caller's.
func (s *Store) SaveTx(tx *db.Tx, p *PausedWorkflow) error {
	document, err := p.Document()
	if err != nil {
		return failed("save checkpoint", p.RunID, invalid(err))
	}
	return s.saveTx(tx, p.RunID, document)
}

// SaveDocument is Save for a document that was written elsewhere. It is kept byte for byte. runID is the run's name in
// this store, whatever the document says; a document that the original could not read is ErrInvalid.
func (s *Store) SaveDocument(ctx context.Context, runID string, document []byte) error {
	return s.save(ctx, runID, document)
}

func (s *Store) save(ctx context.Context, runID string, document []byte) error {
	const op = "save checkpoint"
	r, err := s.readable(runID, document)
	if err != nil {
		return failed(op, runID, err)
	}
	return failed(op, runID, s.db.Write(ctx, op, func(tx *db.Tx) error { return s.put(tx, r, document) }))
}

func (s *Store) saveTx(tx *db.Tx, runID string, document []byte) error {
	r, err := s.readable(runID, document)
	if err == nil {
		err = s.put(tx, r, document)
	}
	return failed("save checkpoint", runID, err)
}

// readable is the row of a document that the original can read.
func (s *Store) readable(runID string, document []byte) (documents.Row, error) {
	if err := checkID(runID); err != nil {
		return documents.Row{}, err
	}
	r := documents.RowOf(runID, document)
	if r.Problem != nil {
		return r, invalid(&documents.DocumentError{Reason: *r.Problem})
	}
	return r, nil
}

func (s *Store) put(tx *db.Tx, r documents.Row, document []byte) error {
	scope, err := tx.Scope(s.scope)
	if err != nil {
		return err
	}
	r.State, r.SavedAt = documents.Paused, db.Nanos(tx.Now())
	_, err = r.Put(tx, scope, document)
	return err
}

// Load gives the run that waits under the id; ok is false when none does, claimed ones included. One whose document can't
// be read is ErrCorrupt.
func (s *Store) Load(ctx context.Context, runID string) (p *PausedWorkflow, ok bool, err error) {
	document, ok, err := s.LoadDocument(ctx, runID)
	if err != nil || !ok {
		return nil, false, err
	}
	if p, err = Decode(document); err != nil {
		return nil, false, failed("load checkpoint", runID, corrupt(err))
	}
	return p, true, nil
}

// LoadDocument is Load for the document itself, byte for byte.
func (s *Store) LoadDocument(ctx context.Context, runID string) (document []byte, ok bool, err error) {
	const op = "load checkpoint"
	if err := checkID(runID); err != nil {
		return nil, false, failed(op, runID, err)
	}
	var found documents.Stored
	err = s.db.Read(ctx, op, func(rx *db.Rx) error {
		scope, there, err := rx.Scope(s.scope)
		if err != nil || !there {
			return err
		}
		ok, err = rx.Find(&found, documents.SQLStored, scope, runID, documents.Paused)
		return err
	})
	if err == nil && ok {
		if refused := found.Refusal(); refused != nil {
			err = corrupt(refused)
		}
	}
	if err != nil {
		return nil, false, failed(op, runID, err)
	}
	return found.Document, ok, nil
}

const sqlRemove = `DELETE FROM checkpoints WHERE scope = ? AND run_id = ? AND state IN ('paused', 'claimed')`

// Remove forgets the run, whether it waits, is claimed by anybody, or both. A run that is not there is fine.
func (s *Store) Remove(ctx context.Context, runID string) error {
	const op = "remove checkpoint"
	return failed(op, runID, s.db.Write(ctx, op, func(tx *db.Tx) error { return s.RemoveTx(tx, runID) }))
}

// RemoveTx is Remove in a transaction of the caller's.
func (s *Store) RemoveTx(tx *db.Tx, runID string) error {
	return s.change(tx, "remove checkpoint", runID, func(scope int64) error {
		_, err := tx.Exec(sqlRemove, scope, runID)
		return err
	})
}

const sqlList = `SELECT run_id FROM checkpoints WHERE scope = ? AND state = 'paused' ORDER BY run_id`

// List gives the ids of the runs that wait, in byte order; those whose document can't be read are among them.
func (s *Store) List(ctx context.Context) (ids []string, err error) {
	const op = "list checkpoints"
	err = s.db.Read(ctx, op, func(rx *db.Rx) error {
		ids = []string{}
		scope, there, err := rx.Scope(s.scope)
		if err != nil || !there {
			return err
		}
		return rx.Select(&ids, sqlList, scope)
	})
	return ids, failed(op, "", err)
}

// change runs fn on the run in the caller's transaction, after a look at the id. In a scope that nobody wrote to there is
// nothing to change.
func (s *Store) change(tx *db.Tx, op, runID string, fn func(scope int64) error) error {
	err := checkID(runID)
	if err == nil {
		var scope int64
		var there bool
		if scope, there, err = tx.Rx.Scope(s.scope); err == nil && there {
			err = fn(scope)
		}
	}
	return failed(op, runID, err)
}

func checkID(runID string) error { return db.CheckID("run", runID) }

func invalid(err error) error { return fmt.Errorf("%w: the document: %w", db.ErrInvalid, err) }

func corrupt(err error) error { return fmt.Errorf("%w: the document: %w", db.ErrCorrupt, err) }

// failed names the run in an error that doesn't yet.
func failed(op, runID string, err error) error {
	var named *db.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &named) && named.Entity != "":
		return err
	case named != nil:
		more := *named
		more.Entity, more.ID = "checkpoint", runID
		return &more
	}
	return &db.Error{Op: op, Entity: "checkpoint", ID: runID, Err: err}
}
