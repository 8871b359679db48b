package workers

import (
	"context"

	"selvedge/db"
)

const (
	sqlOneWorker    = sqlWorkers + ` AND w.worker_id = ?`
	sqlRequestLists = `SELECT requested_capabilities, workspace_refs, mount_refs FROM worker_requests WHERE worker = ?`
	sqlWorkerHead   = `SELECT key, transcript_len FROM workers WHERE runtime = ? AND worker_id = ?`
	sqlEntries      = `SELECT id, sequence, role, content, event_id FROM worker_entries WHERE id > ? AND id <= ? ORDER BY id`
)

// WorkerDetail tells all about a worker but what was said to it.
func (r *Runtime) WorkerDetail(ctx context.Context, worker WorkerRef) (detail WorkerDetail, err error) {
	if err := r.ensureOwn(worker); err != nil {
		return detail, err
	}
	err = r.db.Read(ctx, "show worker", func(rx *db.Rx) error {
		detail, err = r.workerDetail(rx, worker)
		return err
	})
	return detail, refused(err)
}

func (r *Runtime) workerDetail(rx *db.Rx, worker WorkerRef) (detail WorkerDetail, err error) {
	var row workerRow
	ok, err := rx.Find(&row, sqlOneWorker, r.key, string(worker.WorkerID))
	if err == nil && !ok {
		err = workerNotFound(worker)
	}
	if err != nil {
		return detail, err
	}
	request, err := readRequest(rx, &row)
	return WorkerDetail{
		WorkerRef: worker, RuntimeID: r.id, WorkerID: worker.WorkerID, Status: WorkerStatus(row.Status),
		Intent: request.Intent, Profile: request.Profile, ConfigBundle: request.ConfigBundle,
		RequestedCapabilities: request.RequestedCapabilities, WorkspaceRefs: request.WorkspaceRefs, MountRefs: request.MountRefs,
		TranscriptLen: row.TranscriptLen, LastEventID: uint64(row.LastEventID),
	}, err
}

func readRequest(rx *db.Rx, row *workerRow) (q CreateWorkerRequest, err error) {
	var lists struct {
		Capabilities []byte `db:"requested_capabilities"`
		Workspaces   []byte `db:"workspace_refs"`
		Mounts       []byte `db:"mount_refs"`
	}
	if err := rx.Get(&lists, sqlRequestLists, row.Key); err != nil {
		return q, err
	}
	q = CreateWorkerRequest{Intent: row.intent(), Profile: row.profile()}
	if row.ConfigBundle != nil {
		q.ConfigBundle = &ConfigBundleRef{ID: *row.ConfigBundle}
	}
	if q.RequestedCapabilities, err = readList(lists.Capabilities, decodeCapability); err != nil {
		return q, err
	}
	if q.WorkspaceRefs, err = readList(lists.Workspaces, decodeWorkspace); err != nil {
		return q, err
	}
	q.MountRefs, err = readList(lists.Mounts, decodeMount)
	return q, err
}

func readList[T any](column []byte, decode func([]byte) (T, error)) ([]T, error) {
	if column == nil {
		return nil, nil
	}
	list, err := decodeArray(column, decode)
	if err != nil {
		return nil, corrupt("read worker", err)
	}
	return list, nil
}

// corrupt is the error about a row that says what this package never wrote.
func corrupt(what string, err error) error {
	return refusal(KindStoreCorrupt, "runtime store %s found corrupt data: %v", what, err)
}

// TranscriptProjection gives a part of a worker's transcript. The limit is checked before the worker; 0 is allowed, and
// gives no entries.
func (r *Runtime) TranscriptProjection(ctx context.Context, worker WorkerRef, query TranscriptQuery) (p TranscriptProjection, err error) {
	if query.Limit > r.limits.MaxTranscriptProjectionItems {
		return p, limitTooLarge(query.Limit, r.limits.MaxTranscriptProjectionItems)
	}
	if err := r.ensureOwn(worker); err != nil {
		return p, err
	}
	err = r.db.Read(ctx, "read transcript", func(rx *db.Rx) error {
		p, err = r.projection(rx, worker, query)
		return err
	})
	return p, refused(err)
}

func (r *Runtime) projection(rx *db.Rx, worker WorkerRef, query TranscriptQuery) (p TranscriptProjection, err error) {
	var head struct {
		Key   int64  `db:"key"`
		Total uint64 `db:"transcript_len"`
	}
	ok, err := rx.Find(&head, sqlWorkerHead, r.key, string(worker.WorkerID))
	if err == nil && !ok {
		err = workerNotFound(worker)
	}
	if err != nil {
		return p, err
	}
	p = TranscriptProjection{WorkerRef: worker, Start: query.Start, Limit: query.Limit, TotalItems: head.Total, Items: []TranscriptEntry{}}
	if query.Start >= head.Total {
		return p, nil
	}
	end := head.Total
	if query.Limit < head.Total-query.Start {
		end = query.Start + query.Limit
		p.NextStart = &end
	}
	p.Items, err = readEntries(rx, worker, head.Key, int64(query.Start), int64(end))
	return p, err
}

type entryRow struct {
	ID       int64  `db:"id"`
	Sequence *int64 `db:"sequence"`
	Role     string `db:"role"`
	Content  []byte `db:"content"`
	EventID  int64  `db:"event_id"`
}

// readEntries gives the entries at the places behind start up to end.
func readEntries(rx *db.Rx, worker WorkerRef, key, start, end int64) ([]TranscriptEntry, error) {
	var rows []entryRow
	base := key << transcriptPos
	if err := rx.Select(&rows, sqlEntries, base|start, base|end); err != nil {
		return nil, err
	}
	items := make([]TranscriptEntry, 0, len(rows))
	for i := range rows {
		items = append(items, rows[i].entry(worker))
	}
	return items, nil
}

func (row *entryRow) entry(worker WorkerRef) TranscriptEntry {
	sequence := row.ID & maxEntries
	if row.Sequence != nil {
		sequence = *row.Sequence
	}
	return TranscriptEntry{
		Sequence: uint64(sequence), WorkerRef: worker, Role: TranscriptRole(row.Role), Content: string(row.Content), EventID: uint64(row.EventID),
	}
}
