package sqlite

// A caller may pass an epoch on before the transaction that drew it is committed, and a rollback
// undoes the counter of the table. So the writer raises the counter again before any other writer
// has a turn: after the rollback to a savepoint, or, if the whole transaction is undone, in a
// separate transaction.

// drawnNumbers are the numbers, by table, up to which counters must still be raised.
type drawnNumbers map[string]int64

const sqlRaiseCounter = `UPDATE sqlite_sequence SET seq = ?2 WHERE name = ?1 AND seq < ?2`

// Drawn ensures that the counter of a table is at least n, even if the transaction is undone.
func (t *tx) Drawn(table string, n int64) {
	w := t.engine.writer
	t.OnRollback(func() {
		if w.drawn == nil {
			w.drawn = drawnNumbers{}
		}
		w.drawn[table] = max(w.drawn[table], n)
	})
}

// Drawing returns the SQL for the last number, which stays the same until a row is added: see
// engine.Tx.
func (*tx) Drawing(table, _ string) string {
	return "coalesce((SELECT seq FROM sqlite_sequence WHERE name = '" + table + "'), 0)"
}

// raiseCounters raises, in the open transaction, the counters that rollbacks set back. Only the
// commit makes that final.
func (w *writer) raiseCounters() error {
	for table, n := range w.drawn {
		if _, err := w.session.exec(sqlNewCounter, table); err != nil {
			return err
		}
		if _, err := w.session.exec(sqlRaiseCounter, table, n); err != nil {
			return err
		}
	}
	return nil
}

// keepDrawn is raiseCounters in a separate transaction. If that fails, the next group begins with
// it.
func (w *writer) keepDrawn() {
	if len(w.drawn) == 0 || w.engine.usable() != nil {
		return
	}
	if err := w.session.begin(); err != nil {
		return
	}
	err := w.raiseCounters()
	if err == nil {
		err = w.session.commitNow()
	}
	if err != nil {
		_, _ = w.session.exec(sqlRollback)
		return
	}
	w.drawn = nil
}
