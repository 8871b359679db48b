package sqlite

import (
	"errors"

	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/engine"
)

// step runs one caller's function, in a savepoint when others share the transaction.
func (w *writer) step(r *request) {
	shared := len(w.group) > 1
	if !r.called {
		r.called = true
		w.prepare(r)
		if shared {
			if _, err := w.session.exec(sqlSavepoint); err != nil {
				w.breakUp(err)
				return
			}
		}
		w.engine.config.Callbacks.Invoke(r.call, func(out callback.Outcome) { r.result = out })
	}
	if err := r.tx.end(); err != nil && !r.result.Failed() {
		r.result.Err = err
	}
	if r.tx.dead != nil {
		w.breakUp(r.tx.dead)
		return
	}
	if shared {
		if err := w.settle(r); err != nil {
			w.breakUp(err)
			return
		}
	}
	w.at++
}

func (w *writer) prepare(r *request) {
	r.tx = tx{rx: rx{engine: w.engine, session: w.session}}
	r.tx.write = &r.tx
}

func (r *request) call() error {
	if r.read != nil {
		return r.tx.queryOnly(r.read)
	}
	return r.write(&r.tx)
}

// queryOnly runs a read on the writing connection of an in-memory database, which can't write meanwhile.
func (t *tx) queryOnly(fn func(engine.Rx) error) (err error) {
	if _, err := t.session.exec("PRAGMA query_only=1"); err != nil {
		return err
	}
	defer func() {
		_, off := t.session.exec("PRAGMA query_only=0")
		err = errors.Join(err, off)
	}()
	return fn(t)
}

// settle ends a caller's savepoint.
func (w *writer) settle(r *request) error {
	if r.result.Failed() {
		r.tx.rolledBack()
		if _, err := w.session.exec(sqlRollbackTo); err != nil {
			return err
		}
	}
	_, err := w.session.exec(sqlRelease)
	return err
}

// breakUp is what happens when SQLite ended the transaction under the group. A caller who was alone gets the error; a
// group is run again one by one, so that only the one who can't be served fails. Those who panicked or left are not.
func (w *writer) breakUp(err error) {
	group := w.group
	w.group = nil
	w.abandon()
	if len(group) == 1 {
		r := group[0]
		r.tx.rolledBack()
		if !r.result.Failed() || r.tx.dead != nil {
			r.result.Err = failure(err)
		}
		r.answer()
		return
	}
	for i, r := range group {
		ran := i <= w.at && r.called
		if ran && !r.result.Failed() {
			r.tx.rolledBack()
		}
		if ran && r.result.Gone() {
			r.answer()
			continue
		}
		r.called, r.result = false, callback.Outcome{}
		w.solos = append(w.solos, r)
	}
}

// finish commits the group, unless all in it failed, and answers everybody.
func (w *writer) finish() {
	group := w.group
	worked := false
	for _, r := range group {
		worked = worked || !r.result.Failed()
	}
	if !worked {
		w.group = nil
		w.abandon()
		w.answer(group, nil)
		return
	}
	_, err := w.session.exec(sqlCommit)
	if err != nil && len(group) > 1 && primary(err) == sqlite3.SQLITE_FULL {
		// The frames that did not fit are written over by the next transaction, so running again can't do it twice.
		w.breakUp(err)
		return
	}
	w.group = nil
	if err != nil {
		w.abandon()
		w.answer(group, err)
		return
	}
	w.boundWAL()
	w.unlock()
	w.answer(group, nil)
	w.engine.watch.tell()
}

// answer tells each caller how its call ended; failed is the commit's error.
func (w *writer) answer(group []*request, failed error) {
	for _, r := range group {
		switch {
		case r.result.Failed():
			if len(group) == 1 {
				r.tx.rolledBack()
			}
		case failed != nil:
			r.tx.rolledBack()
			r.result.Err = unknown(failed)
		default:
			if len(r.tx.afterwards) > 0 {
				w.engine.config.Callbacks.Run(r.tx.committed)
			}
		}
		r.answer()
	}
}

// answer gives a caller who waits the result; one who serves itself has it.
func (r *request) answer() {
	if r.done != nil {
		r.done <- r.result
	}
}
