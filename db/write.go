package db

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Write runs fn in a write transaction and returns when it is committed. why names the call in errors and to
// Options.Observe.
//
// One fn runs at a time in this process, on the caller's goroutine when nobody else waits and on the writer's own else. So
// it must be short, must not block on other callers, and must not call Read or Write of the same file (an error at once).
// Callers that wait at the same time share a commit; an error, a panic or a Goexit in one caller's function undoes its
// changes alone. fn may run more than once, when SQLite ended the transaction of the group (a full disk): what it changes
// outside the database it must be able to change again.
//
// When ctx ends before fn has begun, Write returns at once with ErrBusy and the context's cause. Once fn has begun, Write
// returns when fn and its commit have ended. A commit that fails is not known to have failed: ErrOutcomeUnknown.
func (d *DB) Write(ctx context.Context, why string, fn func(*Tx) error) error {
	if d.writer == nil {
		return &Error{Op: why, Hint: "open the file without Options.ReadOnly", Err: fmt.Errorf("%w: the file was opened read-only", ErrInvalid)}
	}
	return d.writer.submit(ctx, &request{why: why, write: fn})
}

// A request is one caller's call, from the queue to its answer.
type request struct {
	why   string
	write func(*Tx) error // one of write and read is set; read only in an in-memory database
	read  func(*Rx) error

	state  atomic.Int32 // waiting, taken or left
	done   chan outcome // gets one value; nil while the caller serves itself
	queued time.Time
	began  time.Time

	// Used by the writer alone.
	tx     Tx
	called bool
	result outcome
}

const (
	waiting int32 = iota
	taken         // the writer has it: its caller waits for the answer
	left          // its caller has gone
)

func (w *writer) submit(ctx context.Context, r *request) error {
	if w.db.callbacks.inside() {
		return nested(r.why)
	}
	if err := ctx.Err(); err != nil {
		return waitEnded(ctx, r.why, "the writer")
	}
	if w.db.options.Observe != nil {
		r.queued = time.Now()
	}
	alone, err := w.enter(r)
	if err != nil {
		return err
	}
	var out outcome
	if alone && w.serveAlone(r) {
		out = r.result
	} else {
		select {
		case out = <-r.done:
		case <-ctx.Done():
			if r.state.CompareAndSwap(waiting, left) {
				return waitEnded(ctx, r.why, "the writer")
			}
			out = <-r.done
		}
	}
	out.err = wrap(r.why, out.err)
	w.db.observe(r, out)
	return out.leave()
}

func nested(why string) error {
	return &Error{
		Op: why, Hint: "use the transaction that the function was given, or make the call after it",
		Err: fmt.Errorf("%w: a call from inside a Read or Write function would wait for itself", ErrInvalid),
	}
}

func closedError(why string) error {
	return &Error{Op: why, Err: ErrClosed}
}
