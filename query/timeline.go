package query

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"selvedge"
	"selvedge/db"
	"selvedge/runs"
)

// An Item is a record of a run's trace, with the steps that led to it.
type Item struct {
	Sequence int64       // place in the trace, from 1; 0: steps that no turn follows yet, or a new status
	Record   runs.Record // nil if Sequence is 0
	At       time.Time   // when it was recorded; zero: imported
	Usage    db.Usage    // that the record reports
	// Steps are those that began before this turn and after the one before, in the order of their
	// beginning: replies, effects and questions.
	Steps  []selvedge.Step
	Status string // the run's new status, if the item says only that
	Cursor string // the place behind this item, for Follow
}

// Timeline returns a page of a run's trace, in its order. The limit counts records. The cursors are
// those of Follow, which goes on behind the last item. db.ErrNotFound: there is no such run.
// db.ErrCursorExpired: the run of the cursor was removed.
func (s *Store) Timeline(ctx context.Context, ref runs.RunRef, at db.At) (page db.Page[Item], err error) {
	err = s.db.Read(ctx, "read timeline", func(rx *db.Rx) error {
		page = db.Page[Item]{}
		trace, err := s.runs.TracePageTx(rx, ref, at)
		if err != nil {
			return err
		}
		for _, r := range trace.Items {
			page.Items = append(page.Items, itemOf(r))
		}
		page.Next = trace.Next
		if err := s.complete(rx, ref, page.Items); err != nil || page.Next != "" {
			return err
		}
		return s.addOpen(rx, ref, &page)
	})
	return page, err
}

func itemOf(r runs.Followed) Item {
	return Item{
		Sequence: r.Item.Sequence, Record: r.Item.Record, Usage: r.Item.Usage(), Status: r.Status, Cursor: r.Cursor,
	}
}

const sqlTimes = `SELECT t.id & 16777215 AS sequence, t.recorded_at FROM run_records AS t
WHERE t.id >= ? AND t.id <= ? AND t.recorded_at IS NOT NULL`

// complete adds the times and the steps of the items.
func (s *Store) complete(rx *db.Rx, ref runs.RunRef, items []Item) error {
	if len(items) == 0 {
		return nil
	}
	scope, _, err := s.scopeIn(rx)
	if err != nil {
		return err
	}
	var key int64
	if _, err := rx.Find(&key, sqlRunKey, scope, ref.RunID, ref.AgentID); err != nil {
		return err
	}
	var times []struct {
		Sequence   int64 `db:"sequence"`
		RecordedAt int64 `db:"recorded_at"`
	}
	first, last := items[0].Sequence, items[len(items)-1].Sequence
	if err := rx.Select(&times, sqlTimes, key<<24+first, key<<24+last); err != nil {
		return err
	}
	at := map[int64]time.Time{}
	for _, t := range times {
		at[t.Sequence] = time.Unix(0, t.RecordedAt).UTC()
	}
	from, to := -1, 0 // the turns of the items
	for i := range items {
		items[i].At = at[items[i].Sequence]
		if turn, ok := items[i].Record.(runs.Turn); ok {
			if from < 0 || int(turn.Index) < from {
				from = int(turn.Index)
			}
			to = max(to, int(turn.Index)+1)
		}
	}
	if from < 0 {
		return nil
	}
	steps, err := s.front.StepsTx(rx, ref, from, to)
	if err != nil {
		return err
	}
	for i := range items {
		if turn, ok := items[i].Record.(runs.Turn); ok {
			items[i].Steps = began(steps, int(turn.Index))
		}
	}
	return nil
}

// began returns the steps that began when the run had so many turns.
func began(steps []selvedge.Step, turns int) (list []selvedge.Step) {
	for _, step := range steps {
		if step.Turn == turns {
			list = append(list, step)
		}
	}
	return list
}

// addOpen adds the steps that no turn follows, before the record that ends the trace.
func (s *Store) addOpen(rx *db.Rx, ref runs.RunRef, page *db.Page[Item]) error {
	summary, err := s.runs.GetTx(rx, ref)
	if err != nil {
		return err
	}
	steps, err := s.front.StepsTx(rx, ref, summary.TurnCount, math.MaxInt32)
	if err != nil || len(steps) == 0 {
		return err
	}
	place := len(page.Items)
	if place > 0 {
		if _, ended := page.Items[place-1].Record.(runs.Ended); ended {
			place--
		}
	}
	item := Item{At: steps[len(steps)-1].ChangedAt, Steps: steps}
	page.Items = slices.Insert(page.Items, place, item)
	return nil
}

// Follow delivers what comes after a cursor, as runs.Store.Follow does: records, and each new status.
// It ends with an error as that does.
func (s *Store) Follow(ctx context.Context, ref runs.RunRef, cursor string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for r, err := range s.runs.Follow(ctx, ref, cursor) {
			item := []Item{itemOf(r)}
			if err == nil && r.What == db.Written {
				err = s.db.Read(ctx, "read timeline", func(rx *db.Rx) error { return s.complete(rx, ref, item) })
			}
			if !yield(item[0], err) || err != nil {
				return
			}
		}
	}
}

// Before returns the cursor before the last lines of a run, at most that many; "" if that is the beginning.
func (s *Store) Before(ctx context.Context, ref runs.RunRef, lines int64) (string, error) {
	summary, err := s.runs.Get(ctx, ref)
	if err != nil || int64(summary.TurnCount) <= lines {
		return "", err
	}
	return s.runs.CursorBefore(ctx, ref, lines)
}
