package sqlite

import (
	"cmp"
	"context"
	"errors"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
)

// step runs one caller's function, in a savepoint when others share the transaction.
func (w *writer) step(r *request) {
	shared := len(w.group) > 1
	if !r.called {
		if w.at == 0 && len(w.drawn) > 0 {
			if err := w.raiseCounters(); err != nil {
				w.breakUp(err)
				return
			}
		}
		r.called = true
		r.tx = tx{rx: rx{engine: w.engine, session: w.session}}
		if shared {
			if _, err := w.session.exec(sqlSavepoint); err != nil {
				w.breakUp(err)
				return
			}
		}
		w.running.Store(r)
		w.engine.config.Callbacks.Invoke(r.call, func(out callback.Outcome) {
			w.running.Store(nil)
			r.result = out
		})
	}
	if err := r.tx.end(); err != nil && !r.result.Failed() {
		r.result.Err = err
	}
	if r.tx.dead != nil {
		w.breakUp(r.tx.dead)
		return
	}
	if shared {
		if err := w.endSavepoint(r); err != nil {
			w.breakUp(err)
			return
		}
	}
	w.at++
}

func (r *request) call() error {
	if r.read != nil {
		return r.tx.queryOnly(r.ctx, r.why, r.read)
	}
	return r.write(&r.tx)
}

// queryOnly runs a read on the writing connection of an in-memory database, during which it can't
// write.
func (t *tx) queryOnly(ctx context.Context, why string, fn func(engine.Rx) error) (err error) {
	if _, err := t.session.exec("PRAGMA query_only=1"); err != nil {
		return err
	}
	defer func() {
		left := t.rx.end() // an interrupt lasts until all rows are closed
		_, off := t.session.exec("PRAGMA query_only=0")
		err = errors.Join(cmp.Or(err, left), off)
	}()
	t.engine.reads.begin(ctx, why, &t.rx)
	defer t.engine.reads.end(&t.rx)
	return fn(t)
}

// endSavepoint ends a caller's savepoint.
func (w *writer) endSavepoint(r *request) error {
	if r.result.Failed() {
		r.tx.RolledBack()
		if _, err := w.session.exec(sqlRollbackTo); err != nil {
			return err
		}
	}
	_, err := w.session.exec(sqlRelease)
	if err == nil && r.result.Failed() {
		err = w.raiseCounters()
	}
	return err
}

// breakUp handles a transaction that SQLite ended under its group. A lone caller gets the error.
// The callers of a larger group run again one by one, so that only the failing one fails; those
// whose function panicked or exited don't run again.
func (w *writer) breakUp(err error) {
	group := w.group
	w.group = nil
	for _, r := range group {
		if r.called {
			r.tx.RolledBack()
		}
	}
	w.abandon()
	if len(group) == 1 {
		r := group[0]
		if !r.result.Failed() || r.tx.dead != nil {
			r.result.Err = failure(err)
		}
		r.answer()
		return
	}
	for i, r := range group {
		if i <= w.at && r.called && r.result.Gone() {
			r.answer()
			continue
		}
		r.called, r.result = false, callback.Outcome{}
		w.solos = append(w.solos, r)
	}
}

// finish commits the group unless all of its callers failed, and queues the answers.
func (w *writer) finish() {
	group := w.group
	worked := false
	for _, r := range group {
		worked = worked || !r.result.Failed()
	}
	if !worked {
		if len(group) == 1 {
			group[0].tx.RolledBack()
		}
		w.group = nil
		w.abandon()
		w.answers = group
		return
	}
	var began time.Time
	if w.engine.config.Observed {
		began = time.Now()
	}
	err := w.session.commitNow()
	if err != nil {
		w.uncommitted(err)
		return
	}
	w.noteCommit()
	w.drawn = nil // each was raised where it was undone
	w.count(group, began)
	w.group = nil
	w.boundWAL()
	w.unlock()
	w.answers, w.committed, w.caring = group, true, len(group) == 1 && group[0].care
}

// count records a commit for observers. began is zero without any.
func (w *writer) count(group []*request, began time.Time) {
	var took time.Duration
	if !began.IsZero() {
		took = time.Since(began)
	}
	callers := 0
	for _, r := range group {
		if r.committed() {
			callers++
		}
	}
	if callers == 0 {
		return
	}
	for _, r := range group {
		if r.committed() {
			r.result.Group, r.result.Commit = callers, took
		}
	}
	w.counted.callers.Add(int64(callers))
	w.counted.commits.Add(1)
}

// committed reports whether the group's commit, if there is one, holds changes of this caller.
func (r *request) committed() bool { return r.write != nil && !r.care && !r.result.Failed() }

// uncommitted answers a group whose COMMIT failed, once it is settled what became of it.
func (w *writer) uncommitted(commit error) {
	undone, err := w.settled(commit)
	if undone && (len(w.group) == 1 || !errors.Is(err, engine.ErrIO)) {
		// a full disk or a deferred constraint may be one caller's fault: the others may succeed
		w.breakUp(notCommitted(err))
		return
	}
	group := w.group
	w.group = nil
	if undone {
		err = notCommitted(err)
	} else {
		w.engine.fail(err)
		err = unknown(err)
	}
	for _, r := range group {
		if !r.result.Failed() {
			r.tx.RolledBack()
			r.result.Err = err
		}
	}
	w.abandon()
	w.answers = group
}

// answerNext runs one caller's functions for after the commit, and then sends it its result. That
// may end the goroutine, so the writer holds the remaining work.
func (w *writer) answerNext() {
	r := w.answers[0]
	for w.committed && !r.result.Failed() && len(r.tx.Committed) > 0 {
		fn := r.tx.Committed[0]
		r.tx.Committed = r.tx.Committed[1:]
		w.engine.config.Callbacks.Invoke(func() error { fn(); return nil }, func(out callback.Outcome) {
			if out.Gone() && r.hook == nil {
				out.Committed, out.Group, out.Commit = true, r.result.Group, r.result.Commit
				r.hook = &out
			}
		})
	}
	w.answers = w.answers[1:]
	if r.hook != nil {
		r.result = *r.hook
	}
	r.answer()
	if len(w.answers) == 0 && w.committed {
		w.committed = false
		if w.caring {
			return
		}
		w.engine.watch.Tell()
		if w.engine.space != nil {
			w.engine.space.touched()
		}
	}
}

// answer sends the result to a waiting caller; a caller that serves itself has it.
func (r *request) answer() {
	if r.done != nil {
		r.done <- r.result
	}
}
