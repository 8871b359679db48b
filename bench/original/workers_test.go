package original

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

func TestJSONIsWrittenInThePiecesOfTheOriginal(t *testing.T) {
	for _, c := range []struct {
		pretty bool
		want   string
	}{
		{true, "{|\n|  |\"|id|\"|: |7|,\n|  |\"|name|\"|: |null|,\n|  |\"|ref|\"|: |{|\n|  |  |\"|t|\"|: " +
			"|\"|a|\\\"|b|\\n|\\u0001|\"|\n|  |}|,\n" +
			"|  |\"|list|\"|: |[|\n|  |  |{|}|,\n|  |  |1|\n|  |]|,\n|  |\"|none|\"|: |[|]|\n|}"},
		{false, `{|"|id|"|:|7|,|"|name|"|:|null|,|"|ref|"|:|{|"|t|"|:|"|a|\"|b|\n|\u0001|"|}|,|"|list|"|:|[|{|` +
			`}|,|1|]|,|"|none|"|:|[|]|}`},
	} {
		var pieces []string
		w := &serde{pretty: c.pretty, write: func(piece []byte) error {
			pieces = append(pieces,
				string(piece))
			return nil
		}}
		w.begin("{")
		w.numberMember("id", 7)
		w.key("name")
		w.null()
		w.key("ref")
		w.begin("{")
		w.stringMember("t", "a\"b\n\x01")
		w.end("}")
		w.key("list")
		w.begin("[")
		w.element()
		w.begin("{")
		w.end("}")
		w.element()
		w.number(1)
		w.end("]")
		w.key("none")
		w.begin("[")
		w.end("]")
		w.end("}")
		if got := strings.Join(pieces, "|"); got != c.want {
			t.Errorf("pretty %v: pieces\n%s\nwant\n%s", c.pretty, got, c.want)
		}
	}
}

// Our importer must accept what the runtime leaves as a tree of the original.
func TestARuntimeLeavesATreeOfTheOriginal(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	r, err := NewWorkerRuntime(root, "runtime-1")
	if err != nil {
		t.Fatal(err)
	}
	bare := workers.CreateWorkerRequest{
		Intent:  workers.TaskIntent("mend the build"),
		Profile: workers.BuiltinProfile("builtin:coder"),
	}
	full := bare
	full.ConfigBundle = &workers.ConfigBundleRef{ID: "bundle-1"}
	full.RequestedCapabilities = []workers.CapabilityRequest{workers.NamedCapability("read")}
	var refs []workers.WorkerRef
	for _, request := range []workers.CreateWorkerRequest{bare, full} {
		ref, err := r.CreateWorker(request)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	if err := r.Fill(3, "go on"); err != nil {
		t.Fatal(err)
	}
	for _, sync := range []Sync{NoSync, WithSync} {
		if _, err := r.SendInput(refs[1], "what \"else\"?\n", sync); err != nil {
			t.Fatal(err)
		}
	}
	ours := importTree(t, legacy.Workers, root)
	runtime, err := workers.Open(ctx, ours, workers.RuntimeOptions{RuntimeID: "runtime-1", MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	detail, err := runtime.WorkerDetail(ctx, refs[1])
	if err != nil || detail.TranscriptLen != 5 || detail.LastEventID != 11 ||
		len(detail.RequestedCapabilities) != 1 {
		t.Errorf("the worker is %+v (%v)", detail, err)
	}
	transcript, err := runtime.TranscriptProjection(ctx, refs[1], workers.NewTranscriptQuery(4, 1))
	if err != nil || len(transcript.Items) != 1 || transcript.Items[0].Content != "what \"else\"?\n" ||
		transcript.Items[0].EventID != 11 {
		t.Errorf("its last entry is %+v (%v)", transcript.Items, err)
	}
	summary, err := runtime.Summary(ctx)
	if err != nil || summary.WorkerCount != 2 || summary.DiagnosticCount != 2 {
		t.Errorf("the runtime is %+v (%v)", summary, err)
	}
	left, err := filepath.Glob(filepath.Join(root, "runtimes", "*", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files left beside the runtime's: %v (%v)", left, err)
	}
}

func TestASessionIsSavedAsTheOriginalSavesIt(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	s := NewLiveStore(root)
	for _, id := range []string{"run-1", "run-2"} {
		run := s.CreateRun(live.RunSnapshot{
			ID: id, SessionID: "a/b", Status: live.Created, Prompt: "fix tests",
			CreatedAtMs: 1000,
		})
		for i := range uint64(3) {
			s.RecordEvent(run, 2000+i, "a \"word\"")
		}
		if err := s.Save("a/b"); err != nil {
			t.Fatal(err)
		}
	}
	records, err := live.NewStore(importTree(t, legacy.Live, root), live.Options{}).Records(ctx)
	if err != nil || len(records) != 2 || len(records[1].Events) != 3 {
		t.Fatalf("%d records (%v), want 2 of 3 events", len(records), err)
	}
	compact, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Indent(&want, compact, "", "  "); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(root, "runs", "a_b.json"))
	if err != nil || string(written) != want.String() {
		t.Errorf("the file is (%v)\n%s\nwant\n%s", err, written, want.String())
	}
}

func importTree(t *testing.T, kind legacy.Kind, root string) *db.DB {
	t.Helper()
	d := dbtest.Open(t, db.Options{})
	report, err := legacy.Import(context.Background(), d, kind, root, legacy.Options{})
	if err != nil || report.Partial() {
		t.Fatalf("import: %+v (%v)", report, err)
	}
	return d
}
