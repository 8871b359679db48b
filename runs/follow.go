package runs

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
)

// A FollowedRecord is a record of a trace, and where it stands.
type FollowedRecord struct {
	Run      RunRef
	Sequence int64  // its place in the trace, from 1; imported lines that are no records leave theirs out
	Record   Record // those of later versions are Unknown
	Line     []byte // as an export writes it, without a line feed
	Cursor   string // the place behind it: what Follow, and TracePage, go on from once the record is dealt with
}

const opFollow = "follow runs"

// Follow delivers the records of a run that stand behind a cursor, first those that are there and then each as it comes, by
// whichever process, in the order of the trace, none twice and none left out. The cursor is one of Follow, TracePage or
// [Store.CursorBefore]; "" is the beginning. No transaction is open while the caller's loop runs, and nothing is read while
// nothing is committed to the file. An end of the run is a record like the others: more may follow.
//
// It goes on until the caller leaves the loop, or gives an error and ends: the cause once ctx ends, db.ErrClosed,
// ErrNotFound for a run that is not there, or ErrCursorExpired when the run was removed or replaced, before the call with a
// cursor or during it.
func (s *Store) Follow(ctx context.Context, run RunRef, cursor string) iter.Seq2[FollowedRecord, error] {
	return func(yield func(FollowedRecord, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the watch
		if err := s.follow(ctx, run, cursor, yield); err != nil {
			yield(FollowedRecord{}, err)
		}
	}
}

// follow returns nil when the loop was left.
func (s *Store) follow(ctx context.Context, run RunRef, cursor string, yield func(FollowedRecord, error) bool) error {
	var at tracePlace
	if cursor != "" {
		var err error
		if at, err = parseTraceCursor(cursor); err != nil {
			return run.failed(opFollow, err)
		}
	}
	// The watch comes before the first look: what is committed between them is told.
	changes, err := s.db.Changes(ctx)
	if err != nil {
		return err
	}
	for {
		var found []FollowedRecord
		seen := 0
		err := s.db.Read(ctx, opFollow, func(rx *db.Rx) (err error) {
			if at.key, err = s.findForCursor(rx, run, at.key); err != nil {
				return err
			}
			found, seen, err = readFollowed(rx, run, at, tracePageSize)
			return err
		})
		if err != nil {
			return err
		}
		at.sequence += int64(seen)
		for _, r := range found {
			if !yield(r, nil) {
				return nil
			}
		}
		if seen == tracePageSize {
			continue
		}
		if err := changed(ctx, changes); err != nil {
			return err
		}
	}
}

// readFollowed reads at most limit lines behind a place and gives the records among them. The sequences of a trace have no
// gaps, so seen lines are as many places.
func readFollowed(rx *db.Rx, run RunRef, at tracePlace, limit int) (found []FollowedRecord, seen int, err error) {
	err = eachRow(rx, at.key, at.sequence, limit, func(row *placedRow) error {
		seen++
		record, err := row.record()
		if err != nil || record == nil {
			return err
		}
		line, err := row.line()
		behind := tracePlace{key: at.key, sequence: row.sequence}
		found = append(found, FollowedRecord{Run: run, Sequence: row.sequence, Record: record, Line: line, Cursor: behind.cursor()})
		return err
	})
	return found, seen, err
}

// changed waits for the next commit.
func changed(ctx context.Context, changes <-chan struct{}) error {
	if _, open := <-changes; open {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &db.Error{Op: opFollow, Err: db.ErrClosed}
}

// CursorBefore gives the cursor with which the last lines of a run come first, at most that many; 0 lines is the end of the
// trace, for what is yet to come. ErrNotFound: there is no such run. ErrInvalid: lines is negative.
func (s *Store) CursorBefore(ctx context.Context, run RunRef, lines int64) (cursor string, err error) {
	if lines < 0 {
		return "", run.failed(opFollow, fmt.Errorf("%w: %d lines", db.ErrInvalid, lines))
	}
	err = s.db.Read(ctx, opFollow, func(rx *db.Rx) error {
		key, err := s.findForCursor(rx, run, 0)
		if err != nil {
			return err
		}
		last, err := lastSequence(rx, key)
		cursor = tracePlace{key: key, sequence: max(0, last-lines)}.cursor()
		return err
	})
	return cursor, err
}
