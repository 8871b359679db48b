package live

import (
	"bytes"
	"fmt"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

const (
	sqlAddEvent = `INSERT INTO live_events (id, sequence, type, recorded_at, event, raw, batch, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlEvents = `SELECT id, sequence, recorded_at, event, raw FROM live_events WHERE id >= ? AND id < ?
		ORDER BY id LIMIT ` + paging.BoundLimit
	sqlLater = `SELECT id, sequence, recorded_at, event, raw FROM live_events WHERE id >= ? AND id < ?
		AND sequence > ? ORDER BY id LIMIT ` + paging.BoundLimit
	sqlSizes = `SELECT id, sequence, recorded_at, length(event) AS event, length(raw) AS raw
		FROM live_events WHERE id >= ? AND id < ? ORDER BY id LIMIT ` + paging.BoundLimit
	sqlDropEvents = `DELETE FROM live_events WHERE id >= ? AND id <= ?`
	sqlFindBatch  = `SELECT id, sequence, event FROM live_events WHERE id >= ? AND id < ? AND batch = ?
	ORDER BY id`
	sqlLastPlaces = `SELECT min(last.id)
	FROM (SELECT id FROM live_events WHERE id >= ? AND id < ? ORDER BY id DESC
	LIMIT ` + paging.BoundLimit + `) AS last`
)

// addEvent writes an event at the run's next place, and counts it in the row, which move then
// writes. A batch of 0 is none. db.ErrInvalid: the run has no sequence left.
func (w *runRow) addEvent(tx *db.Tx, e *RunEventRecord, batch int64) error {
	place := w.nextPlace()
	if uint64(place) > maxPlace || e.Sequence+1 == 0 {
		return fmt.Errorf("%w: the run has no sequence left", db.ErrInvalid)
	}
	if err := w.putEvent(tx, place, e, batch); err != nil {
		return err
	}
	if err := w.putUsage(tx, e); err != nil {
		return err
	}
	w.setCount(e.Sequence + 1)
	w.setUpdated(e.TimestampMs)
	if w.Places != nil {
		*w.Places++
	}
	w.KeptEvents++
	w.KeptBytes += e.size()
	return nil
}

// storeEvents writes the events of a new run from the first that the caps keep, and the usage of all of
// them. The row counts them already.
func (w *runRow) storeEvents(tx *db.Tx, events []RunEventRecord, first int) (err error) {
	for i := first; err == nil && i < len(events); i++ {
		err = w.storeEvent(tx, events, i)
	}
	for i := 0; err == nil && i < len(events); i++ {
		err = w.putUsage(tx, &events[i])
	}
	return err
}

// storeEvent writes one of the events of a new run.
func (w *runRow) storeEvent(tx *db.Tx, events []RunEventRecord, i int) error {
	return w.putEvent(tx, w.placeOf(events, i), &events[i], 0)
}

func (w *runRow) placeOf(events []RunEventRecord, i int) int64 {
	if w.Places == nil {
		return int64(events[i].Sequence)
	}
	return int64(i)
}

// skipOldest removes the oldest events from the counts of a row that is not written yet, while over
// reports true for the rest. It returns how many.
func (w *runRow) skipOldest(events []RunEventRecord, over func(events, bytes int64) bool) (skipped int) {
	for ; skipped < len(events) && over(w.KeptEvents, w.KeptBytes); skipped++ {
		w.KeptEvents--
		w.KeptBytes -= events[skipped].size()
		w.FirstPlace = w.placeOf(events, skipped) + 1
	}
	return skipped
}

func (w *runRow) putEvent(tx *db.Tx, place int64, e *RunEventRecord, batch int64) error {
	var sequence, raw, number any
	if w.Places != nil {
		sequence = int64(min(e.Sequence, maxInt64))
	}
	if !e.plain() {
		raw = e.appendJSON(nil)
	}
	if batch != 0 {
		number = batch
	}
	at, _ := timeColumn(e.TimestampMs)
	return stores.Put(tx, sqlAddEvent, w.first()|place, sequence, e.Event.kind, at, e.Event.text, raw, number)
}

// putUsage writes what the event counts, beside the event.
func (w *runRow) putUsage(tx *db.Tx, e *RunEventRecord) error {
	if e.Event.kind != usage.TurnEnd && e.Event.kind != usage.AgentEnd {
		return nil
	}
	counts, ok := usage.Read(e.Event.text)
	if !ok {
		return nil
	}
	at, _ := timeColumn(e.TimestampMs)
	return usage.Put(tx, usage.Record{
		Scope: w.Scope, RunID: w.RunID, SessionID: w.SessionID, LiveRun: w.Key, Account: e.Event.kind,
		Sequence: int64(min(e.Sequence, maxInt64)), RecordedAt: at,
	}, counts)
}

type eventRow struct {
	ID         int64  `db:"id"`
	Sequence   *int64 `db:"sequence"`
	RecordedAt int64  `db:"recorded_at"`
	Event      []byte `db:"event"`
	Raw        []byte `db:"raw"`
}

// place returns the lower half of the event's id.
func (w *eventRow) place() int64 { return w.ID & int64(maxPlace) }

// weight returns roughly how many bytes the event takes.
func (w *eventRow) weight() int { return 64 + len(w.Event) + len(w.Raw) }

func sequenceOf(id int64, sequence *int64) uint64 {
	if sequence != nil {
		return uint64(*sequence)
	}
	return uint64(id) & maxPlace
}

// deeper is how many levels more than a file can hold are read from a row, since earlier versions
// accepted events a few levels too deep to be exported.
const deeper = 8

// record returns the event as it was recorded. db.ErrCorrupt: this program never wrote such a row.
func (w *eventRow) record() (e RunEventRecord, err error) {
	var reason string
	if w.Raw != nil {
		var m *members
		if m, reason = wholeMembers(w.Raw, -deeper, true); reason == "" {
			e, reason = m.eventRecord(-deeper, true)
		}
	} else {
		e.Sequence, e.TimestampMs = sequenceOf(w.ID, w.Sequence), timeValue(w.RecordedAt, nil)
		e.Event, reason = readEvent(w.Event, -deeper, true)
	}
	if reason != "" {
		err = fmt.Errorf("%w: event %d of live run %d: %s", db.ErrCorrupt, w.place(), w.ID>>placeBits, reason)
	}
	return e, err
}

// eachEvent returns the rows of at most limit events, beginning at a place.
func (w *runRow) eachEvent(rx *db.Rx, place, limit int64) iter.Seq2[*eventRow, error] {
	return txn.Each(rx.Store(), func(row *eventRow) (*eventRow, error) { return row, nil },
		sqlEvents, w.first()+place, w.end(), limit)
}

// events returns at most limit events, beginning at a place.
func (w *runRow) events(rx *db.Rx, place, limit int64) ([]RunEventRecord, error) {
	return selectEvents(rx, sqlEvents, w.first()+place, w.end(), limit)
}

func selectEvents(rx *db.Rx, query string, args ...any) ([]RunEventRecord, error) {
	var rows []eventRow
	if err := rx.Select(&rows, query, args...); err != nil {
		return nil, err
	}
	events := make([]RunEventRecord, len(rows))
	for i := range rows {
		var err error
		if events[i], err = rows[i].record(); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// eventsAfter returns at most limit events with a higher sequence; a nil after is before all
// events.
func (w *runRow) eventsAfter(rx *db.Rx, after *uint64, limit int64) ([]RunEventRecord, error) {
	switch {
	case after == nil:
		return w.events(rx, 0, limit)
	case *after+1 == 0, w.Places == nil && *after >= maxPlace:
		return nil, nil
	case w.Places == nil:
		return w.events(rx, int64(*after)+1, limit)
	case *after < maxInt64:
		return selectEvents(rx, sqlLater, w.first(), w.end(), int64(*after), limit)
	}
	// The column holds all of these sequences as one number.
	events, err := selectEvents(rx, sqlLater, w.first(), w.end(), int64(maxInt64-1), int64(paging.NoLimit))
	var later []RunEventRecord
	for _, e := range events {
		if e.Sequence > *after && int64(len(later)) < limit {
			later = append(later, e)
		}
	}
	return later, err
}

// record returns the run with its events.
func (w *wholeRow) record(rx *db.Rx) (RunRecord, error) {
	events, err := w.events(rx, 0, paging.NoLimit)
	return RunRecord{Snapshot: w.snapshot(), Events: events}, err
}

// An eventSize is an event's row with the lengths of its texts.
type eventSize struct {
	ID         int64  `db:"id"`
	Sequence   *int64 `db:"sequence"`
	RecordedAt int64  `db:"recorded_at"`
	Event      int64  `db:"event"`
	Raw        *int64 `db:"raw"`
}

// trim deletes the oldest events, at most most of them, while over reports true for the rest; move
// then writes the row. One statement deletes a few hundred.
func (w *runRow) trim(tx *db.Tx, most int64, over func(events, bytes int64) bool) error {
	for gone := int64(0); w.KeptEvents > 0 && gone < most && over(w.KeptEvents, w.KeptBytes); {
		const some = 512
		var oldest []eventSize
		if err := tx.Select(&oldest, sqlSizes, w.first(), w.end(), min(some, most-gone)); err != nil {
			return err
		}
		if len(oldest) == 0 {
			return fmt.Errorf("%w: live run %q counts events that are not there", db.ErrCorrupt, w.RunID)
		}
		last := w.first()
		for i := range oldest {
			if !over(w.KeptEvents, w.KeptBytes) {
				break
			}
			e := &oldest[i]
			size := plainSize(sequenceOf(e.ID, e.Sequence), timeValue(e.RecordedAt, nil), int(e.Event))
			if e.Raw != nil {
				size = *e.Raw
			}
			last = e.ID
			w.KeptEvents--
			w.KeptBytes -= size
			gone++
		}
		if _, err := tx.Exec(sqlDropEvents, w.first(), last); err != nil {
			return err
		}
		w.FirstPlace = last - w.first() + 1
	}
	return nil
}

// findBatch returns the sequence of the last event of the append with this number; found is false if
// that event is not kept. Of several appends in one transaction, it is one that ended with the same
// event. It reads all events of the run.
func (w *runRow) findBatch(rx *db.Rx, batch int64, events []Event) (last uint64, found bool, err error) {
	rows := txn.Each(rx.Store(), func(row *eventRow) (eventRow, error) { return *row, nil },
		sqlFindBatch, w.first(), w.end(), batch)
	for row, err := range rows {
		if err != nil {
			return 0, false, err
		}
		last, found = sequenceOf(row.ID, row.Sequence), true
		if n := len(events); n > 0 && bytes.Equal(row.Event, events[n-1].text) {
			break
		}
	}
	return last, found, nil
}

// lastPlaces returns the place of the first of the last events that are kept; found is false if
// none is.
func (w *runRow) lastPlaces(rx *db.Rx, events int64) (place int64, found bool, err error) {
	var first *int64
	err = rx.Get(&first, sqlLastPlaces, w.first(), w.end(), min(events, paging.NoLimit))
	if err != nil || first == nil {
		return 0, false, err
	}
	return *first - w.first(), true, nil
}
