package workers

import (
	"context"
	"iter"

	"selvedge/db"
)

// Events gives the events from the cursor on that are there, one by one, whatever the runtime's limits: read in pages, with
// no transaction open while the caller's loop runs. After an error there is nothing more. FollowEvents waits for those to
// come.
func (r *Runtime) Events(ctx context.Context, from EventCursor) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		if err := r.ensureOwnCursor(from); err != nil {
			yield(Delivery{}, err)
			return
		}
		position := uint64(0)
		for {
			found, state, err := r.look(ctx, from, &position)
			if err != nil {
				yield(Delivery{}, err)
				return
			}
			for _, f := range found {
				position = f.position + 1
				if !yield(Delivery{Event: f.event, Cursor: f.behind(r.id, state)}, nil) {
					return
				}
			}
			if len(found) < followed {
				return
			}
		}
	}
}

// Transcript gives a worker's entries from the index start on, one by one, whatever the runtime's limits: read in pages,
// with no transaction open while the caller's loop runs. After an error there is nothing more.
func (r *Runtime) Transcript(ctx context.Context, worker WorkerRef, start uint64) iter.Seq2[TranscriptEntry, error] {
	return func(yield func(TranscriptEntry, error) bool) {
		if err := r.ensureOwn(worker); err != nil {
			yield(TranscriptEntry{}, err)
			return
		}
		const pageSize = 200
		for next := &start; next != nil; {
			var p TranscriptProjection
			err := r.db.Read(ctx, "read transcript", func(rx *db.Rx) (err error) {
				p, err = r.projection(rx, worker, NewTranscriptQuery(*next, pageSize))
				return err
			})
			if err != nil {
				yield(TranscriptEntry{}, refused(err))
				return
			}
			for _, e := range p.Items {
				if !yield(e, nil) {
					return
				}
			}
			next = p.NextStart
		}
	}
}
