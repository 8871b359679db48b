package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/runs/live"
	"selvedge/workers"
)

func retried(t *testing.T, d *db.DB, id int64) Retried {
	t.Helper()
	r, err := RetryQuarantine(context.Background(), d, id, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRetry_FreedIDReturnsToItsPlace(t *testing.T) {
	ctx := context.Background()
	for _, form := range []string{"[%,%,%]", "[%, %,\n %]\n", "[\n  %,\n  %,\n  %\n]"} {
		d, first, dir := emptyFile(t), t.TempDir(), t.TempDir()
		folder{"runs/web-1.json": "[" + liveRecord("run-2", "web-1", "here") + "]"}.below(t, first)
		text := form
		for _, run := range []string{"run-1", "run-2", "run-3"} {
			record := liveRecord(run, "web-1", "there")
			if strings.HasSuffix(form, "\n]") { // as the old program writes it
				var indented bytes.Buffer
				if err := json.Indent(&indented, []byte(record), "  ", "  "); err != nil {
					t.Fatal(err)
				}
				record = indented.String()
			}
			text = strings.Replace(text, "%", record, 1)
		}
		tree := folder{"runs/web-1.json": text}
		tree.below(t, dir)
		importLive(t, d, "", first)
		report := importLive(t, d, "", dir)
		if len(report.Quarantined) != 1 || report.Quarantined[0].What != "conflict" {
			t.Fatalf("%+v", report.Quarantined)
		}
		q := report.Quarantined[0]
		if r := retried(t, d, q.ID); r.Taken || r.Reason != q.Reason {
			t.Errorf("while the id is taken: %+v", r)
		}
		if n := len(selected[int64](t, d, `SELECT id FROM imports`)); n != 2 {
			t.Errorf("%d imports in the journal after a retry that did nothing", n)
		}
		if err := live.NewStore(d, live.Options{}).Delete(ctx, "run-2"); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if r := retried(t, d, q.ID); !r.Taken {
			t.Errorf("%+v", r)
		}
		wantQuarantine(t, d, "")
		out := filepath.Join(t.TempDir(), "out")
		if _, err := Export(ctx, d, Live, out, Options{}); err != nil {
			t.Fatal(err)
		}
		exported, err := os.ReadFile(filepath.Join(out, "runs/web-1.json"))
		if err != nil || !inOrder(string(exported), `"run-1"`, `"run-2"`, `"run-3"`) {
			t.Errorf("exported is %s, %v", exported, err)
		}
		tree.below(t, dir)
		report, err = Import(ctx, d, Live, dir, Options{OtherFolder: true}) // the folder was made anew
		if err != nil || report.Partial() || report.Counts["run"] != (Count{Read: 3, Already: 3}) {
			t.Errorf("imported again: %+v", report)
		}
		if report := verified(t, d, Live, dir); report.Partial() {
			t.Errorf("%s: %+v", report.Proof.Line, report.Differs)
		}
	}
}

func inOrder(text string, parts ...string) bool {
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// A newer program reads what was kept: here what is kept becomes something that this one reads.
func TestWhatANewerProgramReadsOfASessionIsTaken(t *testing.T) {
	for _, c := range []struct {
		file, kept string
		runs       int64
	}{
		{"[" + liveRecord("run-1", "web-1", "p") + `,{"snapshot":7}]`, liveRecord("run-2", "web-1", "p"), 2},
		{"sealed", "[" + liveRecord("run-2", "web-1", "p") + "]", 1},
		{"[" + liveRecord("run-1", "web-1", "p") + `,{"snap`, `,` + liveRecord("run-2", "web-1", "p") + "]", 0},
	} {
		d, dir := emptyFile(t), t.TempDir()
		folder{"runs/web-1.json": c.file}.below(t, dir)
		report := importLive(t, d, "", dir)
		if len(report.Quarantined) != 1 {
			t.Fatalf("%+v", report.Quarantined)
		}
		q := report.Quarantined[0]
		if r := retried(t, d, q.ID); r.Taken || r.Reason == "" {
			t.Errorf("%s: %+v", c.file, r)
		}
		err := d.Write(context.Background(), "keep other bytes", func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE quarantine_parts SET raw = ?, checksum = NULL WHERE quarantine = ?`,
				[]byte(c.kept), q.ID); err != nil {
				return err
			}
			_, err := tx.Exec(`UPDATE quarantine SET bytes = ? WHERE id = ?`, len(c.kept), q.ID)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		r := retried(t, d, q.ID)
		if r.Taken != (c.runs > 0) {
			t.Errorf("%s: %+v", c.file, r)
		}
		if !r.Taken {
			continue
		}
		wantQuarantine(t, d, "")
		report = importLive(t, d, "", dir)
		if n := report.Counts["run"].Already; c.runs == 2 && (n != 2 || report.Partial()) {
			t.Errorf("%s: imported again: %+v", c.file, report)
		}
		page, err := live.NewStore(d, live.Options{}).Page(context.Background(), live.Filter{}, db.At{})
		if err != nil || int64(len(page.Items)) != c.runs {
			t.Errorf("%s: %d runs are here, %v", c.file, len(page.Items), err)
		}
	}
}

func TestARuntimeWhoseIdIsFreeAgainIsTaken(t *testing.T) {
	ctx, at := context.Background(), "runtimes/"+idName("r")+"/"
	for _, retry := range []bool{true, false} {
		d, first, dir := emptyFile(t), t.TempDir(), t.TempDir()
		folder{at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent}.below(t, first)
		folder{at + "runtime.json": wholeRuntime(`,"x":1`), at + "events.jsonl": startedEvent}.below(t, dir)
		importLater(t, d, "", first)
		report := importLater(t, d, "", dir)
		if len(report.Quarantined) != 1 || report.Quarantined[0].What != "conflict" {
			t.Fatalf("%+v", report.Quarantined)
		}
		q := report.Quarantined[0]
		if r := retried(t, d, q.ID); r.Taken || r.Reason != q.Reason {
			t.Errorf("while the id is taken: %+v", r)
		}
		if still, err := ShowQuarantine(ctx, d, q.ID); err != nil || still.FoundAt != q.FoundAt {
			t.Errorf("%+v, %v", still, err)
		}
		if err := workers.NewRuntimes(d, "").Delete(ctx, "r"); err != nil {
			t.Fatal(err)
		}
		if retry {
			if r := retried(t, d, q.ID); !r.Taken {
				t.Errorf("%+v", r)
			}
		} else if report := importLater(t, d, "", dir); report.Partial() || report.Files.New != 2 {
			t.Errorf("imported again: %+v", report)
		}
		wantQuarantine(t, d, "")
		if report := verified(t, d, Workers, dir); !report.Proof.Whole {
			t.Errorf("%s: %+v", report.Proof.Line, report.Differs)
		}
	}
}

func TestRetry_RuntimePieceTakesItsFolder(t *testing.T) {
	ctx, at := context.Background(), "runtimes/"+idName("r")+"/"
	d, dir := emptyFile(t), t.TempDir()
	bad := folder{
		at + "runtime.json": wholeRuntime(""),
		at + "events.jsonl": startedEvent + "{no event\n{none either\n",
	}
	bad.below(t, dir)
	report := importLater(t, d, "", dir)
	if len(report.Quarantined) != 2 {
		t.Fatalf("%+v", report.Quarantined)
	}
	q, other := report.Quarantined[0], report.Quarantined[1]
	if r := retried(t, d, q.ID); r.Taken || r.Reason != q.Reason {
		t.Errorf("as it was: %+v", r)
	}
	// A newer program finds nothing wrong there any more.
	err := d.Write(ctx, "look as if it had been elsewhere", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE quarantine SET byte_offset = 7, checksum = NULL WHERE id = ?`, q.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := retried(t, d, q.ID); !r.Taken {
		t.Errorf("%+v", r)
	}
	if left := selected[int64](t, d, `SELECT id FROM quarantine`); len(left) != 2 ||
		!slices.Contains(left, other.ID) {
		t.Errorf("left are %v; %d is still wrong", left, other.ID)
	}
	if err := os.Rename(filepath.Join(dir, "runtimes"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if r := retried(t, d, other.ID); r.Taken || !strings.Contains(r.Reason, "folder") {
		t.Errorf("without its folder: %+v", r)
	}
	if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "runtimes")); err != nil {
		t.Fatal(err)
	}
	folder{at + "events.jsonl": startedEvent}.below(t, dir)
	if r := retried(t, d, other.ID); !r.Taken {
		t.Errorf("mended: %+v", r)
	}
	wantQuarantine(t, d, "")
	if report := verified(t, d, Workers, dir); !report.Proof.Whole {
		t.Errorf("%s: %+v", report.Proof.Line, report.Differs)
	}
}

func TestImport_WrittenRuntimeIsNotTakenAgain(t *testing.T) {
	d, dir := emptyFile(t), t.TempDir()
	damaged()[Workers].below(t, dir)
	q := importLater(t, d, "", dir).Quarantined[0]
	if _, err := openWorkers(t, d, "r").CreateWorker(context.Background(),
		workers.CreateWorkerRequest{}); err != nil {
		t.Fatal(err)
	}
	folder{"runtimes/" + idName("r") + "/events.jsonl": startedEvent}.below(t, dir)
	if r := retried(t, d, q.ID); r.Taken || !strings.Contains(r.Reason, "was written to") {
		t.Errorf("%+v", r)
	}
	if _, err := ShowQuarantine(context.Background(), d, q.ID); err != nil {
		t.Error(err)
	}
}

func TestExport_LaterFilesReturnBesideWorker(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	worker := at + "workers/" + idName("1") + "/"
	var observations strings.Builder
	for n := 1; observations.Len() < 5*tree.PartBytes/2; n++ { // kept in three parts
		observations.WriteString(observationLine(n))
	}
	files := folder{
		at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent,
		worker + "observations.jsonl": observations.String(), worker + "metadata.json": "{}",
		worker + "transcript.jsonl": "",
	}
	d, dir := emptyFile(t), t.TempDir()
	files.below(t, dir)
	importLater(t, d, "", dir)
	_, out := exportedWorkers(t, d, "")
	report, err := Export(context.Background(), d, Workers, filepath.Join(t.TempDir(), "again"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"observations.jsonl", "metadata.json"} {
		if out[worker+name] != files[worker+name] {
			t.Errorf("%s left as %.200q, want %.200q", name, out[worker+name], files[worker+name])
		}
		for _, r := range report.LeftOut {
			if strings.HasSuffix(r.File, name) {
				t.Errorf("left out: %+v", r)
			}
		}
	}
}

// What lies beside a runtime that has its folder for itself is no runtime of that tree.
func TestRetry_TakesOnlyWhatImportTakes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	folder{
		"runtime.json": aloneRuntime, "events.jsonl": startedEvent,
		"workers/1/worker.json":                     laterWorker(`{"worker_id":1}`, "1", ""),
		"runtimes/" + idName("r") + "/runtime.json": wholeRuntime(""),
		"runtimes/" + idName("r") + "/events.jsonl": startedEvent,
	}.below(t, dir)
	d := emptyFile(t)
	report := importLater(t, d, "", dir)
	if len(report.Quarantined) != 1 {
		t.Fatalf("%+v", report.Quarantined)
	}
	q := report.Quarantined[0]
	if r := retried(t, d, q.ID); r.Taken || r.Reason != q.Reason {
		t.Errorf("%+v", r)
	}
	if ids := selected[string](t, d, `SELECT runtime_id FROM worker_runtimes`); len(ids) != 1 ||
		ids[0] != "store" {
		t.Errorf("there are the runtimes %q", ids)
	}
}

// The original takes the last record of an id in a file: that it was deleted here brings no earlier one back.
func TestRetry_EarlierRecordOfIDIsRefused(t *testing.T) {
	ctx, d, dir := context.Background(), emptyFile(t), t.TempDir()
	folder{"runs/web-1.json": "[" + liveRecord("run-1", "web-1", "earlier") + "," +
		liveRecord("run-1", "web-1", "later") + "]"}.below(t, dir)
	report := importLive(t, d, "", dir)
	if len(report.Quarantined) != 1 {
		t.Fatalf("%+v", report.Quarantined)
	}
	q := report.Quarantined[0]
	if err := live.NewStore(d, live.Options{}).Delete(ctx, "run-1"); err != nil {
		t.Fatal(err)
	}
	if r := retried(t, d, q.ID); r.Taken || r.Reason != q.Reason {
		t.Errorf("%+v", r)
	}
	if ids := selected[string](t, d, `SELECT run_id FROM live_runs`); len(ids) != 0 {
		t.Errorf("there are the runs %q", ids)
	}
}

// Two files of a tree may hold the same run: what is taken late as such leaves in both.
func TestRetry_SameRecordLeavesInItsFile(t *testing.T) {
	ctx, d, dir := context.Background(), emptyFile(t), t.TempDir()
	first, second := folder{"runs/web-1.json": "[" + liveRecord("run-1", "web-1", "earlier") + "]"},
		"["+liveRecord("run-1", "web-1", "later")+"]"
	first.below(t, dir)
	folder{"runs/web-2.json": second}.below(t, dir)
	report := importLive(t, d, "", dir)
	if len(report.Quarantined) != 1 {
		t.Fatalf("%+v", report.Quarantined)
	}
	q := report.Quarantined[0]
	folder{"runs/web-1.json": second}.below(t, dir)
	importLive(t, d, "", dir)
	if r := retried(t, d, q.ID); !r.Taken {
		t.Fatalf("%+v", r)
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := Export(ctx, d, Live, out, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"runs/web-1.json", "runs/web-2.json"} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil ||
			!strings.Contains(string(text), `"later"`) {
			t.Errorf("%s left as %q, %v", name, text, err)
		}
	}
}

// A folder without a worker in it has the old program refuse the whole runtime.
func TestFilesOfALaterVersionMakeNoWorkersFolder(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	d, dir := emptyFile(t), t.TempDir()
	folder{
		at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent,
		at + "workers/1/worker.json":          laterWorker(`{"runtime_id":"r","worker_id":"1"}`, "1", ""),
		at + "workers/1/metadata.json":        "{}",
		at + "workers/bad/observations.jsonl": observationLine(1),
	}.below(t, dir)
	importLater(t, d, "", dir)
	_, out := exportedWorkers(t, d, "")
	report, err := Export(context.Background(), d, Workers, filepath.Join(t.TempDir(), "again"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name := range out {
		if below, ok := strings.CutPrefix(name, at+"workers/"); ok && !strings.HasPrefix(below, idName("1")+"/") {
			t.Errorf("%s is written", name)
		}
	}
	for _, name := range []string{"1/metadata.json", "bad/observations.jsonl"} {
		if !slices.ContainsFunc(report.LeftOut,
			func(f Remark) bool { return strings.HasSuffix(f.File, "workers/"+name) }) {
			t.Errorf("%s is not named: %+v", name, report.LeftOut)
		}
	}
}
