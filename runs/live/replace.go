package live

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"selvedge/db"
	"selvedge/internal/live"
)

const (
	opReplace    = "replace live records"
	sqlRowsByKey = live.SelectWhole + `WHERE r.scope = ? ORDER BY r.key`
)

// replace puts the runs of a list, in the order of creation, into the place of all that are here.
func (s *Store) replace(ctx context.Context, list []*RunRecord) error {
	r, err := s.compare(ctx, list)
	if err == nil && !r.empty() {
		err = r.do(ctx)
	}
	if errors.Is(err, errMoved) {
		r = &replacement{store: s, come: s.comers(list)}
		err = r.do(ctx)
	}
	return err
}

// A replacement is what is about to be done to the runs of a scope: what stays, what goes besides
// all that is behind that, and what comes.
type replacement struct {
	store *Store
	same  []live.WholeRow
	going []live.WholeRow // between those that stay, and behind them
	come  []comer
	owner int64 // of the numbers that are reserved for what comes; 0: none are
	// so many of those that come have theirs: a transaction that fails gives its numbers back, to
	// whoever comes next
	taken int
}

// A comer is a run that comes, with its events from the first that the caps keep on.
type comer struct {
	row    *live.WholeRow
	events []live.EventRecord
	first  int
}

// errMoved: what was to stay was written to since it was compared.
var errMoved = errors.New("a run changed meanwhile")

func (r *replacement) empty() bool { return len(r.going) == 0 && len(r.come) == 0 }

// compare leaves the runs alone that are here as the first records have them, in their order. A
// restore of what is here is then no change, to followers, too.
func (s *Store) compare(ctx context.Context, list []*RunRecord) (r *replacement, err error) {
	err = s.readScope(ctx, opReplace, func(rx *db.Rx, scope int64) error {
		r = &replacement{store: s}
		var rows []live.WholeRow
		if err := rx.Select(&rows, sqlRowsByKey, scope); err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			if same := len(r.same); same < len(list) && row.RunID == list[same].Snapshot.ID {
				holds, err := s.holds(rx, row, list[same])
				if err != nil {
					return err
				}
				if holds {
					r.same = append(r.same, *row)
					continue
				}
			}
			r.going = append(r.going, *row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r == nil { // nothing was ever written to the scope
		r = &replacement{store: s}
	}
	r.come = s.comers(list[len(r.same):])
	return r, nil
}

// holds reports whether a run that is here is what a record says, and within the caps.
func (s *Store) holds(rx *db.Rx, row *live.WholeRow, r *RunRecord) (bool, error) {
	theirs := r.stored()
	theirs.Snapshot.EventCount = theirs.NextSequence()
	if int64(len(r.Events)) != row.KeptEvents || s.caps.full(row.KeptEvents, row.KeptBytes) {
		return false, nil
	}
	ours, err := row.Record(rx)
	if err != nil && !errors.Is(err, db.ErrCorrupt) {
		return false, err
	}
	return err == nil && bytes.Equal(ours.AppendJSON(nil), theirs.AppendJSON(nil)), nil
}

func (s *Store) comers(list []*RunRecord) []comer {
	come := make([]comer, len(list))
	for i, r := range list {
		stored := r.stored()
		row := live.NewRow(0, &stored)
		come[i] = comer{row, stored.Events, row.Pass(stored.Events, s.caps.full)}
	}
	return come
}

// do makes what comes seen, and what goes unseen, in one transaction. Many events are written
// before it, and removed after it, and many runs have their numbers before it: asking for one takes
// as long as writing the row.
func (r *replacement) do(ctx context.Context) error {
	share, early := live.FullShare(), false
	for i := range r.come {
		early = early || !share.TakeRun(&r.come[i].row.Row)
	}
	var err error
	if early {
		err = r.write(ctx)
	}
	if err == nil {
		err = r.store.db.Write(ctx, opReplace, r.swap)
	}
	if err != nil {
		r.giveUp(ctx)
		return err
	}
	_ = r.store.dropLeft(ctx) // an error would say that nothing was replaced
	return nil
}

// write writes the events of what comes, some at a time, under numbers that are reserved for their runs.
func (r *replacement) write(ctx context.Context) error {
	for run, put := 0, 0; run < len(r.come); {
		var at, n int
		err := r.store.db.Write(ctx, opReplace, func(tx *db.Tx) (err error) {
			at, n, err = r.writeSome(tx, run, put)
			return err
		})
		if err != nil {
			return err
		}
		run, put = at, n
		if r.taken = run; put > 0 {
			r.taken++
		}
	}
	return nil
}

// writeSome goes on behind so many events of a run, with as many as a transaction may write. It
// returns how far it came.
func (r *replacement) writeSome(tx *db.Tx, run, put int) (int, int, error) {
	scope, err := tx.Scope(r.store.scope)
	if err == nil {
		r.owner, err = tx.Owner()
	}
	for share := live.WriteShare(); err == nil && run < len(r.come) && share.Events > 0; {
		c := &r.come[run]
		if put == 0 {
			c.row.Scope = scope
			err = c.row.Reserve(tx, r.owner, &share)
		}
		for ; err == nil && c.first+put < len(c.events); put++ {
			e := &c.events[c.first+put]
			if !share.Take(1, e.Size()) && put > 0 {
				return run, put, nil
			}
			err = c.row.PutEvent(tx, c.events, c.first+put)
		}
		if err != nil {
			return run, put, fmt.Errorf("live run %q: %w", c.row.RunID, err)
		}
		run, put = run+1, 0
	}
	return run, put, err
}

// swap is the moment at which the old runs are gone and the new ones are there.
func (r *replacement) swap(tx *db.Tx) error {
	scope, err := tx.Scope(r.store.scope)
	if err != nil {
		return err
	}
	share, stays := live.FullShare(), int64(0)
	for i := range r.same {
		if err := unmoved(tx, &r.same[i]); err != nil {
			return err
		}
		stays = r.same[i].Key
	}
	for i := range r.going {
		if r.going[i].Key > stays {
			break // those behind it go together
		}
		row, found, err := live.RowByKey(&tx.Rx, r.going[i].Key)
		if err == nil && found {
			err = row.Leave(tx, &share)
		}
		if err != nil {
			return err
		}
	}
	if err := live.LeaveBehind(tx, scope, stays, &share); err != nil || len(r.come) == 0 {
		return err
	}
	for i := range r.come {
		if err := r.add(tx, scope, &r.come[i]); err != nil {
			return fmt.Errorf("live run %q: %w", r.come[i].row.RunID, err)
		}
	}
	return live.CountIn(tx, scope, len(r.come), r.come[0].row.Key)
}

// unmoved reports, as errMoved, that a run is not what it was when it was compared.
func unmoved(tx *db.Tx, was *live.WholeRow) error {
	row, found, err := live.RowByKey(&tx.Rx, was.Key)
	if err != nil {
		return err
	}
	if !found {
		return errMoved
	}
	now, err := row.Whole(&tx.Rx)
	if err == nil && !now.Same(was) {
		err = errMoved
	}
	return err
}

func (r *replacement) add(tx *db.Tx, scope int64, c *comer) error {
	if r.owner != 0 {
		mine, err := c.row.AddReserved(tx, r.owner)
		if err == nil && !mine {
			err = fmt.Errorf("%w: its events were taken for left ones", db.ErrConflict)
		}
		return err
	}
	c.row.Scope = scope
	if err := c.row.Add(tx); err != nil {
		return err
	}
	for i := c.first; i < len(c.events); i++ {
		if err := c.row.PutEvent(tx, c.events, i); err != nil {
			return err
		}
	}
	return nil
}

// giveUp lets go of what was written, also where ctx has ended. Where that fails, it goes once this
// process has ended.
func (r *replacement) giveUp(ctx context.Context) {
	if r.taken == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for some := range slices.Chunk(r.come[:r.taken], 500) {
		_ = r.store.db.Reclaim(ctx, opReplace, func(tx *db.Tx) error {
			for i := range some {
				if err := some[i].row.GiveUp(tx, r.owner); err != nil {
					return err
				}
			}
			return nil
		})
	}
	_ = r.store.dropLeft(ctx)
}

// lastOfEach gives the records in the order of creation, the last one of each id.
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
		return cmp.Compare(a.Snapshot.CreatedAtMs,
			b.Snapshot.CreatedAtMs)
	})
	return list
}
