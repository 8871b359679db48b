package runs

import (
	"context"

	"selvedge/db"
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
// [Store.Recover]. Without records it does nothing. A Started without StartedAt starts, and an
// Ended without EndedAt ends, at the time of the transaction.
//
// It returns ErrInvalid for a record that could not be read back, and for an id that is not UTF-8,
// holds a NUL or is longer than txn.MaxID. A run holds 16,777,215 lines, the last of which is
// reserved for an end; more is ErrInvalid.
func (s *Store) Append(ctx context.Context, b Batch) error {
	p, err := prepare(b)
	if err != nil || len(b.Records) == 0 {
		return err
	}
	return writing(b.Records)(s.db, ctx, opAppend,
		func(tx *db.Tx) error { return p.append(tx, s.scope, &s.keys, tx.Store().ExecAndCommit) })
}

// writing returns the call that writes records. An end alone is written on a full disk too, so that
// the run can be removed.
func writing(records []Record) func(d *db.DB, ctx context.Context, why string, fn func(*db.Tx) error) error {
	for _, r := range records {
		if _, end := r.(Ended); !end {
			return (*db.DB).WriteLocked
		}
	}
	return (*db.DB).WriteEnd
}

// AppendTx is Append inside the caller's transaction, next to its other changes.
func (s *Store) AppendTx(tx *db.Tx, b Batch) error {
	if err := tx.Store().Of(s.db.Store()); err != nil {
		return RunRef{AgentID: b.AgentID, RunID: b.RunID}.failed(opAppend, err)
	}
	p, err := prepare(b)
	if err != nil || len(b.Records) == 0 {
		return err
	}
	return p.append(tx, s.scope, &s.keys, tx.Exec)
}

const opAppend = "append records"
