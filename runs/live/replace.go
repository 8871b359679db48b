package live

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

const (
	opReplace    = "replace live records"
	sqlRowsByKey = selectWhole + `WHERE r.scope = ? ORDER BY r.key`
	sqlHeldRows  = `SELECT ` + rowColumns + ` FROM live_runs AS r WHERE r.scope = ? AND r.epoch IS NOT NULL
	ORDER BY r.key`
)

// replace replaces the runs of the scope with a list, in order of creation.
func (s *Store) replace(ctx context.Context, list []*RunRecord) error {
	r, err := s.compare(ctx, list)
	if err == nil && len(r.removed)+len(r.added) > 0 {
		err = r.run(ctx)
	}
	if errors.Is(err, errChanged) {
		r = &replacement{store: s, added: s.newRuns(list)}
		err = r.run(ctx)
	}
	return err
}

// A replacement is a change to the runs of a scope. All runs after the last one that is kept are
// removed, including those that are not listed here.
type replacement struct {
	store   *Store
	kept    []wholeRow
	removed []wholeRow
	added   []newRun
	owner   int64 // of the keys reserved for the added runs; 0: none are
	// reserved is how many of the added runs have their keys. A transaction that fails leaves its
	// own keys to the next one.
	reserved int
}

// A newRun is a run that is added, with its events from the first that the caps keep.
type newRun struct {
	row    *wholeRow
	events []RunEventRecord
	first  int
}

var errChanged = errors.New("a run changed since it was compared")

// compare keeps the runs that equal the first records, in order, so that restoring what is stored
// changes nothing, not for followers either.
func (s *Store) compare(ctx context.Context, list []*RunRecord) (r *replacement, err error) {
	r = &replacement{store: s}
	err = s.readScope(ctx, opReplace, func(rx *db.Rx, scope int64) error {
		r.kept, r.removed = nil, nil
		var rows []wholeRow
		if err := rx.Select(&rows, sqlRowsByKey, scope); err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			if n := len(r.kept); n < len(list) && row.RunID == list[n].Snapshot.ID {
				equal, err := s.equal(rx, row, list[n])
				if err != nil {
					return err
				}
				if equal {
					r.kept = append(r.kept, *row)
					continue
				}
			}
			r.removed = append(r.removed, *row)
		}
		return nil
	})
	r.added = s.newRuns(list[len(r.kept):])
	return r, err
}

// equal reports whether a stored run equals a record, and is within the caps.
func (s *Store) equal(rx *db.Rx, row *wholeRow, r *RunRecord) (bool, error) {
	if int64(len(r.Events)) != row.KeptEvents || s.caps.full(row.KeptEvents, row.KeptBytes) {
		return false, nil
	}
	equal, err := row.equals(rx, *r)
	if errors.Is(err, db.ErrCorrupt) {
		return false, nil
	}
	return equal, err
}

// equals reports whether a stored run equals a record, whatever its bytes were.
func (w *wholeRow) equals(rx *db.Rx, r RunRecord) (bool, error) {
	ours, err := w.record(rx)
	if err != nil {
		return false, err
	}
	r.Snapshot.EventCount = r.nextSequence()
	return bytes.Equal(ours.json(), r.json()), nil
}

func (s *Store) newRuns(list []*RunRecord) []newRun {
	added := make([]newRun, len(list))
	for i, r := range list {
		row := rowOf(0, r)
		added[i] = newRun{row, r.Events, row.skipOldest(r.Events, s.caps.full)}
	}
	return added
}

// run swaps the runs in one transaction. If there are many events, they are written before it and
// deleted after it; if there are many runs, their keys are reserved before it, since taking a key
// is as slow as writing the row.
func (r *replacement) run(ctx context.Context) error {
	left, early := fullBudget(), false
	for _, n := range r.added {
		early = early || !left.take(eventsOfARun+n.row.KeptEvents, n.row.KeptBytes)
	}
	var err error
	if early {
		err = r.writeEarly(ctx)
	}
	if err == nil {
		err = stores.On(r.store.db, txn.LiveScopes).Write(ctx, opReplace, r.swap)
	}
	if err != nil {
		r.abandon(ctx)
		return err
	}
	_ = r.store.dropLeftovers(ctx) // an error would mean that nothing was replaced
	return nil
}

// writeEarly writes the events of the added runs in short transactions, under reserved keys.
func (r *replacement) writeEarly(ctx context.Context) error {
	for run, written := 0, 0; run < len(r.added); {
		var at, n int
		err := stores.On(r.store.db, txn.LiveScopes).Write(ctx, opReplace, func(tx *db.Tx) (err error) {
			at, n, err = r.writeSome(tx, run, written)
			return err
		})
		if err != nil {
			return err
		}
		run, written = at, n
		if r.reserved = run; written > 0 {
			r.reserved++
		}
	}
	return nil
}

// writeSome writes as many events as one transaction may, beginning at a run of which some events
// are written. It returns where the next transaction begins.
func (r *replacement) writeSome(tx *db.Tx, run, written int) (int, int, error) {
	scope, err := tx.Store().Scope(r.store.scope)
	if err == nil {
		r.owner, err = tx.Store().Owner()
	}
	left := budget{writtenAtOnce, bytesAtOnce}
	for err == nil && run < len(r.added) && left.Events > 0 {
		n := &r.added[run]
		if written == 0 {
			n.row.Scope = scope
			err = n.row.reserve(tx, r.owner, &left)
		}
		for ; err == nil && n.first+written < len(n.events); written++ {
			i := n.first + written
			if !left.take(1, n.events[i].size()) && written > 0 {
				return run, written, nil
			}
			err = n.row.storeEvent(tx, n.events, i)
		}
		if err != nil {
			return run, written, fmt.Errorf("live run %q: %w", n.row.RunID, err)
		}
		run, written = run+1, 0
	}
	return run, written, err
}

// swap removes the old runs and makes the new ones visible.
func (r *replacement) swap(tx *db.Tx) error {
	scope, err := tx.Store().Scope(r.store.scope)
	if err != nil {
		return err
	}
	if err := r.checkHolders(tx, scope); err != nil {
		return err
	}
	for i := range r.added {
		if err := usage.ForgetLive(tx, scope, r.added[i].row.RunID); err != nil {
			return err
		}
	}
	left, lastKept := fullBudget(), int64(0)
	for i := range r.kept {
		if err := unchanged(tx, &r.kept[i]); err != nil {
			return err
		}
		lastKept = r.kept[i].Key
	}
	for i := range r.removed {
		if r.removed[i].Key > lastKept {
			break // removeBehind removes the others
		}
		row, found, err := rowByKey(&tx.Rx, r.removed[i].Key)
		if err == nil && found {
			err = row.remove(tx, &left)
		}
		if err != nil {
			return err
		}
	}
	if err := removeBehind(tx, scope, lastKept, &left); err != nil || len(r.added) == 0 {
		return err
	}
	for i := range r.added {
		if err := r.add(tx, scope, &r.added[i]); err != nil {
			return fmt.Errorf("live run %q: %w", r.added[i].row.RunID, err)
		}
	}
	return countIn(tx, scope, len(r.added), r.added[0].row.Key)
}

// checkHolders returns db.ErrConflict if a run that would be removed is held.
func (r *replacement) checkHolders(tx *db.Tx, scope int64) error {
	var rows []runRow
	if err := tx.Select(&rows, sqlHeldRows, scope); err != nil || len(rows) == 0 {
		return err
	}
	kept := make(map[int64]bool, len(r.kept))
	for i := range r.kept {
		kept[r.kept[i].Key] = true
	}
	for i := range rows {
		if kept[rows[i].Key] {
			continue
		}
		if err := r.store.free(tx, opReplace, &rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// unchanged returns errChanged if a run changed since it was compared.
func unchanged(tx *db.Tx, was *wholeRow) error {
	now, found, err := wholeByKey(&tx.Rx, was.Key)
	if err == nil && (!found || !now.same(was)) {
		err = errChanged
	}
	return err
}

// add writes a run. If its events are written, it uses the run's reserved key, which this process
// may have lost.
func (r *replacement) add(tx *db.Tx, scope int64, n *newRun) error {
	first, write := n.first, n.row.add
	if r.owner != 0 {
		mine, err := tx.Exec(sqlMine, n.row.Key, r.owner)
		if err == nil && mine == 0 {
			err = fmt.Errorf("%w: its events were taken for left ones", db.ErrConflict)
		}
		if err != nil {
			return err
		}
		first, write = len(n.events), n.row.addAs
	}
	n.row.Scope = scope
	err := write(tx)
	if err == nil {
		err = n.row.storeEvents(tx, n.events, first)
	}
	return err
}

// abandon releases the written events for deletion, even after ctx has ended. If that fails, they
// are deleted once this process has ended.
func (r *replacement) abandon(ctx context.Context) {
	if r.reserved == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for some := range slices.Chunk(r.added[:r.reserved], 500) {
		_ = stores.On(r.store.db, txn.LiveScopes).Remove(ctx, opReplace, func(tx *db.Tx) error {
			for i := range some {
				if _, err := tx.Exec(sqlGiveUp, some[i].row.Key, r.owner); err != nil {
					return err
				}
			}
			return nil
		})
	}
	_ = r.store.dropLeftovers(ctx)
}

// lastOfEach returns the records in order of creation; of several records with one id, only the
// last.
func lastOfEach(records []RunRecord) []*RunRecord {
	last := make(map[string]int, len(records))
	for i := range records {
		last[records[i].Snapshot.ID] = i
	}
	var list []*RunRecord
	for i := range records {
		if last[records[i].Snapshot.ID] == i {
			list = append(list, &records[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *RunRecord) int {
		return cmp.Compare(a.Snapshot.CreatedAtMs, b.Snapshot.CreatedAtMs)
	})
	return list
}
