package storetest

import (
	"context"
	"iter"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/workers"
)

var ofWorkers = store{"workers", slices.Concat(lists[workers.WorkerRef, workers.WorkerFilter,
	workers.WorkerDetail, workers.WorkerSummary](listedWorkers).laws(),
	keeps(valuesOfWorkers).laws()), nil}

var ofRuntimes = store{"runtimes", slices.Concat(lists[workers.RuntimeID, workers.RuntimeFilter,
	workers.RuntimeSummary, workers.RuntimeSummary](listedRuntimes).laws(),
	streams[workers.RuntimeID, workers.RuntimeEvent](followedRuntimes).laws()), nil}

func opened(t *testing.T, d *db.DB, scope string, id workers.RuntimeID) *workers.Runtime {
	t.Helper()
	r, err := workers.Open(t.Context(), d, workers.RuntimeOptions{Scope: scope, RuntimeID: id})
	must(t, err)
	return r
}

func request() workers.CreateWorkerRequest {
	return workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{})
}

func listedWorkers(t *testing.T, d *db.DB, scope string) things[workers.WorkerRef, workers.WorkerFilter,
	workers.WorkerDetail, workers.WorkerSummary] {
	r := opened(t, d, scope, "runtime")
	return things[workers.WorkerRef, workers.WorkerFilter, workers.WorkerDetail, workers.WorkerSummary]{
		lister: r,
		add: func(ctx context.Context, _ int) (workers.WorkerRef, error) {
			w, err := r.CreateWorker(ctx, request())
			return w.WorkerRef, err
		},
		addTx: func(tx *db.Tx, _ int) (workers.WorkerRef, error) {
			w, err := r.CreateWorkerTx(tx, request())
			return w.WorkerRef, err
		},
		name: func(ref workers.WorkerRef) string { return string(ref.WorkerID) },
		of:   func(w workers.WorkerSummary) workers.WorkerRef { return w.WorkerRef },
		end: func(ctx context.Context, ref workers.WorkerRef) error {
			return second(r.StopWorker(ctx, ref,
				nil))
		},
		prune: workers.NewRuntimes(d, scope).Prune, pins: workers.NewRuntimes(d, scope),
		big: func(ctx context.Context, _ int, text string) (workers.WorkerRef, error) {
			w, err := r.CreateWorker(ctx, workers.ToolsLess(workers.TaskIntent(text), workers.ProfileSelector{}))
			return w.WorkerRef, err
		},
	}
}

// firstWorker is the first worker of a runtime.
func firstWorker(id workers.RuntimeID) workers.WorkerRef {
	return workers.NewWorkerRef(id, "worker-00000001")
}

func valuesOfWorkers(_ *testing.T, d *db.DB, scope string) []kept {
	// Value n is that of the first worker of runtime n.
	create := func(ctx context.Context, n int, request workers.CreateWorkerRequest) (*workers.Runtime,
		workers.WorkerRef, error,
	) {
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{Scope: scope, RuntimeID: workers.RuntimeID(nth(n))})
		if err != nil {
			return nil, workers.WorkerRef{}, err
		}
		w, err := r.CreateWorker(ctx, request)
		return r, w.WorkerRef, err
	}
	open := func(ctx context.Context, n int) (*workers.Runtime, workers.WorkerRef, error) {
		id := workers.RuntimeID(nth(n))
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{Scope: scope, RuntimeID: id, MustExist: true})
		return r, firstWorker(id), err
	}
	return []kept{
		{
			name: "input", refuses: []string{"nothing", "blanks", "invalid UTF-8"},
			put: func(ctx context.Context, n int, value string) error {
				r, ref, err := create(ctx, n, request())
				if err == nil {
					_, err = r.SendInput(ctx, ref, workers.UserInput(value))
				}
				return err
			},
			get: func(ctx context.Context, n int) (string, error) {
				r, ref, err := open(ctx, n)
				if err != nil {
					return "", err
				}
				page, err := r.TranscriptPage(ctx, ref, db.At{})
				if err != nil || len(page.Items) == 0 {
					return "", err
				}
				return page.Items[0].Content, nil
			},
		},
		{
			name: "objective", refuses: []string{"nothing", "blanks", "invalid UTF-8"},
			put: func(ctx context.Context, n int, value string) error {
				_, _, err := create(ctx, n, workers.ToolsLess(workers.TaskIntent(value), workers.ProfileSelector{}))
				return err
			},
			get: func(ctx context.Context, n int) (string, error) {
				r, ref, err := open(ctx, n)
				if err != nil {
					return "", err
				}
				detail, err := r.Get(ctx, ref)
				return detail.Intent.Objective, err
			},
		},
	}
}

func runtimeOptions(scope string, n int) workers.RuntimeOptions {
	return workers.RuntimeOptions{Scope: scope, RuntimeID: workers.RuntimeID(nth(n))}
}

func listedRuntimes(_ *testing.T, d *db.DB, scope string) things[workers.RuntimeID, workers.RuntimeFilter,
	workers.RuntimeSummary, workers.RuntimeSummary] {
	return things[workers.RuntimeID, workers.RuntimeFilter, workers.RuntimeSummary, workers.RuntimeSummary]{
		lister: workers.NewRuntimes(d, scope),
		add: func(ctx context.Context, n int) (workers.RuntimeID, error) {
			return workers.RuntimeID(nth(n)), second(workers.Open(ctx, d, runtimeOptions(scope, n)))
		},
		addTx: func(tx *db.Tx, n int) (workers.RuntimeID, error) {
			return workers.RuntimeID(nth(n)), second(workers.OpenTx(tx, d, runtimeOptions(scope, n)))
		},
		name: func(ref workers.RuntimeID) string { return string(ref) },
		of:   func(r workers.RuntimeSummary) workers.RuntimeID { return r.RuntimeID },
	}
}

// The first worker of a followed runtime receives what is appended.
func followedRuntimes(_ *testing.T, d *db.DB, scope string) followed[workers.RuntimeID,
	workers.RuntimeEvent] {
	all := workers.NewRuntimes(d, scope)
	there := func(id workers.RuntimeID) workers.RuntimeOptions {
		return workers.RuntimeOptions{Scope: scope, RuntimeID: id, MustExist: true}
	}
	// A handle on a runtime remains valid when the runtime is removed, and reports the removal.
	open := map[workers.RuntimeID]*workers.Runtime{}
	opened := func(ctx context.Context, id workers.RuntimeID) (_ *workers.Runtime, err error) {
		if open[id] == nil {
			open[id], err = workers.Open(ctx, d, there(id))
		}
		return open[id], err
	}
	return followed[workers.RuntimeID, workers.RuntimeEvent]{
		add: func(ctx context.Context, n int) (workers.RuntimeID, error) {
			r, err := workers.Open(ctx, d, runtimeOptions(scope, n))
			if err == nil {
				delete(open, workers.RuntimeID(nth(n)))
				_, err = r.CreateWorker(ctx, request())
			}
			return workers.RuntimeID(nth(n)), err
		},
		addTx:  func(tx *db.Tx, n int) error { return second(workers.OpenTx(tx, d, runtimeOptions(scope, n))) },
		remove: all.Delete,
		end: func(ctx context.Context, id workers.RuntimeID) error {
			r, err := workers.Open(ctx, d, there(id))
			if err == nil {
				_, err = r.StopRuntime(ctx)
			}
			return err
		}, began: string(workers.Running), ended: string(workers.Stopped),
		append: func(tx *db.Tx, id workers.RuntimeID, texts ...string) error {
			r, err := workers.OpenTx(tx, d, there(id))
			for i := 0; i < len(texts) && err == nil; i++ {
				_, err = r.SendInputTx(tx, firstWorker(id), workers.UserInput(texts[i]))
			}
			return err
		},
		repeat: func(tx *db.Tx, id workers.RuntimeID, batch int64, texts ...string) error {
			r, err := workers.OpenTx(tx, d, there(id))
			if err == nil {
				input := workers.UserInput(texts[0])
				input.Repeat = batch
				_, err = r.SendInputTx(tx, firstWorker(id), input)
			}
			return err
		},
		follow: func(ctx context.Context, id workers.RuntimeID, cursor string) iter.Seq2[workers.Followed, error] {
			r, err := opened(ctx, id)
			if err != nil {
				return func(yield func(workers.Followed, error) bool) { yield(workers.Followed{}, err) }
			}
			return r.Follow(ctx, cursor)
		},
		only: func(ctx context.Context, id workers.RuntimeID, text string) error {
			r, err := opened(ctx, id)
			if err != nil {
				return err
			}
			now, err := r.EventCursorNow(ctx)
			if err == nil {
				_, err = r.PruneEvents(ctx, now)
			}
			if err == nil {
				_, err = r.SendInput(ctx, firstWorker(id), workers.UserInput(text))
			}
			return err
		},
		followAll: func(ctx context.Context, status string) iter.Seq2[workers.Followed, error] {
			return all.FollowAll(ctx, workers.RuntimeFilter{Status: workers.RuntimeStatus(status)})
		},
		before: func(ctx context.Context, id workers.RuntimeID, n int64) (string, error) {
			r, err := opened(ctx, id)
			if err != nil {
				return "", err
			}
			return r.CursorBefore(ctx, n)
		},
		page: func(ctx context.Context, id workers.RuntimeID, at db.At) (db.Page[workers.Followed], error) {
			r, err := opened(ctx, id)
			if err != nil {
				return db.Page[workers.Followed]{}, err
			}
			return r.EventsPage(ctx, at)
		},
		says: func(ctx context.Context, event workers.RuntimeEvent) string {
			if event.Kind != "worker_input_accepted" {
				return ""
			}
			r, err := workers.Open(ctx, d, there(event.WorkerRef.RuntimeID))
			if err != nil {
				return err.Error()
			}
			for entry, err := range r.Transcript(ctx, *event.WorkerRef) {
				if err == nil && entry.EventID == event.ID {
					return entry.Content
				}
			}
			return "an event without an entry"
		},
		sequence: func(event workers.RuntimeEvent) uint64 { return event.ID },
	}
}
