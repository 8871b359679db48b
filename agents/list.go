package agents

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"selvedge/db"
	registry "selvedge/internal/agents"
)

// A Filter says which entries a page has. The zero value takes all; set fields must all agree.
type Filter struct {
	Status []Status  // one of these
	Thread *string   // on this thread
	Since  time.Time // started at this time or later
}

// A Page is a part of a list, the newest start first.
type Page struct {
	Entries []Entry
	// Next is the cursor of the page behind this one; "" when there is none.
	Next string
}

// maxPage is the most entries of one page.
const maxPage = 1000

// Page gives at most limit entries (0: 50, at most 1000) behind the cursor of an earlier page, "" being the beginning. It
// only looks: stale entries are left out and nothing is put aside. Entries that are added while a caller goes from page
// to page appear or not, by their start; none comes twice.
func (r *Registry) Page(ctx context.Context, f Filter, after string, limit int) (page Page, err error) {
	const why = "list agents"
	if limit == 0 {
		limit = 50
	}
	if limit < 0 || limit > maxPage {
		return Page{}, named(why, "", registry.Invalid("a page has 1 to %d entries, not %d", maxPage, limit))
	}
	position, err := parseCursor(after)
	if err != nil {
		return Page{}, named(why, "", err)
	}
	err = r.read(ctx, why, "", func(rx *db.Rx, scope int64) error {
		page, err = r.page(rx, scope, f, position, limit)
		return err
	})
	return page, err
}

// All goes through the entries of a filter, the newest start first, as Page does, a page at a time: no transaction is
// open while the caller has an entry.
func (r *Registry) All(ctx context.Context, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for after := ""; ; {
			page, err := r.Page(ctx, f, after, 200)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

const (
	sqlPage = registry.SQLRow + `WHERE a.scope = ? AND a.put_aside_at IS NULL AND ` + sqlFresh + `
	AND a.started_at <= ? AND (a.started_at < ? OR a.session_id > ?) AND a.started_at >= ?`
	sqlPageThread = ` AND a.thread = ?`
	sqlPageStatus = ` AND a.status IN (?, ?, ?, ?)`
	sqlPageEnd    = ` ORDER BY a.started_at DESC, a.session_id LIMIT ?`
)

func (r *Registry) page(rx *db.Rx, scope int64, f Filter, after cursor, limit int) (Page, error) {
	query, args := sqlPage, []any{scope, staleBefore(rx.Now()), after.startedAt, after.startedAt, after.id, f.since()}
	if f.Thread != nil {
		query, args = query+sqlPageThread, append(args, *f.Thread)
	}
	if len(f.Status) > 0 {
		query += sqlPageStatus
		for i := range 4 { // one statement for any number of them, of which there are four
			args = append(args, string(f.Status[min(i, len(f.Status)-1)]))
		}
	}
	all, err := registry.FindAll(rx, query+sqlPageEnd, append(args, limit+1)...)
	if err != nil {
		return Page{}, err
	}
	var page Page
	if len(all) > limit {
		last := all[limit-1]
		all, page.Next = all[:limit], cursor{last.Row.StartedAt, last.Row.SessionID}.String()
	}
	for _, s := range all {
		page.Entries = append(page.Entries, entryOf(&s.Record))
	}
	return page, nil
}

func (f Filter) since() int64 {
	if f.Since.IsZero() {
		return db.Nanos(time.Time{})
	}
	return db.Nanos(f.Since)
}

// A cursor is the place of an entry in the list: what comes behind it started earlier, or at the same time with a greater
// id.
type cursor struct {
	startedAt int64
	id        string
}

// start is the place before all entries.
var start = cursor{startedAt: 1<<63 - 1}

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, uint64(c.startedAt)), c.id...))
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return start, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) < 9 {
		return cursor{}, fmt.Errorf("%w: %q is no cursor of a list of agents", db.ErrInvalid, text)
	}
	return cursor{int64(binary.BigEndian.Uint64(data)), string(data[8:])}, nil
}

// A Reservation says who has a thread.
type Reservation struct {
	Thread string
	Holder Entry
	Since  time.Time // when it was reserved
	Epoch  int64     // greater than that of every earlier reservation
	Leased bool      // it ends with its lease; see Lease
	Live   Liveness  // Dead: the next who tries gets the thread
}

// Reservation tells who has reserved the thread; ok is false when nobody has. An agent that is active on a thread without
// having reserved it (see Save) is not named here, but holds it against TryReserveThread all the same.
func (r *Registry) Reservation(ctx context.Context, thread string) (held Reservation, ok bool, err error) {
	err = r.read(ctx, "look up reservation", "", func(rx *db.Rx, scope int64) error {
		s, err := registry.Find(rx, sqlHolder, scope, thread)
		if err != nil || s == nil {
			return err
		}
		held, ok = Reservation{
			Thread: thread, Holder: entryOf(&s.Record), Since: db.Time(*s.ReservedSince), Epoch: *s.Epoch, Leased: s.LeaseUntil != nil,
		}, true
		held.Live, err = r.liveness(rx, &s.Row)
		return err
	})
	return held, ok, err
}
