package postgres

import (
	"context"
	"slices"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
)

const sqlBeginRead = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

// Read runs fn in a read transaction. It retries if the connection was lost.
func (e *Engine) Read(ctx context.Context, why string, fn func(engine.Rx) error) callback.Outcome {
	return e.read(ctx, why, fn, []bound{control(sqlBeginRead)})
}

// ReadSingle runs fn without a transaction around its statements, of which there is usually one.
// Reading sessions are read-only with or without a transaction.
func (e *Engine) ReadSingle(ctx context.Context, why string, fn func(engine.Rx) error) callback.Outcome {
	return e.read(ctx, why, fn, nil)
}

func (e *Engine) read(ctx context.Context, why string, fn func(engine.Rx) error,
	begin []bound,
) (out callback.Outcome) {
	if ctx.Err() != nil {
		return callback.Outcome{Err: engine.EndedBefore(ctx)}
	}
	one, within, err := e.calls.begin(ctx, why, false)
	if err != nil {
		return callback.Outcome{Err: err}
	}
	defer e.calls.over(one)
	var t trouble
	for {
		e.scout.look(within)
		s, err := e.readers.acquire(within)
		if err == nil {
			err = e.serveRead(within, s, fn, begin, &out)
		} else {
			out = callback.Outcome{Err: failure(err)}
		}
		if err == nil || !t.again(within, e.patience, err) {
			return out
		}
		if isLost(err) {
			e.readers.renew()
		}
	}
}

// serveRead runs fn once. again is why it may be run once more: the connection or a prepared
// statement failed.
func (e *Engine) serveRead(ctx context.Context, s *session, fn func(engine.Rx) error, begin []bound,
	out *callback.Outcome,
) (again error) {
	defer e.readers.release(s)
	w := s.wire
	w.ctx = ctx
	w.mayDial(true)
	defer func() {
		w.ctx = background
		w.mayDial(false)
	}()
	x := &rx{engine: e, session: s, ctx: ctx}
	w.ahead = slices.Clone(begin)
	e.config.Callbacks.Invoke(func() error { return fn(x) }, func(o callback.Outcome) {
		if err := x.close(); err != nil && !o.Failed() {
			o.Err = err
		}
		w.endLater()
		*out = o
	})
	if x.dead != nil && !out.Gone() && ctx.Err() == nil {
		if out.Err == nil {
			out.Err = x.dead // whatever fn returned
		}
		return x.dead
	}
	return nil
}
