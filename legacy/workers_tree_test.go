package legacy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/workers"
)

// wholeRuntime is a runtime.json with a further member.
func wholeRuntime(member string) string {
	return `{"schema_version":1,"runtime_id":"r","display_name":null,"backend":"fs_store","status":"running",` +
		`"limits":{"max_transcript_projection_items":2,"max_event_batch_items":2},"next_worker_sequence":1,"next_event_id":2,"next_diagnostic_id":1,` +
		`"diagnostics":[]` + member + `}` + "\n"
}

// The original makes the folder when it opens the runtime.
func TestAMissingFolderOfWorkersIsNoFault(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	dir := t.TempDir()
	folder{at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent}.below(t, dir)
	d := emptyFile(t)
	if report := importLater(t, d, "", dir); len(report.Quarantined) > 0 {
		t.Errorf("in quarantine: %+v", report.Quarantined)
	}
	s, err := openWorkers(t, d, "r").Summary(context.Background())
	if err != nil || s.WorkerCount+s.DiagnosticCount > 0 {
		t.Errorf("%+v, %v", s, err)
	}
	settled(t, d, "", dir)
}

// A number beyond a float, half a pair of surrogates, and nesting that no indenting goes down to.
func TestMembersThatTheOriginalOnlySkipsStay(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, member := range []string{`,"x":1e999`, `,"x":"\ud800"`, `,"x":` + deep} {
		files := folder{at + "runtime.json": wholeRuntime(member), at + "events.jsonl": startedEvent}
		dir := t.TempDir()
		files.below(t, dir)
		d := emptyFile(t)
		if report := importLater(t, d, "", dir); len(report.Quarantined) > 0 {
			t.Fatalf("in quarantine: %+v", report.Quarantined)
		}
		if _, out := exportedWorkers(t, d, ""); out[at+"runtime.json"] != files[at+"runtime.json"] {
			t.Error("runtime.json left as another one than it came")
		}
		if _, err := openWorkers(t, d, "r").CreateWorker(context.Background(),
			workers.CreateWorkerRequest{}); err != nil {
			t.Fatal(err)
		}
		_, out := exportedWorkers(t, d, "")
		text := out[at+"runtime.json"]
		if s := readRuntimeDocument(t, text); s.NextWorkerSequence != 2 {
			t.Errorf("after a call: %+v", s)
		}
		if !strings.Contains(text, member[strings.IndexByte(member, ':')+1:]) {
			t.Error("the member is gone after a call")
		}
	}
}

func TestImport_DeletedWorkerDoesNotComeBack(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	dir := t.TempDir()
	files := folder{
		at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent,
		at + "workers/" + idName("w") + "/transcript.jsonl": "",
		at + "workers/" + idName("w") + "/worker.json": `{"schema_version":1,"worker_ref":{"runtime_id":"r",` +
			`"worker_id":"w"},"worker_id":"w","status":"running","request":{"intent":{"kind":"assistant"},` +
			`"profile":{"kind":"runtime_default"}},"next_transcript_sequence":1,"last_event_id":1}`,
	}
	files.below(t, dir)
	d := emptyFile(t)
	importLater(t, d, "", dir)
	if err := openWorkers(t, d, "r").Delete(context.Background(),
		workers.WorkerRef{RuntimeID: "r", WorkerID: "w"}); err != nil {
		t.Fatal(err)
	}
	files[at+"events.jsonl"] += `{"id":2,"kind":{"kind":"runtime_stopped"},"message":"m"}` + "\n"
	files.below(t, dir)
	report := importLater(t, d, "", dir)
	s, err := openWorkers(t, d, "r").Summary(context.Background())
	if err != nil || s.WorkerCount > 0 || len(report.Differs) != 1 {
		t.Errorf("%+v, %v; %+v", s, err, report.Differs)
	}
}

func TestImport_FolderIsTakenOnceReadable(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	dir := t.TempDir()
	folder{at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent}.below(t, dir)
	list := filepath.Join(dir, at, "workers")
	if err := os.Symlink(list, list); err != nil {
		t.Fatal(err)
	}
	d := emptyFile(t)
	if report := importLater(t, d, "", dir); len(report.Quarantined) != 1 {
		t.Fatalf("in quarantine: %+v", report.Quarantined)
	}
	if err := errors.Join(os.Remove(list), os.Mkdir(list, 0o700)); err != nil {
		t.Fatal(err)
	}
	if report := importLater(t, d, "", dir); len(report.Quarantined) > 0 {
		t.Errorf("still in quarantine: %+v", report.Quarantined)
	}
	settled(t, d, "", dir)
}

// An id that no store can hold, from a folder's name or from a transcript, keeps no other from being taken.
func TestImport_ImpossibleWorkerIDKeepsNoOther(t *testing.T) {
	const bad = "a\x00b"
	at := "runtimes/" + idName("r") + "/"
	entry := `{"sequence":1,"worker_ref":{"runtime_id":"r","worker_id":"a\u0000b"},"role":"user","content":"go","event_id":1}` + "\n"
	for under, snapshot := range map[string]string{
		at + "workers/" + idName(bad) + "/": "{torn", at + "workers/x/": "{torn",
		at + "workers/" + idName("") + "/": laterWorker(`{"runtime_id":"r","worker_id":""}`, `""`, ""),
	} {
		dir := t.TempDir()
		folder{
			at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent,
			under + "worker.json": snapshot, under + "transcript.jsonl": entry,
			at + "workers/" + idName("7") + "/worker.json": laterWorker(`{"runtime_id":"r","worker_id":"7"}`, `"7"`, ""),
		}.below(t, dir)
		d := emptyFile(t)
		report := importLater(t, d, "", dir)
		for _, name := range []string{"worker.json", "transcript.jsonl"} {
			if reasonFor(&report, under+name) == "" {
				t.Errorf("%q is not named: %+v", under+name, report.Quarantined)
			}
		}
		settled(t, d, "", dir)
	}
}

// A runtimeDocument is a runtime.json as the original reads it.
type runtimeDocument struct {
	SchemaVersion      uint32                      `json:"schema_version"`
	RuntimeID          workers.RuntimeID           `json:"runtime_id"`
	DisplayName        *string                     `json:"display_name"`
	Backend            string                      `json:"backend" serde:"memory|fs_store"`
	Status             workers.RuntimeStatus       `json:"status" serde:"running|stopped"`
	Limits             workers.RuntimeLimits       `json:"limits"`
	NextWorkerSequence uint64                      `json:"next_worker_sequence"`
	NextEventID        uint64                      `json:"next_event_id"`
	NextDiagnosticID   uint64                      `json:"next_diagnostic_id"`
	Diagnostics        []workers.RuntimeDiagnostic `json:"diagnostics"`
}

// readRuntimeDocument fails the test where the original refuses a runtime.json.
func readRuntimeDocument(t *testing.T, text string) (s runtimeDocument) {
	t.Helper()
	err := workers.ParseRecord([]byte(text), &s)
	if err != nil || s.SchemaVersion != 1 || s.Backend != "fs_store" {
		t.Errorf("the original refuses %+v: %v", s, err)
	}
	return s
}
