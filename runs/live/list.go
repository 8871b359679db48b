package live

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"selvedge/db"
	"selvedge/internal/live"
)

// A Filter says which runs a page shows. The zero value is all of them.
type Filter struct {
	// Session is the session that the runs belong to; nil is any. ("" is a session like any other.)
	Session *string
	// Statuses are those to show; none means any.
	Statuses []RunStatus
	// Since and Until bound the creation: not before Since, before Until. Zero is no bound.
	Since, Until time.Time
}

// A Page says which part of a list is wanted.
type Page struct {
	// After is the Next of the page before; "" is the beginning.
	After string
	// Limit is the most items; 0 means 50.
	Limit int
}

const defaultLimit = 50

// A ListPage is a part of a list, oldest first.
type ListPage struct {
	Items []RunSnapshot
	Next  string // for the next page; "" when this is the last
}

const opList = "list live runs"

// ListPage gives a page of the runs that pass the filter. Its cost depends on the runs that it looks at, not on how many
// there are: a page begins where the one before ended, and at Since.
func (s *Store) ListPage(ctx context.Context, filter Filter, page Page) (ListPage, error) {
	if page.Limit < 0 {
		return ListPage{}, &db.Error{Op: opList, Err: errLimit(page.Limit)}
	}
	limit := page.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	after, err := parseListPlace(page.After)
	if err != nil {
		return ListPage{}, &db.Error{Op: opList, Err: err}
	}
	items, places, err := s.list(ctx, filter, after, int64(limit)+1)
	if err != nil {
		return ListPage{}, err
	}
	if len(items) <= limit {
		return ListPage{Items: items}, nil
	}
	return ListPage{Items: items[:limit], Next: places[limit-1].cursor()}, nil
}

// Runs gives the runs that pass the filter one by one, read in pages: no transaction is open while the caller's loop runs,
// and runs that come or go meanwhile may or may not be seen, none twice. After an error there is nothing more.
func (s *Store) Runs(ctx context.Context, filter Filter) iter.Seq2[RunSnapshot, error] {
	return func(yield func(RunSnapshot, error) bool) {
		const pageSize = 200
		after := listPlace{-1, -1}
		for {
			items, places, err := s.list(ctx, filter, after, pageSize)
			if err != nil {
				yield(RunSnapshot{}, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if len(items) < pageSize {
				return
			}
			after = places[len(places)-1]
		}
	}
}

// list gives at most limit runs behind a place.
func (s *Store) list(ctx context.Context, filter Filter, after listPlace, limit int64) (items []RunSnapshot, places []listPlace, err error) {
	wanted, err := filter.statements()
	if err != nil {
		return nil, nil, &db.Error{Op: opList, Err: err}
	}
	if since := db.Nanos(filter.Since); !filter.Since.IsZero() && after.createdAt < since {
		after = listPlace{since, -1}
	}
	err = s.readScope(ctx, opList, func(rx *db.Rx, scope int64) error {
		var rows []live.WholeRow
		for _, w := range wanted {
			var part []live.WholeRow
			all := append(append([]any{scope}, w.args...), after.createdAt, after.key, limit)
			if err := rx.Select(&part, w.text, all...); err != nil {
				return err
			}
			rows = append(rows, part...)
		}
		if len(wanted) > 1 {
			slices.SortFunc(rows, func(a, b live.WholeRow) int {
				return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Key, b.Key))
			})
			rows = rows[:min(int64(len(rows)), limit)]
		}
		items, places = make([]RunSnapshot, len(rows)), make([]listPlace, len(rows))
		for i := range rows {
			items[i], places[i] = snapshotOf(rows[i].Snapshot()), listPlace{rows[i].CreatedAt, rows[i].Key}
		}
		return nil
	})
	return items, places, err
}

// A statement is a text with its arguments behind the scope and before the place.
type statement struct {
	text string
	args []any
}

// statements gives what answers a filter: one for each status, so that each finds its rows by an index, in the list's order.
func (f Filter) statements() ([]statement, error) {
	var where statement
	if f.Session != nil {
		where.text, where.args = " AND r.session_id = ?", []any{*f.Session}
	}
	if !f.Until.IsZero() {
		where.text += " AND r.created_at < ?"
		where.args = append(where.args, db.Nanos(f.Until))
	}
	finish := func(w statement) statement {
		w.text = live.SelectWhole + "WHERE r.scope = ?" + w.text + " AND (r.created_at, r.key) > (?, ?) ORDER BY r.created_at, r.key LIMIT ?"
		return w
	}
	if len(f.Statuses) == 0 {
		return []statement{finish(where)}, nil
	}
	var list []statement
	for _, status := range slices.Compact(slices.Sorted(slices.Values(f.Statuses))) {
		if !status.Known() {
			return nil, fmt.Errorf("%w: the status %q is unknown", db.ErrInvalid, status)
		}
		is := " AND r.status = ?"
		if f.Session != nil {
			is = " AND r.status || '' = ?" // by the index of sessions: a status may have most runs of a scope
		}
		list = append(list, finish(statement{where.text + is, append(slices.Clip(where.args), string(status))}))
	}
	return list, nil
}

// A listPlace is where a list goes on.
type listPlace struct{ createdAt, key int64 }

func (p listPlace) cursor() string {
	raw := binary.AppendUvarint(binary.AppendVarint([]byte{'l'}, p.createdAt), uint64(p.key))
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseListPlace(text string) (listPlace, error) {
	if text == "" {
		return listPlace{-1, -1}, nil
	}
	bad := fmt.Errorf("%w: %q is no cursor of a list of live runs", db.ErrInvalid, text)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < 3 || raw[0] != 'l' {
		return listPlace{}, bad
	}
	createdAt, n := binary.Varint(raw[1:])
	if n <= 0 {
		return listPlace{}, bad
	}
	key, m := binary.Uvarint(raw[1+n:])
	if m <= 0 || 1+n+m != len(raw) || key > 1<<31 {
		return listPlace{}, bad
	}
	return listPlace{createdAt, int64(key)}, nil
}

const sqlFindRuns = live.SelectWhole + `WHERE r.scope = ? AND r.run_id >= ? AND r.run_id < ? ORDER BY r.run_id LIMIT ?`

// Find gives the runs whose ids begin with a text, by id, at most limit of them.
func (s *Store) Find(ctx context.Context, beginning string, limit int) (runs []RunSnapshot, err error) {
	err = s.read(ctx, "find live runs", beginning, func(rx *db.Rx, scope int64) error {
		runs = nil
		var rows []live.WholeRow
		if err := rx.Select(&rows, sqlFindRuns, scope, beginning, beginning+"\U0010FFFF", limit); err != nil {
			return err
		}
		for i := range rows {
			runs = append(runs, snapshotOf(rows[i].Snapshot()))
		}
		return nil
	})
	return runs, err
}
