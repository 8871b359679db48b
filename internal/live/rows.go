package live

import (
	"fmt"
	"iter"

	"selvedge/db"
)

const (
	sqlAddEvent = `INSERT INTO live_events (id, sequence, type, recorded_at, event, raw, batch, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlEvents = `SELECT id, sequence, recorded_at, event, raw FROM live_events WHERE id >= ? AND id < ?
		ORDER BY id LIMIT ` + db.BoundLimit
	sqlLater = `SELECT id, sequence, recorded_at, event, raw FROM live_events WHERE id >= ? AND id < ?
		AND sequence > ? ORDER BY id LIMIT ` + db.BoundLimit
	sqlSizes = `SELECT id, sequence, recorded_at, length(event) AS event, length(raw) AS raw
		FROM live_events WHERE id >= ? AND id < ? ORDER BY id LIMIT ` + db.BoundLimit
	sqlDropEvents = `DELETE FROM live_events WHERE id >= ? AND id <= ?`
)

// AddEvent writes an event in the run's next place, and counts it in the row, which Move then
// writes. A batch of 0 is none.
//
// db.ErrInvalid: the run has no sequence left.
func (w *Row) AddEvent(tx *db.Tx, e *EventRecord, batch int64) error {
	place := w.NextPlace()
	if uint64(place) > maxPlace || e.Sequence+1 == 0 {
		return fmt.Errorf("%w: the run has no sequence left", db.ErrInvalid)
	}
	if err := w.putEvent(tx, place, e, batch); err != nil {
		return err
	}
	w.SetCount(e.Sequence + 1)
	w.SetUpdated(e.TimestampMs)
	if w.Places != nil {
		*w.Places++
	}
	w.KeptEvents++
	w.KeptBytes += e.Size()
	return nil
}

// AddEvents writes the events that a new run comes with. Its row has them already.
func (w *Row) AddEvents(tx *db.Tx, events []EventRecord) error {
	for i := range events {
		if err := w.PutEvent(tx, events, i); err != nil {
			return err
		}
	}
	return nil
}

// PutEvent writes one of the events that a new run comes with.
func (w *Row) PutEvent(tx *db.Tx, events []EventRecord, i int) error {
	return w.putEvent(tx, w.placeOf(events, i), &events[i], 0)
}

func (w *Row) placeOf(events []EventRecord, i int) int64 {
	if w.Places == nil {
		return int64(events[i].Sequence)
	}
	return int64(i)
}

// Pass leaves the oldest events out of a run that is not written yet while over says so of those
// that are kept. It returns how many.
func (w *Row) Pass(events []EventRecord, over func(events, bytes int64) bool) (passed int) {
	for ; passed < len(events) && over(w.KeptEvents, w.KeptBytes); passed++ {
		w.KeptEvents--
		w.KeptBytes -= events[passed].Size()
		w.FirstPlace = w.placeOf(events, passed) + 1
	}
	return passed
}

func (w *Row) putEvent(tx *db.Tx, place int64, e *EventRecord, batch int64) error {
	var sequence, number any
	if w.Places != nil {
		sequence = int64(min(e.Sequence, maxInt64))
	}
	if batch != 0 {
		number = batch
	}
	var raw any
	if !e.plain() {
		raw = e.AppendJSON(nil)
	}
	at, _ := timeColumn(e.TimestampMs)
	columns := []any{w.First() | place, sequence, e.Event.Kind, at, e.Event.Text, raw, number}
	return tx.Queue(sqlAddEvent, append(columns, db.Checksum(columns...))...)
}

// An EventRow is an event's row.
type EventRow struct {
	ID         int64  `db:"id"`
	Sequence   *int64 `db:"sequence"`
	RecordedAt int64  `db:"recorded_at"`
	Event      []byte `db:"event"`
	Raw        []byte `db:"raw"`
}

// Place is the lower half of the event's id.
func (w *EventRow) Place() int64 { return w.ID & int64(maxPlace) }

func (w *EventRow) sequence() uint64 { return sequenceOf(w.ID, w.Sequence) }

func sequenceOf(id int64, sequence *int64) uint64 {
	if sequence != nil {
		return uint64(*sequence)
	}
	return uint64(id) & maxPlace
}

// deeper is how many levels more than a file can hold are read from a row: callers could once give
// an event that was a few levels too deep to be exported. It is read as it is.
const deeper = 8

// Record is the event as it was recorded. db.ErrCorrupt: the row says what this program never wrote.
func (w *EventRow) Record() (e EventRecord, err error) {
	var reason string
	if w.Raw != nil {
		var m *members
		if m, reason = wholeMembers(w.Raw, -deeper); reason == "" {
			e, reason = m.eventRecord(-deeper, true)
		}
	} else {
		e.Sequence, e.TimestampMs = w.sequence(), timeValue(w.RecordedAt, nil)
		e.Event, reason = readEvent(w.Event, -deeper, true)
	}
	if reason != "" {
		err = fmt.Errorf("%w: event %d of live run %d: %s", db.ErrCorrupt, w.Place(), w.ID>>placeBits, reason)
	}
	return e, err
}

// Events gives at most limit events from a place on.
func (w *Row) Events(rx *db.Rx, place int64, limit int64) ([]EventRecord, error) {
	var rows []EventRow
	if err := rx.Select(&rows, sqlEvents, w.First()+place, w.End(), limit); err != nil {
		return nil, err
	}
	return records(rows)
}

func records(rows []EventRow) ([]EventRecord, error) {
	events := make([]EventRecord, len(rows))
	for i := range rows {
		var err error
		if events[i], err = rows[i].Record(); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// EventsBehind gives at most limit events of a higher sequence; a nil after is before all.
func (w *Row) EventsBehind(rx *db.Rx, after *uint64, limit int64) ([]EventRecord, error) {
	switch {
	case after == nil:
		return w.Events(rx, 0, limit)
	case *after+1 == 0:
		return nil, nil // nothing can be behind the largest number
	case w.Places == nil && *after >= maxPlace:
		return nil, nil
	case w.Places == nil:
		return w.Events(rx, int64(*after)+1, limit)
	}
	var rows []EventRow
	if *after < maxInt64 {
		if err := rx.Select(&rows, sqlLater, w.First(), w.End(), int64(*after), limit); err != nil {
			return nil, err
		}
		return records(rows)
	}
	// The column has one number for all of them.
	if err := rx.Select(&rows, sqlLater, w.First(), w.End(), int64(maxInt64-1), int64(db.NoLimit)); err != nil {
		return nil, err
	}
	events, err := records(rows)
	var later []EventRecord
	for _, e := range events {
		if e.Sequence > *after && int64(len(later)) < limit {
			later = append(later, e)
		}
	}
	return later, err
}

// Record reads the run with its events.
func (w *WholeRow) Record(rx *db.Rx) (Record, error) {
	events, err := w.Events(rx, 0, db.NoLimit)
	return Record{Snapshot: w.Snapshot(), Events: events}, err
}

// An eventSize is an event's row with the lengths of its texts.
type eventSize struct {
	ID         int64  `db:"id"`
	Sequence   *int64 `db:"sequence"`
	RecordedAt int64  `db:"recorded_at"`
	Event      int64  `db:"event"`
	Raw        *int64 `db:"raw"`
}

// Trim takes the oldest events out while over says so of what is kept, most of them at once: all in
// one statement a few hundred. The row counts on; Move then writes it. It returns how many went.
func (w *Row) Trim(tx *db.Tx, most int64, over func(events, bytes int64) bool) (gone int64, err error) {
	for w.KeptEvents > 0 && gone < most && over(w.KeptEvents, w.KeptBytes) {
		const some = 512
		var oldest []eventSize
		if err := tx.Select(&oldest, sqlSizes, w.First(), w.End(), min(some, most-gone)); err != nil {
			return gone, err
		}
		if len(oldest) == 0 {
			return gone, fmt.Errorf("%w: live run %q counts events that are not there", db.ErrCorrupt, w.RunID)
		}
		last := w.First()
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
		if _, err := tx.Exec(sqlDropEvents, w.First(), last); err != nil {
			return gone, err
		}
		w.FirstPlace = last - w.First() + 1
	}
	return gone, nil
}

const sqlFindBatch = `SELECT id, sequence FROM live_events WHERE id >= ? AND id < ? AND batch = ? ORDER BY id
	LIMIT 1`

// FindBatch gives the sequence of the first event of a batch that is kept; found is false where
// none is. It looks at all events of the run, from the oldest on.
func (w *Row) FindBatch(rx *db.Rx, batch int64) (first uint64, found bool, err error) {
	var e EventRow
	found, err = rx.Find(&e, sqlFindBatch, w.First(), w.End(), batch)
	return e.sequence(), found, err
}

// Weight is about how many bytes the event takes.
func (w *EventRow) Weight() int { return 64 + len(w.Event) + len(w.Raw) }

const sqlLastPlaces = `SELECT min(last.id)
	FROM (SELECT id FROM live_events WHERE id >= ? AND id < ? ORDER BY id DESC
	LIMIT ` + db.BoundLimit + `) AS last`

// LastPlaces gives the place of the first of the last events that are kept; found is false where none is.
func (w *Row) LastPlaces(rx *db.Rx, events int64) (place int64, found bool, err error) {
	var first *int64
	if err := rx.Get(&first, sqlLastPlaces, w.First(), w.End(), min(events, db.NoLimit)); err != nil ||
		first == nil {
		return 0, false, err
	}
	return *first - w.First(), true, nil
}

// EachEvent gives at most limit events from a place on as they are read, without a look into them.
func (w *Row) EachEvent(rx *db.Rx, place, limit int64) iter.Seq2[*EventRow, error] {
	return db.Each(rx, func(row *EventRow) (*EventRow, error) { return row, nil }, sqlEvents, w.First()+place,
		w.End(), limit)
}
