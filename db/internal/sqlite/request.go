package sqlite

import (
	"context"
	"sync/atomic"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/engine"
)

// A request is one caller's call, from the queue to its answer.
type request struct {
	why   string
	write func(engine.Tx) error // one of write and read is set; read only in an in-memory database
	read  func(engine.Rx) error
	ctx   context.Context // of read
	last  bool            // of closing: it is taken when new calls are not
	care  bool            // of the file: it wakes nobody

	state atomic.Int32          // waiting, taken or left
	done  chan callback.Outcome // gets one value; nil while the caller serves itself

	// Used by the writer alone.
	tx     tx
	called bool
	result callback.Outcome
	hook   *callback.Outcome // of the first function of AfterCommit that did not return
}

const (
	waiting int32 = iota
	taken         // the writer has it: its caller waits for the answer
	left          // its caller has gone
)

func (w *writer) submit(ctx context.Context, r *request) callback.Outcome {
	if ctx.Err() != nil {
		return callback.Outcome{Err: endedBefore(ctx)}
	}
	alone, err := w.enter(r)
	if err != nil {
		return callback.Outcome{Err: err}
	}
	if alone && w.serveAlone(r) {
		return r.result
	}
	select {
	case out := <-r.done:
		return out
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, left) {
			return callback.Outcome{Err: w.engine.writerBusy(ctx)}
		}
		return <-r.done
	}
}
