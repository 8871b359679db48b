package db

import (
	"errors"

	sqlite3 "modernc.org/sqlite/lib"
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
		w.db.callbacks.invoke(r.call, func(out outcome) { r.result = out })
	}
	r.tx.ended = true
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
	r.began = w.db.observedNow()
	r.tx = Tx{Rx: Rx{db: w.db, session: w.session, now: w.db.now()}}
	r.tx.writes = &r.tx
}

func (r *request) call() error {
	if r.read != nil {
		return r.tx.queryOnly(r.read)
	}
	return r.write(&r.tx)
}

// queryOnly runs a read on the writing connection of an in-memory database, which can't write meanwhile.
func (tx *Tx) queryOnly(fn func(*Rx) error) (err error) {
	if _, err := tx.Exec("PRAGMA query_only=1"); err != nil {
		return err
	}
	defer func() {
		_, off := tx.session.exec("PRAGMA query_only=0")
		err = errors.Join(err, off)
	}()
	return fn(&tx.Rx)
}

// settle ends a caller's savepoint.
func (w *writer) settle(r *request) error {
	if r.result.failed() {
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
		if !r.result.failed() || r.tx.dead != nil {
			r.result.err = err
		}
		r.answer()
		return
	}
	for i, r := range group {
		ran := i <= w.at && r.called
		if ran && !r.result.failed() {
			r.tx.rolledBack()
		}
		if ran && (r.result.panic != nil || r.result.goexit) {
			r.answer()
			continue
		}
		r.called, r.result = false, outcome{}
		w.solos = append(w.solos, r)
	}
}

// finish commits the group, unless all in it failed, and answers everybody.
func (w *writer) finish() {
	group := w.group
	worked := false
	for _, r := range group {
		worked = worked || !r.result.failed()
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
	w.db.watch.tell()
}

// answer tells each caller how its call ended; failed is the commit's error.
func (w *writer) answer(group []*request, failed error) {
	for _, r := range group {
		switch {
		case r.result.failed():
			if len(group) == 1 {
				r.tx.rolledBack()
			}
		case failed != nil:
			r.tx.rolledBack()
			r.result.err = unknown(r.why, failed)
		default:
			if len(r.tx.afterwards) > 0 {
				w.db.callbacks.run(r.tx.committed)
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
