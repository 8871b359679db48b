package runs

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
)

const opTrace = "read trace"

// Trace returns the records of a run one by one, those of later versions too, read in pages: no
// transaction is open while the caller's loop runs, and it sees records that are appended
// meanwhile. The error is ErrNotFound for a run that does not exist, and ErrCursorExpired for a run
// that is removed while it is read. The loop ends at an error.
func (s *Store) Trace(ctx context.Context, run RunRef) iter.Seq2[TraceRecord, error] {
	return func(yield func(TraceRecord, error) bool) {
		page := func(at db.At) (db.Page[Followed], error) { return s.TracePage(ctx, run, at) }
		for r, err := range paging.All(page) {
			if !yield(r.Item, err) {
				return
			}
		}
	}
}

// TracePage returns a page of the records of a run, in the order of the trace, those of later
// versions too. The limit counts the lines that are read, including imported lines that are no
// records. The cursors are those of [Store.Follow], which continues after the last item. The error
// is ErrNotFound for a run that does not exist, and ErrCursorExpired for a cursor into a run that
// is gone, even if a new run has its name.
func (s *Store) TracePage(ctx context.Context, run RunRef, at db.At) (page db.Page[Followed], err error) {
	return stores.Get(ctx, s.db.Read, opTrace,
		func(rx *db.Rx) (db.Page[Followed], error) { return s.TracePageTx(rx, run, at) })
}

// TracePageTx is TracePage inside a transaction.
func (s *Store) TracePageTx(rx *db.Rx, run RunRef, at db.At) (page db.Page[Followed], err error) {
	place, err := s.placeIn(rx, run, at.After)
	if err == nil {
		page, err = stream.Page(rx, place, at)
	}
	if err != nil {
		return page, run.failed(opTrace, err)
	}
	return page, nil
}

// Lines returns every line of a run's trace, read in pages: no transaction is open while the
// caller's loop runs. Record is nil for an imported line that is no record. The error is
// ErrNotFound for a run that does not exist, and ErrCursorExpired for a run that is removed while
// it is read.
func (s *Store) Lines(ctx context.Context, run RunRef) iter.Seq2[TraceRecord, error] {
	const op = "read lines"
	return func(yield func(TraceRecord, error) bool) {
		var row, last int64
		for more := true; more; {
			var page []storedLine
			err := s.db.Read(ctx, op, func(rx *db.Rx) (err error) {
				key, found, err := s.find(rx, run)
				switch {
				case err != nil:
					return err
				case row == 0 && !found:
					return run.failed(op, db.ErrNotFound)
				case row != 0 && row != key:
					return run.failed(op, errGone())
				}
				row = key
				page, more, err = readLines(rx, key, last, paging.MaxBytes)
				return err
			})
			if err != nil {
				yield(TraceRecord{}, err)
				return
			}
			for _, line := range page {
				if !yield(TraceRecord{line.sequence, readLine(line.text).record, line.text}, nil) {
					return
				}
				last = line.sequence
			}
		}
	}
}

// find returns the key of a run.
func (s *Store) find(rx *db.Rx, run RunRef) (key int64, found bool, err error) {
	scope, ok, err := s.scopeIn(rx)
	if err != nil || !ok {
		return 0, false, err
	}
	found, err = rx.Find(&key, sqlRunOfAgent, scope, run.RunID, run.AgentID)
	return key, found, err
}
