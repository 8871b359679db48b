package agents

import (
	"context"
	"iter"
	"slices"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Filter selects the entries of a list. The zero value selects all; the set fields must all
// match.
type Filter struct {
	// Statuses are those to show; none means any.
	Statuses []Status
	// Thread is the thread that the agents are on; nil is any.
	Thread *string
	// HeddleSessionID, ClientInstanceID and NativeActorKey are those of the entry; nil is any.
	HeddleSessionID, ClientInstanceID, NativeActorKey *string
	// Since and Until bound the start: not before Since, before Until. Zero is no bound. Starts
	// outside 1677 to 2262 count as the nearest of these years.
	Since, Until time.Time
}

const (
	opList = "list agents"
	opGet  = "get agent"
	opFind = "find agents"
	// listName is that of the list in its cursors.
	listName = "agents"
)

// Page returns a page of the entries that pass the filter, the newest start first; entries that
// started at the same nanosecond are in the order of their ids. Stale entries are left out, and
// nothing is put aside.
func (r *Registry) Page(ctx context.Context, f Filter, at db.At) (db.Page[Entry], error) {
	return stores.Get(ctx, r.db.Read, opList, stores.Bind2(r.PageTx, f, at))
}

// PageTx is Page inside a transaction.
func (r *Registry) PageTx(rx *db.Rx, f Filter, at db.At) (page db.Page[Entry], err error) {
	if page, err = r.page(rx, f, at); err != nil {
		return db.Page[Entry]{}, named(opList, "", err)
	}
	return page, nil
}

// All iterates over the entries that pass the filter, in the order of Page: see [paging.All].
func (r *Registry) All(ctx context.Context, f Filter) iter.Seq2[Entry, error] {
	return paging.All(func(at db.At) (db.Page[Entry], error) { return r.Page(ctx, f, at) })
}

// Get returns the entry with the id, and puts nothing aside. A missing or stale entry is
// ErrNotFound.
func (r *Registry) Get(ctx context.Context, id string) (Entry, error) {
	return stores.Get(ctx, r.db.Read, opGet, stores.Bind(r.GetTx, id))
}

// GetTx is Get inside a transaction.
func (r *Registry) GetTx(rx *db.Rx, id string) (e Entry, err error) {
	if err := checkID(id); err != nil {
		return Entry{}, named(opGet, id, err)
	}
	err = r.findTx(rx, opGet, id, func(scope int64) (found bool, err error) {
		e, found, err = findOne(rx, sqlIsFresh, scope, id, staleBefore(rx.Now()))
		return found, err
	})
	return e, err
}

// Find returns the ids that begin with prefix, in byte order, without stale entries; at most limit
// of them, with the rules of a page.
func (r *Registry) Find(ctx context.Context, prefix string, limit int) ([]string, error) {
	return stores.Get(ctx, r.db.Read, opFind, stores.Bind2(r.FindTx, prefix, limit))
}

// FindTx is Find inside a transaction.
func (r *Registry) FindTx(rx *db.Rx, prefix string, limit int) (ids []string, err error) {
	ids, err = stores.FindPrefix[string](rx, r.db, r.scope, "agent", prefix, limit, sqlFindIDs,
		staleBefore(rx.Now()))
	return ids, named(opFind, "", err)
}

const (
	sqlFindIDs = `SELECT a.session_id FROM agents a
	WHERE a.scope = ? AND a.put_aside_at IS NULL AND ` + sqlFresh + `
	AND a.session_id >= ? AND a.session_id < ? ORDER BY a.session_id LIMIT ?`

	sqlPageSince  = ` AND a.started_at >= ?`
	sqlPageUntil  = ` AND a.started_at < ?`
	sqlPageStatus = ` AND a.status IN (?, ?, ?, ?)`
	sqlPageActive = ` AND a.status = 'active'` // written out for the indexes of active entries
	sqlPageOrder  = ` ORDER BY a.started_at DESC, a.session_id LIMIT ?`
)

var sqlPage = sqlRow + `WHERE a.scope = ? AND a.put_aside_at IS NULL AND ` + sqlFresh + `
	AND a.started_at <= ? AND (a.started_at < ? OR a.session_id > ?)`

func (r *Registry) page(rx *db.Rx, f Filter, at db.At) (page db.Page[Entry], err error) {
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	where, passing, err := f.where()
	if err != nil {
		return page, err
	}
	scope, ok, err := stores.Scope(rx, r.db, r.scope)
	if err != nil || !ok && at.After == "" {
		return page, err
	}
	after, id := []int64{scope, first.startedAt}, ""
	if err := rx.Store().ReadListCursor(listName, at.After, after, &id); err != nil {
		return page, err
	}
	args := append([]any{scope, staleBefore(rx.Now()), after[1], after[1], id}, passing...)
	items := txn.Each(rx.Store(), func(s *stored) (Entry, error) { err := s.complete(rx); return s.Entry, err },
		sqlPage+where+sqlPageOrder, append(args, room.Items+1)...)
	return stores.FillPage(room, items, (*Entry).size, func(e *Entry) string {
		return rx.Store().Cursor(listName, []int64{scope, db.Nanos(e.StartedAt)}, e.SessionID)
	})
}

// size is how many bytes an entry takes, about.
func (e *Entry) size() int {
	size := 500 + len(e.kept.document) + len(e.SessionID) + len(e.Thread) + len(e.BaseState)
	for _, text := range []*string{
		e.ClientInstanceID, e.NativeActorKey, e.NativeParentActorKey, e.NativeInstanceKey, e.HeddleSessionID,
		e.ThreadID, e.BootID, e.LivenessPath, e.AnchorState, e.AnchorRoot, e.ReservationToken, e.Path, e.Provider,
		e.Model, e.Harness, e.ThinkingLevel, e.ReportFlushState, e.AttachReason, e.WinningAttachRule, e.ProbeSource,
	} {
		if text != nil {
			size += len(*text)
		}
	}
	for _, q := range e.ContextQueries {
		size += 60 + len(q.Path)
	}
	return size
}

// where returns the conditions of the filter, each with AND before it.
func (f Filter) where() (text string, args []any, err error) {
	text = sqlPageSince
	since := db.Nanos(time.Time{})
	if !f.Since.IsZero() {
		since = db.Nanos(f.Since)
	}
	args = append(args, since)
	if !f.Until.IsZero() {
		text, args = text+sqlPageUntil, append(args, db.Nanos(f.Until))
	}
	for _, is := range []struct {
		column string
		value  *string
	}{
		{"a.thread", f.Thread},
		{"a.heddle_session_id", f.HeddleSessionID},
		{"a.client_instance_id", f.ClientInstanceID},
		{"a.native_actor_key", f.NativeActorKey},
	} {
		if v := is.value; v != nil { // a bare ? of Same appears three times
			text, args = text+` AND `+paging.Same(is.column, "?"), append(args, *v, *v, *v)
		}
	}
	if slices.Equal(f.Statuses, []Status{Active}) {
		text += sqlPageActive
	} else if len(f.Statuses) > 0 {
		text += sqlPageStatus
		for i := range 4 { // one statement for any number of statuses; there are four
			status := f.Statuses[min(i, len(f.Statuses)-1)]
			if !slices.Contains(statuses, status) {
				return "", nil, invalid("ask for active, abandoned, complete or merged", "%q is no status of an agent",
					status)
			}
			args = append(args, string(status))
		}
	}
	return text, args, nil
}

// A place is where a list ended: the entries after it started earlier, or at the same time with a
// greater id. The entry of the place itself may be gone.
type place struct {
	startedAt int64
	id        string
}

// first is the place before all entries.
var first = place{startedAt: 1<<63 - 1}
