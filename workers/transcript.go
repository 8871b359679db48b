package workers

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opTranscript   = "read transcript"
	transcriptName = "transcript" // in cursors
)

// Transcript iterates over a worker's transcript, page by page, and over entries added meanwhile.
// No transaction is open while the caller's loop runs. An error ends the iteration. A missing
// worker is db.ErrNotFound.
func (r *Runtime) Transcript(ctx context.Context, worker WorkerRef) iter.Seq2[TranscriptEntry, error] {
	return paging.All(func(at db.At) (db.Page[TranscriptEntry], error) {
		return r.TranscriptPage(ctx, worker, at)
	})
}

// TranscriptPage returns a page of a worker's transcript, oldest first. The runtime's limits do not
// apply. A missing worker is db.ErrNotFound; a cursor of a removed worker is db.ErrCursorExpired.
func (r *Runtime) TranscriptPage(ctx context.Context, worker WorkerRef, at db.At) (db.Page[TranscriptEntry],
	error,
) {
	return call(ctx, r.db.Read, opTranscript, stores.Bind2(r.TranscriptPageTx, worker, at))
}

// TranscriptPageTx is TranscriptPage inside a transaction.
func (r *Runtime) TranscriptPageTx(rx *db.Rx, worker WorkerRef, at db.At) (page db.Page[TranscriptEntry],
	err error,
) {
	room, err := paging.RoomFor(at.Limit)
	if err == nil {
		err = rx.Store().Of(r.db.Store())
	}
	if err != nil {
		return page, err
	}
	var place [2]int64 // key of the worker, place of the last entry
	if at.After != "" {
		if err := rx.Store().ReadCursor(transcriptName, at.After, place[:]); err != nil {
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
	rows, err := stores.FillPage(room, w.eachEntry(rx, place[1], int64(room.Items)+1),
		func(e **entryRow) int { return (*e).weight() },
		func(e **entryRow) string { return rx.Store().Cursor(transcriptName, []int64{w.Key, (*e).place()}) })
	for _, row := range rows.Items {
		page.Items = append(page.Items, row.entry(worker))
	}
	page.Next = rows.Next
	return page, err
}

// notOf returns the error about a cursor of another worker, or of a removed one.
func (r *Runtime) notOf(rx *db.Rx, key int64, cursor string) error {
	_, other, err := find[workerRow](rx, sqlByKey, key)
	switch {
	case err != nil:
		return err
	case other:
		return txn.NotThisCursor(cursor)
	}
	return txn.CursorExpired("the worker was removed")
}
