package workers_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

func TestPages_AgreeWithIterator(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	for i := range 7 {
		w := must(r.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef
		if i%2 == 0 {
			must(r.StopWorker(ctx, w, nil))(t)
		}
	}
	for filter, want := range map[workers.WorkerStatus]int{
		"": 7, workers.Running: 3,
		workers.Stopped: 4, workers.Cancelled: 0,
	} {
		var paged, iterated []string
		page := db.At{Limit: 2}
		for {
			got := must(r.Page(ctx, workers.WorkerFilter{Status: filter}, page))(t)
			for _, w := range got.Items {
				paged = append(paged, string(w.WorkerID))
			}
			if page.After = got.Next; page.After == "" {
				break
			}
		}
		for w, err := range r.All(ctx, workers.WorkerFilter{Status: filter}) {
			if err != nil {
				t.Fatal(err)
			}
			iterated = append(iterated, string(w.WorkerID))
		}
		if strings.Join(paged, " ") != strings.Join(iterated, " ") || len(paged) != want {
			t.Errorf("%q: pages give %v, the iterator %v", filter, paged, iterated)
		}
	}
	for _, bad := range []db.At{{Limit: -1}, {Limit: 1001}, {After: "?"}} {
		if _, err := r.Page(ctx, workers.WorkerFilter{}, bad); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := r.Page(ctx, workers.WorkerFilter{Status: "paused"}, db.At{}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("an unknown status: %v", err)
	}
}

func TestGeneratedRuntimeIDsDiffer(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	a, b := open(t, d, workers.RuntimeOptions{}), open(t, d, workers.RuntimeOptions{})
	if a.RuntimeID() == b.RuntimeID() || !strings.HasPrefix(string(a.RuntimeID()), "runtime-mem-") {
		t.Errorf("%s and %s", a.RuntimeID(), b.RuntimeID())
	}
	var ids []workers.RuntimeID
	for r, err := range workers.NewRuntimes(d, "").All(t.Context(), workers.RuntimeFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.RuntimeID)
	}
	if len(ids) != 2 {
		t.Errorf("the scope has %v", ids)
	}
}

func TestARuntimeOfAnotherScopeIsAnotherRuntime(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{})
	a := open(t, d, workers.RuntimeOptions{RuntimeID: "same", Scope: "a"})
	b := open(t, d, workers.RuntimeOptions{RuntimeID: "same", Scope: "b"})
	w := must(a.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef
	if _, err := b.WorkerDetail(ctx, w); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
	_, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "same", Scope: "c", MustExist: true})
	if !errors.Is(err, db.ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
}

func TestTexts_UnholdableAreRefused(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	w := must(r.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef
	wrong := "\xff"
	_, sent := r.SendInput(ctx, w, workers.UserInput(wrong))
	_, kind := r.SendInput(ctx, w, workers.WorkerInput{Kind: "robot", Content: "x"})
	_, stopped := r.StopWorker(ctx, w, &wrong)
	_, created := r.CreateWorker(ctx, taskRequest(wrong))
	_, intent := r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.WorkerIntent{Kind: "other"}})
	for _, err := range []error{sent, kind, stopped, created, intent} {
		if !isKind(err, "InvalidRequest") || !errors.Is(err, db.ErrInvalid) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestTextsComeBackAsTheyWere(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	wrong := " a\x00b\u2028<&> \U0001F600\n"
	w := must(r.CreateWorker(ctx, taskRequest(wrong)))(t).WorkerRef
	must(r.SendInput(ctx, w, workers.UserInput(wrong)))(t)
	must(r.StopWorker(ctx, w, &wrong))(t)
	if p := must(r.TranscriptProjection(ctx, w,
		workers.NewTranscriptQuery(0, 1)))(t); p.Items[0].Content != wrong {
		t.Errorf("the content is %q", p.Items[0].Content)
	}
	if d := must(r.WorkerDetail(ctx, w))(t); d.Intent.Objective != wrong {
		t.Errorf("the objective is %q", d.Intent.Objective)
	}
	if e := allEvents(t, r); e[len(e)-1].Message != wrong {
		t.Errorf("the reason is %q", e[len(e)-1].Message)
	}
}

// A page of what is heavy must not take the whole list, or transcript, into memory first.
func TestAPageReadsLittleMoreThanItHolds(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	const heavy = 12
	text := strings.Repeat("x", paging.MaxBytes)
	var w workers.WorkerRef
	for range heavy {
		w = must(r.CreateWorker(ctx, taskRequest(text)))(t).WorkerRef
	}
	for range heavy {
		must(r.SendInput(ctx, w, workers.UserInput(text)))(t)
	}
	for name, read := range map[string]func() int{
		"Page":           func() int { return len(must(r.Page(ctx, workers.WorkerFilter{}, db.At{}))(t).Items) },
		"TranscriptPage": func() int { return len(must(r.TranscriptPage(ctx, w, db.At{}))(t).Items) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		items := read()
		runtime.ReadMemStats(&after)
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; items != 1 || mib > heavy/2 {
			t.Errorf("%s of %d things of 1 MiB gave %d of them and allocated %d MiB", name, heavy, items, mib)
		}
	}
}
