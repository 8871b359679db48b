package legacy

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/replay"
	"selvedge/workers"
)

func oldWorkers(t *testing.T, dir string) any {
	runtimes := map[string]any{}
	names, err := os.ReadDir(filepath.Join(dir, "runtimes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		id, err := hex.DecodeString(strings.TrimPrefix(n.Name(), "id-"))
		if err != nil {
			t.Fatal(err)
		}
		m := replay.Workers{Dir: dir}
		play := func(op string, args map[string]any) any {
			call := jsonOf(args)
			out := m.Play(&replay.Call{Op: op, Args: call})
			if out.Err != nil {
				t.Fatalf("runtime %q: %s: %s", id, op, *out.Err)
			}
			return jsonOf(out.OK)
		}
		play("open", map[string]any{"runtime_id": string(id)})
		start, summary := play("event_cursor_from_start", nil), play("summary", nil)
		most := summary.(map[string]any)["limits"].(map[string]any)
		all := map[string]any{
			"summary": summary, "diagnostics": play("diagnostics", nil), "workers": play("list_workers", nil),
			"now":    play("event_cursor_now", nil),
			"events": play("read_events", map[string]any{"cursor": start, "limit": most["max_event_batch_items"]}),
		}
		for _, w := range all["workers"].([]any) {
			ref := w.(map[string]any)["worker_ref"]
			name := w.(map[string]any)["worker_id"].(string)
			all["detail "+name] = play("worker_detail", map[string]any{"worker_ref": ref})
			all["transcript "+name] = play("transcript_projection",
				map[string]any{"worker_ref": ref, "start": 0, "limit": most["max_transcript_projection_items"]})
		}
		runtimes[string(id)] = all
	}
	return runtimes
}

func ourWorkers(ctx context.Context, d *db.DB) (any, error) {
	runtimes := map[string]any{}
	for summary, err := range runtimesOf(d).All(ctx, workers.RuntimeFilter{}) {
		if err != nil {
			return nil, err
		}
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: summary.RuntimeID, MustExist: true})
		if err != nil {
			return nil, err
		}
		all := map[string]any{"summary": summary}
		var errs [5]error
		all["diagnostics"], errs[0] = r.Diagnostics(ctx)
		list, err := r.ListWorkers(ctx)
		all["workers"] = list
		all["now"], errs[1] = r.EventCursorNow(ctx)
		start, startErr := r.EventCursorFromStart(ctx)
		all["events"], errs[2] = r.ReadEvents(ctx, start, summary.Limits.MaxEventBatchItems)
		for _, w := range list {
			all["detail "+string(w.WorkerID)], errs[3] = r.WorkerDetail(ctx, w.WorkerRef)
			all["transcript "+string(w.WorkerID)],
				errs[4] = r.TranscriptProjection(ctx, w.WorkerRef,
				workers.NewTranscriptQuery(0, summary.Limits.MaxTranscriptProjectionItems))
		}
		if err := errors.Join(append(errs[:], err, startErr)...); err != nil {
			return nil, err
		}
		runtimes[string(summary.RuntimeID)] = all
	}
	return runtimes, nil
}

func workerWrites(s *storeFile) []publicWrite {
	var runtime *workers.Runtime
	var first, second, third workers.WorkerRef
	reason := "é"
	dir := "runtimes/" + idName("moved") + "/"
	open := func(id workers.RuntimeID) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			runtime, err = workers.Open(ctx, s.d, workers.RuntimeOptions{RuntimeID: id})
			return err
		}
	}
	create := func(ref *workers.WorkerRef) func(context.Context) error {
		return func(ctx context.Context) error {
			w, err := runtime.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent("go")})
			*ref = w.WorkerRef
			return err
		}
	}
	return []publicWrite{
		{name: "Open", touches: dir, do: open("moved")},
		{name: "CreateWorker", touches: dir, do: create(&first)},
		{name: "CreateWorker again", touches: dir, do: create(&second)},
		{name: "CreateWorker a third time", touches: dir, do: create(&third)},
		{name: "SendInput", touches: dir, do: func(ctx context.Context) error {
			_, err := runtime.SendInput(ctx, first, workers.UserInput("é"))
			return err
		}},
		{name: "SendInput again", touches: dir, do: func(ctx context.Context) error {
			input := workers.SystemInput("again")
			input.Repeat = 1 << 40
			_, err := runtime.SendInput(ctx, first, input)
			return err
		}},
		{
			name: "StopWorker", touches: dir, says: `"status": "stopped"`,
			do: func(ctx context.Context) error { _, err := runtime.StopWorker(ctx, first, &reason); return err },
		},
		{
			name: "CancelWorker", touches: dir, says: `"status": "cancelled"`,
			do: func(ctx context.Context) error { _, err := runtime.CancelWorker(ctx, second, nil); return err },
		},
		{name: "PruneEvents", touches: dir, do: func(ctx context.Context) error {
			n, err := runtime.PruneEvents(ctx, workers.EventCursor{RuntimeID: "moved", NextEventID: 3})
			return one(int(n)-1, err)
		}},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error {
			return runtimesOf(s.d).Pin(ctx,
				first)
		}},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error {
			return runtimesOf(s.d).Unpin(ctx,
				first)
		}},
		{name: "Delete", touches: dir, do: func(ctx context.Context) error { return runtime.Delete(ctx, first) }},
		{name: "Prune", touches: "runtimes/", do: func(ctx context.Context) error {
			_, err := runtimesOf(s.d).Prune(ctx, db.Policy{Age: db.KeepNone})
			return err
		}},
		{
			name: "StopRuntime", touches: dir, says: `"runtime_stopped"`,
			do: func(ctx context.Context) error { _, err := runtime.StopRuntime(ctx); return err },
		},
		{
			name: "Runtimes.Delete", touches: dir,
			do: func(ctx context.Context) error { return runtimesOf(s.d).Delete(ctx, "moved") },
		},
	}
}
