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
	// Key makes the append repeatable: the same key for the same run again, with the same records,
	// does nothing, and with others it is ErrConflict. "" is no key. For 30 days after the run was
	// removed the same key still does nothing, unless a new run has its name by then: that one knows
	// only its own keys.
	Key string
	// Repeat makes the append the repeat of one whose outcome was unknown: it is the number that
	// [db.BatchOf] gives for that one's error. It does nothing where the first try was kept after all.
	// 0 is no repeat.
	Repeat int64
	// Parent is the run that started this one, in the same scope, and already here: else the append is
	// ErrNotFound. The file keeps it as long as both runs; it is in no trace line, and no export. The
	// zero value says nothing.
	Parent RunRef
}

// Append adds records to a run and makes the run where it is missing. An open run that it writes to
// belongs to this process from then on, unless it is that of another process that lives;
// [Store.Recover] looks at that. No records change nothing. A Started without StartedAt starts, and
// an Ended without EndedAt ends, at the time of the transaction.
//
// A record that could not be read back is ErrInvalid, and so is an id that is no UTF-8, holds a NUL
// or is longer than txn.MaxID. A run holds 16,777,215 lines, the last of them an end; more is
// ErrInvalid.
func (s *Store) Append(ctx context.Context, b Batch) error {
	p, err := prepare(b)
	if err != nil || len(b.Records) == 0 {
		return err
	}
	return writing(b.Records)(s.db, ctx, opAppend,
		func(tx *db.Tx) error { return p.append(tx, s.scope, &s.keys, tx.Store().ExecAndCommit) })
}

// writing is how records are written: an end alone also on a full disk, so that the run can be removed.
func writing(records []Record) func(d *db.DB, ctx context.Context, why string, fn func(*db.Tx) error) error {
	for _, r := range records {
		if _, end := r.(Ended); !end {
			return (*db.DB).WriteLocked
		}
	}
	return (*db.DB).WriteEnd
}

// AppendTx is Append inside a transaction of the caller's, beside what else it holds.
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
