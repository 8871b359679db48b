package live

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"selvedge/db"
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

// List gives all runs of the scope in the order of their creation, from one snapshot. Runs of the same millisecond are in
// the order in which they were added.
func (s *Store) List(ctx context.Context) ([]RunSnapshot, error) {
	items, _, err := s.list(ctx, Filter{}, listPlace{-1, -1}, -1)
	return items, err
}

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
	items, places, err := s.list(ctx, filter, after, limit+1)
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

// list gives at most limit runs behind a place; a negative limit is none.
func (s *Store) list(ctx context.Context, filter Filter, after listPlace, limit int) (items []RunSnapshot, places []listPlace, err error) {
	where, args, err := filter.where()
	if err != nil {
		return nil, nil, &db.Error{Op: opList, Err: err}
	}
	if since := db.Nanos(filter.Since); !filter.Since.IsZero() && after.createdAt < since {
		after = listPlace{since, -1}
	}
	query := strings.Replace(sqlRuns, " ORDER BY", where+" ORDER BY", 1)
	err = s.readScope(ctx, opList, func(rx *db.Rx, scope int64) error {
		items, places = nil, nil
		var rows []runRow
		all := append(append([]any{scope, after.createdAt, after.key}, args...), limit)
		if err := rx.Select(&rows, query, all...); err != nil {
			return err
		}
		for i := range rows {
			items = append(items, rows[i].snapshot())
			places = append(places, listPlace{rows[i].CreatedAt, rows[i].Key})
		}
		return nil
	})
	return items, places, err
}

func (f Filter) where() (sql string, args []any, err error) {
	var b strings.Builder
	if f.Session != nil {
		b.WriteString(" AND r.session_id = ?")
		args = append(args, *f.Session)
	}
	if !f.Until.IsZero() {
		b.WriteString(" AND r.created_at < ?")
		args = append(args, db.Nanos(f.Until))
	}
	// Sorted, so that one choice of statuses is one prepared statement.
	chosen := slices.Compact(slices.Sorted(slices.Values(f.Statuses)))
	for i, status := range chosen {
		if !status.Known() {
			return "", nil, fmt.Errorf("%w: the status %q is unknown", db.ErrInvalid, status)
		}
		b.WriteString(map[bool]string{true: " AND r.status IN (?", false: ", ?"}[i == 0])
		args = append(args, string(status))
	}
	if len(chosen) > 0 {
		b.WriteByte(')')
	}
	return b.String(), args, nil
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

const sqlFindRuns = sqlSelectRun + `WHERE r.scope = ? AND r.run_id >= ? AND r.run_id < ? ORDER BY r.run_id LIMIT ?`

// Find gives the runs whose ids begin with a text, by id, at most limit of them.
func (s *Store) Find(ctx context.Context, beginning string, limit int) (runs []RunSnapshot, err error) {
	err = s.read(ctx, "find live runs", beginning, func(rx *db.Rx, scope int64) error {
		runs = nil
		var rows []runRow
		if err := rx.Select(&rows, sqlFindRuns, scope, beginning, beginning+"\U0010FFFF", limit); err != nil {
			return err
		}
		for i := range rows {
			runs = append(runs, rows[i].snapshot())
		}
		return nil
	})
	return runs, err
}
