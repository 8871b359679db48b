package legacy

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/workers"
)

// Files as later versions of the worker runtime write them.

const (
	laterBundles = `"config_bundles":{"b":{"metadata":{"id":"b","digest":"00"}}}`
	// With runtimes/, bundles and executions; the transcript is still there.
	laterRuntime = `{"schema_version":1,"runtime_id":"r","display_name":"old","backend":"fs_store","status":"running",` +
		`"limits":{"max_transcript_projection_items":2,"max_event_batch_items":2},"next_worker_sequence":4,"next_event_id":4,"next_diagnostic_id":1,` +
		laterBundles + `,"diagnostics":[]}` + "\n"
	// The folder is the runtime, and workers are numbers.
	aloneRuntime = `{"schema_version":1,"display_name":null,"backend":"fs_store","status":"running","limits":{"max_event_batch_items":256},` +
		`"next_worker_sequence":3,"next_event_id":5,"next_diagnostic_id":2,` + laterBundles +
		`,"diagnostics":[{"id":1,"severity":"warning","code":"worker_snapshot_ignored","message":"ignored","worker_ref":{"worker_id":1}}]}` + "\n"
	// The last that is known: no counters, no log.
	latestRuntime = `{"schema_version":7,"display_name":null,"backend":"fs_store","status":"running","next_diagnostic_id":1,"config_bundles":{},` +
		`"workspace_owners":{"w":"o"},"diagnostics":[]}` + "\n"

	startedEvent = `{"id":1,"kind":{"kind":"runtime_started"},"message":"runtime started"}` + "\n"
)

// laterWorker is a worker.json whose request has no intent.
func laterWorker(ref, id, more string) string {
	return fmt.Sprintf(`{"schema_version":1,"worker_ref":%s,"worker_id":%s,"request":{"profile":{"kind":"named","value":"p"},`+
		`"config_bundle":{"id":"b","digest":"00"},"initial_input":{"kind":"user","content":"go"}},"execution":{"backend":"connected"}%s}`+"\n", ref, id, more)
}

func observationLine(sequence int) string {
	return fmt.Sprintf(`{"cursor":"wo_%016x","event_id":"wo_%016x","sequence":%d,"worker_ref":{"worker_id":1},"payload":{"event":"text_delta"}}`+"\n", sequence, sequence, sequence)
}

func importLater(t *testing.T, d *db.DB, scope, dir string) Report {
	t.Helper()
	report, err := Import(context.Background(), d, Workers, dir, Options{Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range report.Counts {
		if c.Read != c.New+c.Already+c.Changed+c.Quarantined {
			t.Errorf("the counts of %s don't add up: %+v", kind, c)
		}
	}
	return report
}

// settled expects a second import and a verification to find nothing new.
func settled(t *testing.T, d *db.DB, scope, dir string) {
	t.Helper()
	again := importLater(t, d, scope, dir)
	verified, err := Verify(context.Background(), d, Workers, dir, Options{Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Report{"a second import": again, "verify": verified} {
		for kind, c := range r.Counts {
			if c.New+c.Changed > 0 {
				t.Errorf("%s finds %+v %s", name, c, kind)
			}
		}
		if len(r.Differs) > 0 {
			t.Errorf("%s: %+v", name, r.Differs)
		}
	}
}

func exportedWorkers(t *testing.T, d *db.DB, scope string) (dir string, files folder) {
	t.Helper()
	dir, files = filepath.Join(t.TempDir(), "out"), folder{}
	if _, err := Export(context.Background(), d, Workers, dir, Options{Scope: scope}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, files
}

func openWorkers(t *testing.T, d *db.DB, id workers.RuntimeID) *workers.Runtime {
	t.Helper()
	r, err := workers.Open(context.Background(), d, workers.RuntimeOptions{RuntimeID: id, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantWorkers compares the workers as "id status profile bundle".
func wantWorkers(t *testing.T, r *workers.Runtime, want ...string) {
	t.Helper()
	list, err := r.ListWorkers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range list {
		got = append(got, fmt.Sprintf("%s %s %s %v", w.WorkerID, w.Status, w.Profile.Value, w.HasConfigBundle))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the workers are %q, want %q", got, want)
	}
}

// wantNote expects exactly one diagnostic about a later version, with these words, and no error.
func wantNote(t *testing.T, r *workers.Runtime, words ...string) {
	t.Helper()
	list, err := r.Diagnostics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, d := range list {
		switch {
		case d.Code == "import.later_version" && d.Severity == "info":
			notes = append(notes, d.Message)
		case d.Severity == "error":
			t.Errorf("a fault: %s: %s", d.Code, d.Message)
		}
	}
	if len(notes) != 1 {
		t.Fatalf("the notes are %q", notes)
	}
	for _, word := range words {
		if !strings.Contains(notes[0], word) {
			t.Errorf("the note does not name %s: %s", word, notes[0])
		}
	}
}

func TestImport_LaterWorkersLeaveAsTheyCame(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	first, second := at+"workers/"+idName("worker-00000001")+"/", at+"workers/"+idName("worker-00000002")+"/"
	files := folder{
		at + "runtime.json": laterRuntime,
		at + "events.jsonl": startedEvent + `{"id":3,"worker_ref":{"runtime_id":"r","worker_id":"worker-00000003"},"kind":{"kind":"worker_deleted"},"message":"gone"}` + "\n",
		first + "worker.json": laterWorker(`{"runtime_id":"r","worker_id":"worker-00000001"}`, `"worker-00000001"`,
			`,"status":"stopped","next_transcript_sequence":2,"last_event_id":2`),
		first + "transcript.jsonl": `{"sequence":1,"worker_ref":{"runtime_id":"r","worker_id":"worker-00000001"},"role":"user","content":"go","event_id":2}` + "\n",
		second + "worker.json": laterWorker(`{"runtime_id":"r","worker_id":"worker-00000002"}`,
			`"worker-00000002"`, `,"status":"idle"`),
	}
	dir := t.TempDir()
	files.below(t, dir)
	d := emptyFile(t)
	report := importLater(t, d, "", dir)
	if len(report.Quarantined) > 0 || report.Counts["worker"].New != 2 || report.Counts["event"].New != 2 ||
		report.Counts["entry"].New != 1 {
		t.Errorf("%+v %+v", report.Counts, report.Quarantined)
	}
	r := openWorkers(t, d, "r")
	wantWorkers(t, r, "worker-00000001 stopped p true", "worker-00000002 running p true")
	wantNote(t, r, "request.intent", "status", "config_bundles", "execution", "request.initial_input",
		"worker_deleted")
	settled(t, d, "", dir)
	out, exported := exportedWorkers(t, d, "")
	want := maps.Clone(files)
	want[second+"transcript.jsonl"] = ""
	sameFiles(t, "the export", want, exported)
	settled(t, d, "", out)

	// What is changed here leaves as the original reads it.
	ref := workers.NewWorkerRef("r", "worker-00000002")
	if _, err := r.StopWorker(context.Background(), ref, nil); err != nil {
		t.Fatal(err)
	}
	_, exported = exportedWorkers(t, d, "")
	var s struct {
		SchemaVersion          uint32                      `json:"schema_version"`
		WorkerRef              workers.WorkerRef           `json:"worker_ref"`
		WorkerID               workers.WorkerID            `json:"worker_id"`
		Status                 workers.WorkerStatus        `json:"status" serde:"running|stopped|cancelled"`
		Request                workers.CreateWorkerRequest `json:"request"`
		NextTranscriptSequence uint64                      `json:"next_transcript_sequence"`
		LastEventID            uint64                      `json:"last_event_id"`
	}
	err := workers.ParseRecord([]byte(exported[second+"worker.json"]), &s)
	if err != nil || s.SchemaVersion != 1 || s.Status != "stopped" || s.WorkerID != "worker-00000002" ||
		s.WorkerRef.WorkerID != s.WorkerID {
		t.Errorf("%+v, %v", s, err)
	}
	readRuntimeDocument(t, exported[at+"runtime.json"])
	for path, words := range map[string][]string{second +
		"worker.json": {"initial_input", "execution", "digest"}, at + "runtime.json": {"config_bundles"}} {
		for _, word := range words {
			if !strings.Contains(exported[path], word) {
				t.Errorf("%s has lost %s", path, word)
			}
		}
	}
}

func TestLines_LaterAdditionsAreToldAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	files := folder{
		"runtime.json": aloneRuntime,
		"events.jsonl": strings.Replace(startedEvent, `{"id":1`, `{"at":"today","id":1`, 1),
		"workers/1/worker.json": laterWorker(`{"worker_id":1}`, "1",
			`,"status":"stopped","next_transcript_sequence":2`),
		"workers/1/transcript.jsonl": `{"sequence":1,"worker_ref":{"worker_id":1},"role":"user","content":"go","event_id":1,"tokens":{"in":7}}` + "\n",
	}
	files.below(t, dir)
	d := emptyFile(t)
	if report := importLater(t, d, "", dir); len(report.Quarantined) > 0 || report.Counts["entry"].New != 1 {
		t.Errorf("%+v %+v", report.Counts, report.Quarantined)
	}
	wantNote(t, openWorkers(t, d, "store"), "some events also have at,", "some entries also have tokens,")
	settled(t, d, "", dir)
	out, exported := exportedWorkers(t, d, "")
	at := "runtimes/" + idName("store") + "/"
	sameFiles(t, "the export", folder{
		at + "runtime.json": files["runtime.json"], at + "events.jsonl": files["events.jsonl"],
		at + "workers/id-31/worker.json":      files["workers/1/worker.json"],
		at + "workers/id-31/transcript.jsonl": files["workers/1/transcript.jsonl"],
	}, exported)
	settled(t, d, "", out)
}

func TestImport_SkipsAndKeepsBadLaterWorker(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	dir := t.TempDir()
	folder{
		at + "runtime.json":                 laterRuntime,
		at + "events.jsonl":                 startedEvent,
		at + "workers/bad/worker.json":      `{"schema_version":`,
		at + "workers/bad/transcript.jsonl": "what is this?\n",
		at + "workers/" + idName("7") + "/worker.json": laterWorker(`{"runtime_id":"r","worker_id":7}`, "7",
			`,"status":"cancelled"`),
	}.below(t, dir)
	d := emptyFile(t)
	importLater(t, d, "", dir)
	wantWorkers(t, openWorkers(t, d, "r"), "7 cancelled p true")
	folder := idName("r") + "/workers/bad/"
	wantQuarantine(t, d, "", "file "+folder+"worker.json@0: {\"schema_version\":",
		"file "+folder+"transcript.jsonl@0: what is this?\n")
	settled(t, d, "", dir)
}

func TestAFolderThatIsTheRuntimeIsTaken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	observations := observationLine(1) + observationLine(2)
	files := folder{
		"runtime.json": aloneRuntime,
		"events.jsonl": startedEvent + `{"id":2,"worker_ref":{"worker_id":1},"kind":{"kind":"worker_created"},"message":"m"}` + "\n" +
			`{"id":3,"worker_ref":{"worker_id":1},"kind":{"kind":"worker_cancelled"},"message":"m"}` + "\n" +
			`{"id":4,"worker_ref":{"worker_id":9},"kind":{"kind":"worker_deleted"},"message":"m"}` + "\n",
		"workers/1/worker.json":        laterWorker(`{"worker_id":1}`, "1", ""), // it has no status either
		"workers/1/observations.jsonl": observations,
		"workers/2/worker.json": laterWorker(`{"worker_id":2}`, "2",
			`,"status":"running","last_event_id":1`),
		"workers/2/observations.jsonl":   "",
		"workers/2/.worker.json.tmp-1-1": "{",
	}
	files.below(t, dir)
	found, err := Recognise(filepath.Dir(dir), Options{})
	if err != nil || len(found) != 1 || found[0].Kind != "workers" || found[0].Dir != dir {
		t.Fatalf("auto sees %+v, %v", found, err)
	}
	d := emptyFile(t)
	report := importLater(t, d, "", dir)
	if c := report.Counts; c["worker"].New != 2 || c["event"].New != 4 || c["runtime"].New != 1 ||
		c["observation"] != (Count{Read: 2, Quarantined: 2}) {
		t.Errorf("%+v", c)
	}
	if len(report.Ignored) != 1 || report.Ignored[0].File != "./workers/2/.worker.json.tmp-1-1" {
		t.Errorf("ignored are %+v", report.Ignored)
	}
	wantQuarantine(t, d, "", "file ./workers/1/observations.jsonl@0: "+observations)
	r := openWorkers(t, d, "store")
	wantWorkers(t, r, "1 cancelled p true", "2 running p true")
	wantNote(t, r, "the folder for itself", "runtime_id", "limits.max_transcript_projection_items",
		"next_transcript_sequence", "status", "1 observations.jsonl", "worker_deleted")
	cursor, err := r.EventCursorFromStart(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	batch, err := r.ReadEvents(context.Background(), cursor, 10)
	if err != nil || len(batch.Events) != 4 ||
		*batch.Events[1].WorkerRef != workers.NewWorkerRef("store", "1") ||
		*batch.Events[3].WorkerRef != workers.NewWorkerRef("store", "9") {
		t.Errorf("%+v, %v", batch.Events, err)
	}
	diagnostics, err := r.Diagnostics(context.Background())
	if err != nil || diagnostics[0].WorkerRef == nil ||
		*diagnostics[0].WorkerRef != workers.NewWorkerRef("store", "1") {
		t.Errorf("%+v, %v", diagnostics, err)
	}
	settled(t, d, "", dir)
	out, exported := exportedWorkers(t, d, "")
	at := "runtimes/" + idName("store") + "/"
	sameFiles(t, "the export", folder{
		at + "runtime.json": files["runtime.json"], at + "events.jsonl": files["events.jsonl"],
		at + "workers/id-31/worker.json": files["workers/1/worker.json"], at + "workers/id-31/transcript.jsonl": "",
		at + "workers/id-32/worker.json": files["workers/2/worker.json"], at + "workers/id-32/transcript.jsonl": "",
	}, exported)
	settled(t, d, "", out)

	// The source goes on.
	observations += observationLine(3)
	folder{"workers/1/observations.jsonl": observations}.below(t, dir)
	importLater(t, d, "", dir)
	wantQuarantine(t, d, "", "file ./workers/1/observations.jsonl@0: "+observations)
	settled(t, d, "", dir)
}

func TestTheLatestKnownVersionIsTaken(t *testing.T) {
	const id = "0198c5aa-7b1c-7e97-8000-0123456789ab"
	dir := filepath.Join(t.TempDir(), "store")
	folder{
		"runtime.json": latestRuntime,
		"workers/" + id + "/worker.json": strings.Replace(laterWorker(`{"worker_id":"`+id+`"}`, `"`+id+`"`,
			`,"status":"stopped","workspace_id":"w","working_directory":{"summary":{}}`), `"schema_version":1`,
			`"schema_version":7`, 1),
		"workers/" + id + "/metadata.json":        `{"worker_name":"n"}`,
		"workers/" + id + "/session/history.json": "[]",
	}.below(t, dir)
	d := emptyFile(t)
	report := importLater(t, d, "", dir)
	if c := report.Counts; c["worker"].New != 1 || c["event"].Read != 0 ||
		c["metadata"] != (Count{Read: 1, Quarantined: 1}) {
		t.Errorf("%+v", c)
	}
	if len(report.Ignored) != 1 || report.Ignored[0].File != "./workers/"+id+"/session" {
		t.Errorf("ignored are %+v", report.Ignored)
	}
	r := openWorkers(t, d, "store")
	wantWorkers(t, r, id+" stopped p true")
	wantNote(t, r, "next_event_id", "workspace_owners", "working_directory", "1 metadata.json")
	wantQuarantine(t, d, "", "file ./workers/"+id+`/metadata.json@0: {"worker_name":"n"}`)
	settled(t, d, "", dir)
}

// TestAFolderThatALaterVersionTookOver has what the one before left: folders named in hex,
// transcripts, references that name the runtime as it was called, and runtimes that were not moved.
func TestAFolderThatALaterVersionTookOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	left := "runtimes/" + idName("left") + "/runtime.json"
	entry := `{"sequence":1,"worker_ref":{"runtime_id":"r","worker_id":"worker-00000001"},"role":"user","content":"go","event_id":2}` + "\n"
	stale := laterWorker(`{"runtime_id":"r","worker_id":1}`, "1", `,"status":"stopped"`)
	folder{
		"runtime.json": aloneRuntime,
		"events.jsonl": startedEvent + `{"id":2,"worker_ref":{"runtime_id":"r","worker_id":1},"kind":{"kind":"worker_created"},"message":"m"}` + "\n",
		"workers/" + idName("worker-00000001") +
			"/worker.json": laterWorker(`{"runtime_id":"r","worker_id":"worker-00000001"}`, `"worker-00000001"`,
			`,"status":"running","next_transcript_sequence":2`),
		"workers/" + idName("worker-00000001") + "/transcript.jsonl": entry,
		"workers/id-31/worker.json":                                  stale,
		"workers/1/worker.json": laterWorker(`{"worker_id":1}`, "1",
			`,"status":"running"`),
		left: laterRuntime,
	}.below(t, dir)
	d := emptyFile(t)
	report := importLater(t, d, "", dir)
	if report.Counts["entry"].New != 1 || report.Counts["worker"].New != 2 {
		t.Errorf("%+v", report.Counts)
	}
	wantQuarantine(t, d, "", "file runtimes@0: ", "conflict ./workers/id-31/worker.json@0: "+stale)
	for _, q := range report.Quarantined {
		if q.File == "runtimes" && !strings.Contains(q.Reason, filepath.Join(dir, "runtimes")) {
			t.Errorf("it is not said what to import: %s", q.Reason)
		}
	}
	wantWorkers(t, openWorkers(t, d, "store"), "1 running p true", "worker-00000001 running p true")
	settled(t, d, "", dir)
	if report := importLater(t, d, "", filepath.Join(dir, "runtimes")); report.Counts["runtime"].New != 1 {
		t.Errorf("%+v", report.Counts)
	}
}

func TestImport_UnreadableRuntimeFolderIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	folder{
		"runtime.json":          "{\"backend\":",
		"workers/1/worker.json": laterWorker(`{"worker_id":1}`, "1", ""),
	}.below(t, dir)
	if _, ok, err := recognised(Workers, dir); ok || err != nil {
		t.Errorf("auto sees it: %v", err)
	}
	d := emptyFile(t)
	importLater(t, d, "", dir)
	wantWorkers(t, openWorkers(t, d, "store"), "1 running p true")
	wantQuarantine(t, d, "", "file ./runtime.json@0: {\"backend\":", "file ./events.jsonl@0: ")
	settled(t, d, "", dir)
}

func TestExport_SecondEqualRuntimeKeepsItsOwn(t *testing.T) {
	d := emptyFile(t)
	files := folder{
		"runtime.json": aloneRuntime, "events.jsonl": startedEvent,
		"workers/1/worker.json": laterWorker(`{"worker_id":1}`, "1", ""),
	}
	for _, more := range []folder{{}, {"workers/1/observations.jsonl": observationLine(1)}} {
		dir := filepath.Join(t.TempDir(), "store")
		files.below(t, dir)
		more.below(t, dir)
		importLater(t, d, "", dir)
		settled(t, d, "", dir)
	}
	wantQuarantine(t, d, "", "file ./workers/1/observations.jsonl@0: "+observationLine(1))
}

// Only its folder tells what it is: it has no name, and nothing that later versions alone write.
func TestExport_NamelessRuntimeGetsItsName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	folder{
		"runtime.json": strings.Replace(aloneRuntime, laterBundles+",", "", 1), "events.jsonl": startedEvent,
	}.below(t, dir)
	d := emptyFile(t)
	if report := importLater(t, d, "", dir); len(report.Quarantined) > 0 {
		t.Errorf("in quarantine: %+v", report.Quarantined)
	}
	settled(t, d, "", dir)
	out, exported := exportedWorkers(t, d, "")
	s := readRuntimeDocument(t, exported["runtimes/"+idName("store")+"/runtime.json"])
	if s.RuntimeID != "store" {
		t.Errorf("%+v", s)
	}
	back := emptyFile(t)
	if report := importLater(t, back, "", out); len(report.Quarantined) > 0 {
		t.Errorf("of the export in quarantine: %+v", report.Quarantined)
	}
}
