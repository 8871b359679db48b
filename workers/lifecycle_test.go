package workers_test

import (
	"cmp"
	"context"
	"errors"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

type ending func(*workers.Runtime, context.Context, workers.WorkerRef, *string) (workers.WorkerLifecycleAck,
	error)

// firstEndStays ends a worker one way and then the other.
func firstEndStays(t *testing.T, first, second ending, want workers.WorkerStatus,
	kind workers.RuntimeEventKind,
) {
	t.Helper()
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	cursor := must(r.EventCursorFromStart(ctx))(t)
	worker := must(r.CreateWorker(ctx, taskRequest("stable")))(t).WorkerRef
	reason, late := "done", "late"
	a, b := must(first(r, ctx, worker, &reason))(t), must(second(r, ctx, worker, &late))(t)
	if a.Status != want || b != a {
		t.Errorf("first %+v, then %+v", a, b)
	}
	if detail := must(r.WorkerDetail(ctx, worker))(t); detail.Status != want {
		t.Errorf("it is %s", detail.Status)
	}
	ends := map[workers.RuntimeEventKind]int{}
	for _, e := range must(r.ReadEvents(ctx, cursor, 10))(t).Events {
		ends[e.Kind]++
	}
	if ends["worker_stopped"]+ends["worker_cancelled"] != 1 || ends[kind] != 1 {
		t.Errorf("the log has %v", ends)
	}
	s := must(r.Summary(ctx))(t)
	if s.ActiveWorkerCount != 0 || s.StoppedWorkerCount+s.CancelledWorkerCount != 1 {
		t.Errorf("summary: %+v", s)
	}
}

func TestOpenTx_UndoneRuntimeIsNoOther(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	var undone *workers.Runtime
	err := d.Write(ctx, "open", func(tx *db.Tx) (err error) {
		failed := tx.Savepoint(func() error {
			undone, err = workers.OpenTx(tx, d, workers.RuntimeOptions{RuntimeID: "a"})
			return cmp.Or(err, context.Canceled)
		})
		if !errors.Is(failed, context.Canceled) {
			t.Errorf("the savepoint gave %v", failed)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	open(t, d, workers.RuntimeOptions{RuntimeID: "b"})
	if w, err := undone.CreateWorker(ctx, taskRequest("x")); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a runtime that was undone created %+v: %v", w, err)
	}
}
