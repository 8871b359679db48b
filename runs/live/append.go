package live

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Batch is what one Append records: all of its events or none.
type Batch struct {
	Events []Event
	// Key makes the append idempotent. A second append to the run with the same key and the same
	// events does nothing; with other events it is db.ErrConflict. "" means no key. Keys are
	// removed with the run.
	Key string
	// Repeat marks the append as the repeat of one whose outcome was unknown. It is the number that
	// [db.BatchOf] returns for that append's error. The append does nothing if the first try was
	// committed after all. 0 means no repeat. A cap that removed the last event of the first try hides
	// that try: where a cap may do so, use Key.
	Repeat int64
}

// Appended is the result of an append.
type Appended struct {
	// First is the sequence of the batch's first event; the others follow it. Without events it is
	// the run's next sequence.
	First uint64
	// Status is the run's status after the batch.
	Status RunStatus
	// Repeated is true if the batch was stored before.
	Repeated bool
}

const opAppend = "record live events"

// Append records events of a run and updates the run. Its cost depends on the events alone: it does
// not read the run's texts, unless an event changes them.
//
// db.ErrNotFound: there is no such run, or a cap on runs removed it. db.ErrInvalid: an event was
// not made by NewEvent, or the run has no sequence left. db.ErrConflict: the run is held, and the
// *db.ReservedError names the holder; [Run.Append] writes under the lease.
func (s *Store) Append(ctx context.Context, runID string, b Batch) (a Appended, err error) {
	err = s.write(ctx, writing(s.db, b.Events), opAppend, runID, func(tx *db.Tx, scope int64) error {
		_, a, err = s.append(tx, scope, runID, b)
		return err
	})
	return orZero(a, err)
}

// orZero returns no value with an error.
func orZero[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// AppendTx is Append inside the caller's transaction.
func (s *Store) AppendTx(tx *db.Tx, runID string, b Batch) (a Appended, err error) {
	err = s.inside(tx, opAppend, runID, func(scope int64) error {
		_, a, err = s.append(tx, scope, runID, b)
		return err
	})
	return orZero(a, err)
}

// append returns the run's row as the append left it. The row is the lock; each append changes it.
func (s *Store) append(tx *db.Tx, scope int64, runID string, b Batch) (row *runRow, a Appended, err error) {
	if err := b.check(); err != nil {
		return nil, a, err
	}
	row, err = lockedRow(tx, opAppend, scope, runID)
	if err == nil {
		a, err = s.appendTo(tx, row, b, false)
	}
	return row, a, err
}

// appendTo is append for a locked row, which the caller holds by a lease or not.
func (s *Store) appendTo(tx *db.Tx, row *runRow, b Batch, held bool) (Appended, error) {
	a := Appended{First: row.count(), Status: RunStatus(row.Status)}
	if b.Repeat != 0 {
		last, done, err := row.findBatch(&tx.Rx, b.Repeat, b.Events)
		if err != nil || done {
			// Older programs numbered the first event of a call, which may have too few before it.
			a.First, a.Repeated = last+1-min(last+1, uint64(len(b.Events))), true
			return a, err
		}
	}
	var digest []byte
	if b.Key != "" {
		digest = b.digest()
		first, done, err := repeated(&tx.Rx, row.Key, b.Key, digest)
		if err != nil || done {
			a.First, a.Repeated = first, true
			return a, err
		}
	}
	if !held {
		if err := s.free(tx, opAppend, row); err != nil {
			return a, err
		}
	}
	if b.Key != "" {
		first := strconv.FormatUint(row.count(), 10)
		if err := stores.Put(tx, sqlAddKey, row.Key, b.Key, first, digest); err != nil {
			return a, err
		}
	}
	if len(b.Events) == 0 {
		return a, nil
	}
	now, batch := nowMillis(&tx.Rx), int64(0)
	for i, event := range b.Events {
		if i == len(b.Events)-1 { // which a cap removes last
			batch = tx.Batch()
		}
		record := RunEventRecord{Sequence: row.count(), TimestampMs: now, Event: event}
		if err := row.addEvent(tx, &record, batch); err != nil {
			return a, err
		}
		if err := apply(tx, row, event); err != nil {
			return a, err
		}
	}
	if err := row.trim(tx, fullBudget().Events+int64(len(b.Events)), s.caps.full); err != nil {
		return a, err
	}
	a.Status = RunStatus(row.Status)
	return a, row.move(tx)
}

func (b *Batch) check() error {
	if err := txn.CheckID("append key", b.Key); err != nil {
		return err
	}
	for i := range b.Events {
		if err := b.Events[i].check(); err != nil {
			return fmt.Errorf("event %d of %d: %w", i+1, len(b.Events), err)
		}
	}
	return nil
}

func (b *Batch) digest() []byte {
	sum := sha256.New()
	for i := range b.Events {
		sum.Write(b.Events[i].text)
		sum.Write([]byte{'\n'})
	}
	return sum.Sum(nil)
}

const (
	sqlFindKey = `SELECT sequence, digest FROM live_append_keys WHERE run = ? AND append_key = ?`
	sqlAddKey  = `INSERT INTO live_append_keys (run, append_key, sequence, digest, checksum)
		VALUES (?, ?, ?, ?, ?)`
)

// repeated reports whether a batch of that key is stored, and its first sequence.
func repeated(rx *db.Rx, run int64, key string, digest []byte) (first uint64, done bool, err error) {
	var row struct {
		Sequence string `db:"sequence"`
		Digest   []byte `db:"digest"`
	}
	if done, err = rx.Find(&row, sqlFindKey, run, key); err != nil || !done {
		return 0, false, err
	}
	if string(row.Digest) != string(digest) {
		return 0, false, &db.Error{
			Op: opAppend, Entity: "append key", ID: key, Hint: "use a new key for other events",
			Err: fmt.Errorf("%w: the run has other events under this key", db.ErrConflict),
		}
	}
	first, err = strconv.ParseUint(row.Sequence, 10, 64)
	return first, true, err
}

// apply updates the run's status and texts.
func apply(tx *db.Tx, w *runRow, event Event) error {
	if RunStatus(w.Status) == Cancelled {
		return nil
	}
	to := RunStatus(w.Status)
	var change func(*runTexts)
	switch event.kind {
	case "agent_start":
		to = Executing
		if event.field != "" {
			change = func(t *runTexts) {
				if t.Prompt == "" {
					t.Prompt = event.field
				}
			}
		}
	case "planning_start":
		to = Planning
	case "step_start", "tool_start", "turn_start":
		if to != Planning {
			to = Executing
		}
	case "agent_end":
		to = Completed
		change = func(t *runTexts) { t.ResultText, t.Error = &event.field, nil }
	case "error":
		to = Failed
		change = func(t *runTexts) { t.Error = &event.field }
	}
	w.Status = string(to)
	if change == nil {
		return nil
	}
	return w.changeTexts(tx, change)
}

func notFound(why, runID string) error {
	return &db.Error{
		Op: why, Entity: "live run", ID: runID, Err: db.ErrNotFound,
		Hint: "look at the scope; a cap on runs takes those that were added first, whatever their status",
	}
}
