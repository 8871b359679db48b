package live

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Filter selects runs. The zero value selects all of them.
type Filter struct {
	// Session is the runs' session; nil is any. ("" is a session like any other.)
	Session *string
	// Statuses are the runs' statuses; none means any.
	Statuses []RunStatus
	// Since and Until bound the creation: at or after Since, before Until. Zero is no bound.
	Since, Until time.Time
	// Newest has a page begin with the newest run. It changes nothing for a follower.
	Newest bool
}

const (
	opList = "list live runs"
	opGet  = "get live run"
	opFind = "find live runs"

	listName = "live runs" // in cursors
)

// Get returns the snapshot of a run. db.ErrNotFound: there is no such run.
func (s *Store) Get(ctx context.Context, runID string) (run RunSnapshot, err error) {
	return stores.Get(ctx, s.db.Read, opGet, stores.Bind(s.GetTx, runID))
}

// GetTx is Get inside a transaction.
func (s *Store) GetTx(rx *db.Rx, runID string) (run RunSnapshot, err error) {
	found := false
	err = s.lookup(rx, opGet, runID, func(scope int64) error {
		found, run, err = s.snapshot(rx, scope, runID)
		if err == nil && found && !run.Status.Ended() {
			var waiting bool
			if waiting, err = rx.Find(new(int64), sqlWaits, scope, runID); waiting {
				run.Status = Waiting
			}
		}
		return err
	})
	if err == nil && !found {
		err = notFound(opGet, runID)
	}
	return run, err
}

// Page returns a page of the runs that pass the filter, oldest first unless it says Newest; runs of the
// same millisecond are in the order in which they were added. Its cost depends on the page:
// indexes serve the filter's session or statuses, and its times.
func (s *Store) Page(ctx context.Context, filter Filter, at db.At) (page db.Page[RunSnapshot], err error) {
	return stores.Get(ctx, s.db.Read, opList,
		func(rx *db.Rx) (db.Page[RunSnapshot], error) { return s.PageTx(rx, filter, at) })
}

// PageTx is Page inside a transaction.
func (s *Store) PageTx(rx *db.Rx, filter Filter, at db.At) (page db.Page[RunSnapshot], err error) {
	page, err = s.page(rx, filter, at)
	if err != nil {
		return page, &db.Error{Op: opList, Hint: db.Hint(err), Err: err}
	}
	return page, nil
}

func (s *Store) page(rx *db.Rx, filter Filter, at db.At) (page db.Page[RunSnapshot], err error) {
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	scope, _, err := s.scopeIn(rx)
	if err != nil {
		return page, err
	}
	first := filter.beginning()
	place := []int64{scope, first.createdAt, first.key}
	if err := rx.Store().ReadListCursor(listName, at.After, place); err != nil {
		return page, err
	}
	rows, err := list(rx, scope, filter, listPlace{place[1], place[2]}, &room)
	if err != nil {
		return page, err
	}
	for i := range rows {
		if !room.Take(rows[i].weight()) {
			last := &rows[i-1]
			page.Next = rx.Store().Cursor(listName, []int64{scope, last.CreatedAt, last.Key})
			break
		}
		page.Items = append(page.Items, rows[i].snapshot())
	}
	return page, nil
}

// All returns the runs that pass the filter, in the order of Page: see [paging.All]. A run keeps
// its place in that order.
func (s *Store) All(ctx context.Context, filter Filter) iter.Seq2[RunSnapshot, error] {
	return paging.All(func(at db.At) (db.Page[RunSnapshot], error) { return s.Page(ctx, filter, at) })
}

// Find returns the ids that begin with prefix, in order; at most limit of them, with the rules of a
// page.
func (s *Store) Find(ctx context.Context, prefix string, limit int) (found []string, err error) {
	return stores.Get(ctx, s.db.Read, opFind, stores.Bind2(s.FindTx, prefix, limit))
}

const sqlFindIDs = `SELECT run_id FROM live_runs WHERE scope = ? AND run_id >= ? AND run_id < ?
	ORDER BY run_id LIMIT ` + paging.BoundLimit

// FindTx is Find inside a transaction.
func (s *Store) FindTx(rx *db.Rx, prefix string, limit int) (found []string, err error) {
	found, err = stores.FindPrefix[string](rx, s.db, s.scope, "run", prefix, limit, sqlFindIDs)
	return found, named(opFind, "", err)
}

// A listPlace is where a list continues.
type listPlace struct{ createdAt, key int64 }

var beginning = listPlace{-1, -1}

// beginning is the place before the first run of a list.
func (f Filter) beginning() listPlace {
	if f.Newest {
		return listPlace{math.MaxInt64, math.MaxInt64}
	}
	return beginning
}

// compare compares two runs in the order of a list.
func (f Filter) compare(a, b *wholeRow) int {
	order := cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Key, b.Key))
	if f.Newest {
		return -order
	}
	return order
}

// list returns the runs after a place: all of them, as the old calls show them, or with a room those
// that fit and one more, if there is one. A scope that was never written has the number 0, and no runs.
func list(rx *db.Rx, scope int64, filter Filter, after listPlace, room *paging.Room) (rows []wholeRow,
	err error,
) {
	wanted, err := filter.statements()
	if err != nil {
		return nil, err
	}
	order, since := inOrder, db.Nanos(filter.Since)
	switch {
	case filter.Newest:
		order = newestFirst
		for i := range wanted {
			if filter.Since.IsZero() {
				break
			}
			wanted[i].text += ` AND r.created_at >= ?`
			wanted[i].args = append(slices.Clip(wanted[i].args), since)
		}
	case !filter.Since.IsZero() && after.createdAt < since:
		after = listPlace{since, -1}
	}
	limit, selected := paging.NoLimit, selectWhole
	if room != nil {
		limit, selected = room.Items+1, selectShown
	}
	whole := func(row *wholeRow) (*wholeRow, error) { return row, nil }
	for _, w := range wanted {
		var left paging.Room // for this status alone: no page has more of it
		if room != nil {
			left = *room
		}
		args := append(append([]any{scope}, w.args...), after.createdAt, after.key, limit)
		for row, err := range txn.Each(rx.Store(), whole, selected+`WHERE r.scope = ?`+w.text+order, args...) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, *row)
			if room != nil && !left.Take(row.weight()) {
				break
			}
		}
	}
	if len(wanted) > 1 {
		slices.SortFunc(rows, func(a, b wholeRow) int { return filter.compare(&a, &b) })
		rows = rows[:min(len(rows), limit)]
	}
	return rows, nil
}

const (
	inOrder     = ` AND (r.created_at, r.key) > (?, ?) ORDER BY r.created_at, r.key LIMIT ` + paging.BoundLimit
	newestFirst = ` AND (r.created_at, r.key) < (?, ?) ORDER BY r.created_at DESC, r.key DESC LIMIT ` +
		paging.BoundLimit
)

// conditions is a part of a statement, with its arguments.
type conditions struct {
	text string
	args []any
}

// statements returns the conditions of a filter, one for each status, so that an index returns the
// rows of each in the list's order.
func (f Filter) statements() ([]conditions, error) {
	where := f.bounds()
	if len(f.Statuses) == 0 {
		return []conditions{where}, nil
	}
	var list []conditions
	add := func(status RunStatus, and string) {
		is := " AND r.status = ?"
		if f.Session != nil {
			is = " AND r.status || '' = ?" // not by its index: one status may have most runs
		}
		list = append(list, conditions{where.text + is + and, append(slices.Clip(where.args), string(status))})
	}
	for _, status := range slices.Compact(slices.Sorted(slices.Values(f.Statuses))) {
		switch {
		case status == Waiting:
			for _, open := range []RunStatus{Created, Planning, Executing, Verifying} {
				add(open, " AND "+waits)
			}
		case !status.known():
			return nil, unknownStatus(status)
		case status.Ended():
			add(status, "")
		default:
			add(status, " AND NOT ("+waits+")")
		}
	}
	return list, nil
}

func unknownStatus(status RunStatus) error {
	return txn.Invalid(
		"use one of created, planning, executing, verifying, waiting, completed, failed, cancelled",
		"the status %q is unknown", status)
}

func (f Filter) bounds() (where conditions) {
	if f.Session != nil {
		where.text, where.args = " AND r.session_id = ?", []any{*f.Session}
	}
	if !f.Until.IsZero() {
		where.text += " AND r.created_at < ?"
		where.args = append(where.args, db.Nanos(f.Until))
	}
	return where
}

// passes returns the conditions of a filter as one, for a statement that reads all rows.
func (f Filter) passes() (where conditions, err error) {
	where = f.bounds()
	if !f.Since.IsZero() {
		where.text += " AND r.created_at >= ?"
		where.args = append(where.args, db.Nanos(f.Since))
	}
	for _, status := range f.Statuses {
		if status != Waiting && !status.known() {
			return where, unknownStatus(status)
		}
		where.args = append(where.args, string(status))
	}
	if n := len(f.Statuses); n > 0 {
		where.text += " AND " + shownStatus + " IN (?" + strings.Repeat(", ?", n-1) + ")"
	}
	return where, nil
}
