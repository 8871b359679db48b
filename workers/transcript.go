package workers

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/workers"
)

const (
	opTranscript   = "read transcript"
	transcriptName = "transcript" // in cursors
)

// Transcript gives what was said to a worker, one by one, read in pages: no transaction is open
// while the caller's loop runs, and what is said meanwhile is seen. After an error there is nothing
// more. db.ErrNotFound: there is no such worker.
func (r *Runtime) Transcript(ctx context.Context, worker WorkerRef) iter.Seq2[TranscriptEntry, error] {
	return db.AllPages(func(at db.At) (db.Page[TranscriptEntry],
		error,
	) {
		return r.TranscriptPage(ctx, worker, at)
	})
}

// TranscriptPage gives a page of what was said to a worker, oldest first, whatever the runtime's
// limits. db.ErrNotFound: there is no such worker. db.ErrCursorExpired: the worker that the cursor
// is of was removed.
func (r *Runtime) TranscriptPage(ctx context.Context, worker WorkerRef,
	at db.At,
) (page db.Page[TranscriptEntry], err error) {
	err = r.db.Read(ctx, opTranscript, func(rx *db.Rx) error {
		page, err = r.TranscriptPageTx(rx, worker, at)
		return err
	})
	return page, refused(err)
}

// TranscriptPageTx is TranscriptPage inside a transaction.
func (r *Runtime) TranscriptPageTx(rx *db.Rx, worker WorkerRef, at db.At) (page db.Page[TranscriptEntry],
	err error,
) {
	room, err := at.Room()
	if err == nil {
		err = rx.Of(r.db)
	}
	if err != nil {
		return page, err
	}
	var place [2]int64 // key of the worker, place of the last entry
	if at.After != "" {
		if err := rx.ReadCursor(transcriptName, at.After, place[:]); err != nil {
			return page, err
		}
	}
	w, err := r.worker(rx, worker)
	if err != nil {
		return page, err
	}
	if at.After != "" && place[0] != w.Key {
		return page, r.notOf(rx, place[0], at.After)
	}
	own := workers.Ref{RuntimeID: string(r.id), WorkerID: w.WorkerID}
	last := place[1]
	for row, err := range w.EachEntry(rx, last, int64(room.Items)+1) {
		if err != nil {
			return db.Page[TranscriptEntry]{}, err
		}
		if !room.Take(row.Weight()) {
			page.Next = rx.Cursor(transcriptName, []int64{w.Key, last})
			break
		}
		last = row.Place()
		page.Items = append(page.Items, entryOf(row.Entry(own)))
	}
	return page, nil
}

// notOf is the error for a cursor of another worker, or of one that was removed.
func (r *Runtime) notOf(rx *db.Rx, key int64, cursor string) error {
	_, other, err := workers.WorkerByKey(rx, key)
	switch {
	case err != nil:
		return err
	case other:
		return db.NotThisCursor(cursor)
	}
	return db.CursorExpired("the worker was removed")
}
