package workers

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"math"

	"selvedge/db"
)

const sqlRuntimeSummary = `
SELECT display_name, status, running_workers, stopped_workers, cancelled_workers, diagnostics FROM worker_runtimes WHERE key = ?`

// Summary describes the runtime. All counts are kept, not counted.
func (r *Runtime) Summary(ctx context.Context) (s RuntimeSummary, err error) {
	var row struct {
		DisplayName *string `db:"display_name"`
		Status      string  `db:"status"`
		Running     uint64  `db:"running_workers"`
		Stopped     uint64  `db:"stopped_workers"`
		Cancelled   uint64  `db:"cancelled_workers"`
		Diagnostics uint64  `db:"diagnostics"`
	}
	const op = "summarize runtime"
	err = r.db.Read(ctx, op, func(rx *db.Rx) error {
		ok, err := rx.Find(&row, sqlRuntimeSummary, r.key)
		if err == nil && !ok {
			err = r.gone(op)
		}
		return err
	})
	if err != nil {
		return RuntimeSummary{}, err
	}
	return RuntimeSummary{
		RuntimeID: r.id, DisplayName: row.DisplayName, Backend: r.backend, Status: RuntimeStatus(row.Status),
		WorkerCount: row.Running + row.Stopped + row.Cancelled, ActiveWorkerCount: row.Running, StoppedWorkerCount: row.Stopped,
		CancelledWorkerCount: row.Cancelled, DiagnosticCount: row.Diagnostics, Limits: r.limits,
	}, nil
}

// Status is where the runtime stands.
func (r *Runtime) Status(ctx context.Context) (RuntimeStatus, error) {
	s, err := r.Summary(ctx)
	return s.Status, err
}

// A WorkerFilter says which workers a list shows. The zero value is all of them.
type WorkerFilter struct {
	// Status is the one to show; "" is any.
	Status WorkerStatus
}

// A Page asks for a part of a list.
type Page struct {
	// After is the Next of the page before; "" asks for the first page.
	After string
	// Limit is the largest number of items; 0 means 50, and more than 1000 is db.ErrInvalid.
	Limit int
}

// A WorkerPage is a part of a list, in the order of the ids.
type WorkerPage struct {
	Items []WorkerSummary
	Next  string // for the next page; "" when this is the last
}

const (
	defaultLimit = 50
	maxLimit     = 1000
)

func (p Page) limit() (int, error) {
	switch {
	case p.Limit == 0:
		return defaultLimit, nil
	case p.Limit < 0 || p.Limit > maxLimit:
		return 0, fmt.Errorf("%w: the limit of a page is %d; 1 to %d are possible", db.ErrInvalid, p.Limit, maxLimit)
	}
	return p.Limit, nil
}

// A list's cursor is the id that its page ended with, behind a letter.
const listCursor = "w"

func cursorBehind(id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(listCursor + id))
}

// after is the id that the page begins behind; nil for the first page.
func (p Page) after() (*string, error) {
	if p.After == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(p.After)
	if err != nil || len(text) == 0 || string(text[:1]) != listCursor {
		return nil, fmt.Errorf("%w: %q is not a cursor of this list", db.ErrInvalid, p.After)
	}
	id := string(text[1:])
	return &id, nil
}

const opList = "list workers"

// ListWorkers gives all workers in the order of their ids, from one snapshot.
func (r *Runtime) ListWorkers(ctx context.Context) (list []WorkerSummary, err error) {
	return r.list(ctx, WorkerFilter{}, nil, noLimit)
}

// List gives a page of the workers that pass the filter, in the order of their ids.
func (r *Runtime) List(ctx context.Context, filter WorkerFilter, page Page) (WorkerPage, error) {
	limit, err := page.limit()
	if err != nil {
		return WorkerPage{}, &db.Error{Op: opList, Err: err}
	}
	after, err := page.after()
	if err != nil {
		return WorkerPage{}, &db.Error{Op: opList, Err: err}
	}
	items, err := r.list(ctx, filter, after, limit+1)
	if err != nil || len(items) <= limit {
		return WorkerPage{Items: items}, err
	}
	items = items[:limit]
	return WorkerPage{Items: items, Next: cursorBehind(string(items[limit-1].WorkerID))}, nil
}

// Workers gives the workers that pass the filter one by one, read in pages: no transaction is open while the caller's loop
// runs. After an error there is nothing more.
func (r *Runtime) Workers(ctx context.Context, filter WorkerFilter) iter.Seq2[WorkerSummary, error] {
	return func(yield func(WorkerSummary, error) bool) {
		const pageSize = 200
		var after *string
		for {
			items, err := r.list(ctx, filter, after, pageSize)
			if err != nil {
				yield(WorkerSummary{}, err)
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
			id := string(items[len(items)-1].WorkerID)
			after = &id
		}
	}
}

// sqlWorkers is without the lists of a request, which no list of workers shows.
const (
	sqlWorkers = `
SELECT w.key, w.worker_id, w.status, w.transcript_len, w.last_event_id,
    q.intent, q.objective, q.role, q.purpose, q.profile, q.profile_value, q.config_bundle, q.capabilities
FROM workers AS w JOIN worker_requests AS q ON q.worker = w.key
WHERE w.runtime = ?`
	sqlRunning   = ` AND w.status = 'running'` // written out, so that the index of those is seen to hold all
	sqlHasStatus = ` AND w.status = ?`
	sqlBehind    = ` AND w.worker_id > ?`
	sqlInOrder   = ` ORDER BY w.worker_id LIMIT ?`
)

type workerRow struct {
	Key           int64   `db:"key"`
	WorkerID      string  `db:"worker_id"`
	Status        string  `db:"status"`
	TranscriptLen uint64  `db:"transcript_len"`
	LastEventID   int64   `db:"last_event_id"`
	Intent        string  `db:"intent"`
	Objective     *string `db:"objective"`
	Role          *string `db:"role"`
	Purpose       *string `db:"purpose"`
	Profile       string  `db:"profile"`
	ProfileValue  *string `db:"profile_value"`
	ConfigBundle  *string `db:"config_bundle"`
	Capabilities  uint64  `db:"capabilities"`
}

func (row *workerRow) intent() WorkerIntent {
	i := WorkerIntent{Kind: IntentKind(row.Intent), Purpose: row.Purpose}
	if row.Objective != nil {
		i.Objective = *row.Objective
	}
	if row.Role != nil {
		i.Role = *row.Role
	}
	return i
}

func (row *workerRow) profile() ProfileSelector {
	p := ProfileSelector{Kind: ProfileKind(row.Profile)}
	if row.ProfileValue != nil {
		p.Value = *row.ProfileValue
	}
	return p
}

// noLimit is the limit of a statement that gives all rows.
const noLimit = math.MaxInt64

// list gives at most limit workers behind an id.
func (r *Runtime) list(ctx context.Context, filter WorkerFilter, after *string, limit int) (list []WorkerSummary, err error) {
	query, args := sqlWorkers, []any{r.key}
	switch filter.Status {
	case "":
	case WorkerRunning:
		query += sqlRunning
	case WorkerStopped, WorkerCancelled:
		query, args = query+sqlHasStatus, append(args, string(filter.Status))
	default:
		return nil, &db.Error{Op: opList, Err: fmt.Errorf("%w: %q is no status of a worker", db.ErrInvalid, filter.Status)}
	}
	if after != nil {
		query, args = query+sqlBehind, append(args, *after)
	}
	err = r.db.Read(ctx, opList, func(rx *db.Rx) error {
		var rows []workerRow
		if err := rx.Select(&rows, query+sqlInOrder, append(args, limit)...); err != nil {
			return err
		}
		list = make([]WorkerSummary, 0, len(rows))
		for i := range rows {
			list = append(list, r.summary(&rows[i]))
		}
		return nil
	})
	return list, err
}

func (r *Runtime) summary(row *workerRow) WorkerSummary {
	id := WorkerID(row.WorkerID)
	return WorkerSummary{
		WorkerRef: NewWorkerRef(r.id, id), RuntimeID: r.id, WorkerID: id, Status: WorkerStatus(row.Status),
		Intent: row.intent(), Profile: row.profile(), RequestedCapabilityCount: row.Capabilities,
		HasConfigBundle: row.ConfigBundle != nil, TranscriptLen: row.TranscriptLen, LastEventID: uint64(row.LastEventID),
	}
}
