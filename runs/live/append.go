package live

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"

	"selvedge/db"
)

// A Batch is what one Append records: all of its events, or none.
type Batch struct {
	Events []Event
	// Key makes the append repeatable: the same key for the same run again, with the same events, does
	// nothing, and with others it is db.ErrConflict. "" is no key. Keys go when the run does.
	Key string
	// Repeat makes the append the repeat of one whose outcome was unknown: it is the number that
	// [db.BatchOf] gives for that one's error. It does nothing where the first try was kept after all.
	// 0 is no repeat.
	Repeat int64
}

// Appended is what became of a batch.
type Appended struct {
	// First is the sequence of the batch's first event; the others follow it. With no events it is the
	// next one's.
	First uint64
	// Status is where the run stands after it.
	Status RunStatus
	// Repeated is true where the batch was there already.
	Repeated bool
}

const opAppend = "record live events"

// Append records events on a run and moves the run on. Its cost depends on the events alone: what
// the run says in words is not read.
//
// db.ErrNotFound: there is no such run, or a cap on runs has taken it. db.ErrInvalid: an event was
// not made by NewEvent, or the run has no sequence left.
func (s *Store) Append(ctx context.Context, runID string, b Batch) (a Appended, err error) {
	err = s.write(ctx, writing(b.Events), opAppend, runID, func(tx *db.Tx, scope int64) error {
		_, a, err = s.append(tx, scope, runID, b)
		return err
	})
	if err != nil {
		return Appended{}, err
	}
	return a, nil
}

// AppendTx is Append inside a transaction of the caller's, beside what else it holds.
func (s *Store) AppendTx(tx *db.Tx, runID string, b Batch) (a Appended, err error) {
	err = s.inside(tx, opAppend, runID, func(scope int64) error {
		_, a, err = s.append(tx, scope, runID, b)
		return err
	})
	if err != nil {
		return Appended{}, err
	}
	return a, nil
}

// append gives the run's row as it leaves it. The row is the lock, and each append changes it.
func (s *Store) append(tx *db.Tx, scope int64, runID string, b Batch) (row *runRow, a Appended, err error) {
	if err := b.check(); err != nil {
		return nil, a, err
	}
	row, found, err := findLocked(tx, scope, runID)
	if err == nil && !found {
		err = notFound(opAppend, runID)
	}
	if err == nil {
		a, err = s.appendTo(tx, row, b)
	}
	return row, a, err
}

// appendTo is append for a row that is locked.
func (s *Store) appendTo(tx *db.Tx, row *runRow, b Batch) (Appended, error) {
	a := Appended{First: row.count(), Status: RunStatus(row.Status)}
	if b.Repeat != 0 {
		first, done, err := row.findBatch(&tx.Rx, b.Repeat)
		if err != nil || done {
			a.First, a.Repeated = first, true
			return a, err
		}
	}
	if b.Key != "" {
		digest := b.digest()
		first, done, err := repeated(&tx.Rx, row.Key, b.Key, digest)
		if err != nil || done {
			a.First, a.Repeated = first, true
			return a, err
		}
		if err := keep(tx, row, b.Key, digest); err != nil {
			return a, err
		}
	}
	if len(b.Events) == 0 {
		return a, nil
	}
	now, batch := nowMillis(&tx.Rx), tx.Batch()
	for _, event := range b.Events {
		record := RunEventRecord{Sequence: row.count(), TimestampMs: now, Event: event}
		if err := row.addEvent(tx, &record, batch); err != nil {
			return a, err
		}
		if err := apply(tx, row, event); err != nil {
			return a, err
		}
		batch = 0 // the first event has it for all
	}
	if err := row.trim(tx, fullBudget().Events+int64(len(b.Events)), s.caps.full); err != nil {
		return a, err
	}
	a.Status = RunStatus(row.Status)
	return a, row.move(tx)
}

func (b *Batch) check() error {
	if err := db.CheckID("append key", b.Key); err != nil {
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

// repeated tells whether a batch of that key is there already, and where it begins.
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

func keep(tx *db.Tx, row *runRow, key string, digest []byte) error {
	columns := []any{row.Key, key, strconv.FormatUint(row.count(), 10), digest}
	return tx.Queue(sqlAddKey, append(columns, db.Checksum(columns...))...)
}

// apply moves the run's status and texts on.
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
