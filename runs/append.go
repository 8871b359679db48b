package runs

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Batch is what one append adds to a run: all of it, or nothing.
type Batch struct {
	AgentID string
	RunID   string
	Records []Record
	// Key makes the append idempotent. Repeating it with the same key for the same run and the same
	// records does nothing; with other records it is ErrConflict. "" means no key. For 30 days
	// after the run is removed, the key still does nothing, unless a new run has taken the name by
	// then: a new run knows only its own keys.
	Key string
	// Repeat marks the append as the repeat of one whose outcome was unknown. It is the number that
	// [db.BatchOf] returns for that append's error. The append does nothing if the first try was
	// committed after all. 0 means no repeat.
	Repeat int64
	// Parent is the run that started this one. It must be in the same scope and exist already, else
	// the append fails with ErrNotFound. The link is stored as long as both runs exist. It is in no
	// trace line and in no export. The zero value records no parent.
	Parent RunRef
}

// Append adds records to a run and creates the run if it does not exist. An open run that it writes
// to belongs to this process from then on, unless it belongs to another live process; see
// [Store.Recover]. A batch without records does nothing. repeated is true if the batch was stored before:
// by its key, or as the repeat of an append that was committed.
//
// It returns ErrInvalid for a record that could not be read back, for an id that is not UTF-8,
// holds a NUL or is longer than txn.MaxID, and for a Parent without records. A run holds 16,777,215
// lines, the last of which is reserved for an end; more is ErrInvalid. ErrConflict: the run is held,
// and the *db.ReservedError names the holder; [Run.Append] writes under the lease.
func (s *Store) Append(ctx context.Context, b Batch) (repeated bool, err error) {
	p, err := prepare(b)
	if err != nil || len(b.Records) == 0 {
		return false, err
	}
	err = writing(b.Records)(stores.On(s.db, txn.Runs), ctx, opAppend, func(tx *db.Tx) (err error) {
		repeated, err = p.append(tx, s, tx.Store().ExecAndCommit)
		return err
	})
	return repeated && err == nil, err
}

// writing returns the call that writes records. An end alone is written on a full disk too, so that
// the run can be removed.
func writing(records []Record,
) func(w stores.Writer, ctx context.Context, why string, fn func(*db.Tx) error) error {
	for _, r := range records {
		if _, end := r.(Ended); !end {
			return stores.Writer.Write
		}
	}
	return stores.Writer.End
}

// AppendTx is Append inside the caller's transaction, next to its other changes.
func (s *Store) AppendTx(tx *db.Tx, b Batch) (repeated bool, err error) { return s.appendTx(tx, b, 0) }

// appendTx appends under the lease with this epoch, which holds in tx; 0 is none.
func (s *Store) appendTx(tx *db.Tx, b Batch, epoch int64) (repeated bool, err error) {
	p, err := s.prepareIn(tx, b)
	if err != nil || len(b.Records) == 0 {
		return false, err
	}
	p.epoch = epoch
	return p.append(tx, s, tx.Exec)
}

// prepareIn is prepare for a transaction, which must be of the store's database.
func (s *Store) prepareIn(tx *db.Tx, b Batch) (p prepared, err error) {
	if err := tx.Store().Of(s.db.Store()); err != nil {
		return p, RunRef{AgentID: b.AgentID, RunID: b.RunID}.failed(opAppend, err)
	}
	return prepare(b)
}

const opAppend = "append records"
