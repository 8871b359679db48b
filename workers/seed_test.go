package workers_test

import (
	"errors"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// The original's own tests, with its names. The two that look at its files are tests of the importer:
// fs_store_reports_corrupt_and_missing_data is there.

func taskRequest(objective string) workers.CreateWorkerRequest {
	return workers.CreateWorkerRequest{
		Intent:                workers.TaskIntent(objective),
		Profile:               workers.BuiltinProfile("builtin:coder"),
		ConfigBundle:          &workers.ConfigBundleRef{ID: "bundle-1"},
		RequestedCapabilities: []workers.CapabilityRequest{workers.NamedCapability("read")},
	}
}

// openMemory gives a runtime in a database in memory of its own.
func openMemory(t testing.TB, options workers.RuntimeOptions) *workers.Runtime {
	t.Helper()
	r, err := workers.WithOptions(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func open(t testing.TB, d *db.DB, options workers.RuntimeOptions) *workers.Runtime {
	t.Helper()
	r, err := workers.Open(t.Context(), d, options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// must gives the value of a call that may not fail.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func isKind(err error, kind string) bool {
	var refusal *workers.RuntimeError
	return errors.As(err, &refusal) && refusal.Kind == kind
}

func TestCreateListAndDetailPreserveRuntimeWorkerAuthority(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	detail := must(r.CreateWorker(ctx, taskRequest("implement v0")))(t)
	if detail.WorkerRef.RuntimeID != r.RuntimeID() || detail.Status != workers.Running ||
		detail.ConfigBundle == nil {
		t.Errorf("created: %+v", detail)
	}
	list := must(r.ListWorkers(ctx))(t)
	if len(list) != 1 || list[0].WorkerRef != detail.WorkerRef || list[0].RequestedCapabilityCount != 1 {
		t.Errorf("listed: %+v", list)
	}
	fetched := must(r.WorkerDetail(ctx, detail.WorkerRef))(t)
	if fetched.WorkerID != detail.WorkerID || fetched.Intent != detail.Intent {
		t.Errorf("fetched: %+v", fetched)
	}
}

func TestRejectsWorkerRefsFromAnotherRuntime(t *testing.T) {
	ctx := t.Context()
	a, b := openMemory(t, workers.RuntimeOptions{}), openMemory(t, workers.RuntimeOptions{})
	detail := must(a.CreateWorker(ctx, taskRequest("runtime a")))(t)
	if _, err := b.WorkerDetail(ctx, detail.WorkerRef); !isKind(err, "WrongRuntime") {
		t.Errorf("the error is %v", err)
	}
}

func TestCreateWorker_WithoutConfigBundleUsesDefaults(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	detail := must(r.CreateWorker(ctx, workers.ToolsLess(workers.WorkerIntent{},
		workers.ProfileSelector{})))(t)
	if detail.ConfigBundle != nil || len(detail.RequestedCapabilities) > 0 {
		t.Errorf("created: %+v", detail)
	}
	list := must(r.Diagnostics(ctx))(t)
	if len(list) != 2 || list[0].Code != "runtime.local_default_resources" ||
		list[1].Code != "worker.tools_less" {
		t.Errorf("diagnostics: %+v", list)
	}
}

func TestSendInputAndProjectBoundedTranscript(t *testing.T) {
	ctx := t.Context()
	r := openMemory(t, workers.RuntimeOptions{Limits: &workers.RuntimeLimits{
		MaxTranscriptProjectionItems: 2,
		MaxEventBatchItems:           16,
	}})
	detail := must(r.CreateWorker(ctx, taskRequest("chat")))(t)
	first := must(r.SendInput(ctx, detail.WorkerRef, workers.UserInput("hello")))(t)
	if first.TranscriptSequence != 1 {
		t.Errorf("the first sequence is %d", first.TranscriptSequence)
	}
	must(r.SendInput(ctx, detail.WorkerRef, workers.SystemInput("note")))(t)
	must(r.SendInput(ctx, detail.WorkerRef, workers.UserInput("again")))(t)
	p := must(r.TranscriptProjection(ctx, detail.WorkerRef, workers.NewTranscriptQuery(0, 2)))(t)
	if p.TotalItems != 3 || len(p.Items) != 2 || p.Items[0].Content != "hello" ||
		p.Items[1].Role != "system" ||
		p.NextStart == nil || *p.NextStart != 2 {
		t.Errorf("projected: %+v", p)
	}
	if _, err := r.TranscriptProjection(ctx, detail.WorkerRef, workers.NewTranscriptQuery(0, 3)); !isKind(err,
		"LimitTooLarge") {
		t.Errorf("the error is %v", err)
	}
}

func TestStopAndCancelWorkersUpdateSummary(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	stopped := must(r.CreateWorker(ctx, taskRequest("stop me")))(t)
	cancelled := must(r.CreateWorker(ctx, taskRequest("cancel me")))(t)
	done, abort := "done", "abort"
	if ack := must(r.StopWorker(ctx, stopped.WorkerRef, &done))(t); ack.Status != workers.Stopped {
		t.Errorf("stopped: %+v", ack)
	}
	if ack := must(r.CancelWorker(ctx, cancelled.WorkerRef, &abort))(t); ack.Status != workers.Cancelled {
		t.Errorf("cancelled: %+v", ack)
	}
	s := must(r.Summary(ctx))(t)
	if s.WorkerCount != 2 || s.ActiveWorkerCount != 0 || s.StoppedWorkerCount != 1 ||
		s.CancelledWorkerCount != 1 {
		t.Errorf("summary: %+v", s)
	}
}

func TestStopThenCancelPreservesStoppedTerminalState(t *testing.T) {
	firstEndStays(t, (*workers.Runtime).StopWorker, (*workers.Runtime).CancelWorker, workers.Stopped,
		"worker_stopped")
}

func TestCancelThenStopPreservesCancelledTerminalState(t *testing.T) {
	firstEndStays(t, (*workers.Runtime).CancelWorker, (*workers.Runtime).StopWorker, workers.Cancelled,
		"worker_cancelled")
}

func TestEventCursor_PollOnlySubscriptionIsBounded(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	cursor := must(r.EventCursorFromStart(ctx))(t)
	if s := must(r.SubscribeEvents(cursor))(t); s.Mode != "poll_only" {
		t.Errorf("subscription: %+v", s)
	}
	worker := must(r.CreateWorker(ctx, taskRequest("events")))(t)
	must(r.SendInput(ctx, worker.WorkerRef, workers.UserInput("eventful")))(t)
	batch := must(r.ReadEvents(ctx, cursor, 2))(t)
	if len(batch.Events) != 2 || !batch.HasMore || batch.Events[0].Kind != "runtime_started" ||
		batch.Events[1].Kind != "worker_created" {
		t.Errorf("first page: %+v", batch)
	}
	next := must(r.ReadEvents(ctx, batch.Cursor, 2))(t)
	if len(next.Events) != 1 || next.HasMore || next.Events[0].Kind != "worker_input_accepted" {
		t.Errorf("second page: %+v", next)
	}
}

func TestFsStoreRestoresWorkersEventsAndTranscripts(t *testing.T) {
	ctx, path := t.Context(), dbtest.Path(t)
	d := must(db.Open(ctx, path, db.Options{}))(t)
	name := "filesystem runtime"
	options := workers.RuntimeOptions{
		RuntimeID: "runtime-fs-authority", DisplayName: &name,
		Limits: &workers.RuntimeLimits{MaxTranscriptProjectionItems: 2, MaxEventBatchItems: 2},
	}
	r := open(t, d, options)
	if s := must(r.Summary(ctx))(t); s.Backend != "fs_store" {
		t.Errorf("summary: %+v", s)
	}
	worker := must(r.CreateWorker(ctx, taskRequest("persist me")))(t).WorkerRef
	must(r.SendInput(ctx, worker, workers.UserInput("first")))(t)
	must(r.SendInput(ctx, worker, workers.SystemInput("second")))(t)
	finished := "finished"
	must(r.StopWorker(ctx, worker, &finished))(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	restored := open(t, dbtest.OpenAt(t, path, db.Options{}),
		workers.RuntimeOptions{RuntimeID: "runtime-fs-authority"})
	if detail := must(restored.WorkerDetail(ctx, worker))(t); detail.Status != workers.Stopped ||
		detail.TranscriptLen != 2 {
		t.Errorf("restored: %+v", detail)
	}
	p := must(restored.TranscriptProjection(ctx, worker, workers.NewTranscriptQuery(0, 1)))(t)
	if p.TotalItems != 2 || p.Items[0].Content != "first" || p.NextStart == nil || *p.NextStart != 1 {
		t.Errorf("projected: %+v", p)
	}
	batch := must(restored.ReadEvents(ctx, must(restored.EventCursorFromStart(ctx))(t), 2))(t)
	if len(batch.Events) != 2 || !batch.HasMore || batch.Events[0].Kind != "runtime_started" ||
		batch.Events[1].Kind != "worker_created" {
		t.Errorf("events: %+v", batch)
	}
	p = must(restored.TranscriptProjection(ctx, worker, workers.NewTranscriptQuery(1, 1)))(t)
	if p.Items[0].Content != "second" {
		t.Errorf("projected: %+v", p)
	}
}

func TestWhatIsRefusedSaysWhatToDo(t *testing.T) {
	r := openMemory(t, workers.RuntimeOptions{})
	_, missing := r.Get(t.Context(), workers.NewWorkerRef(r.RuntimeID(), "none"))
	if _, err := r.StopRuntime(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, stopped := r.CreateWorker(t.Context(), workers.CreateWorkerRequest{})
	for err, want := range map[error]error{missing: db.ErrNotFound, stopped: db.ErrConflict} {
		if !errors.Is(err, want) || db.Hint(err) == "" {
			t.Errorf("%v, with the hint %q", err, db.Hint(err))
		}
	}
}
