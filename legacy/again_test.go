package legacy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// damaged are trees of each kind in which something can't be read.
func damaged() map[Kind]folder {
	at := "runtimes/" + idName("r") + "/"
	record := `{"snapshot":{"id":"run-1","session_id":"web-1","status":"completed","prompt":"p","created_at_ms":1,"updated_at_ms":1,"event_count":0},"events":[]}`
	return map[Kind]folder{
		Runs: {
			"runs/a/bad.jsonl":   startedLine("a", "bad") + "{no record\n" + turnLine(0),
			"runs/a/torn.jsonl":  startedLine("a", "torn") + `{"kind":"tu`,
			"runs/a/whole.jsonl": startedLine("a", "whole") + turnLine(0) + endedLine("a", "whole"),
		},
		Agents:      {"agents/bad.toml": "no = entry"},
		Checkpoints: {"r-1.json": "{torn"},
		Workers:     {at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent + "{no event\n"},
		Live:        {"runs/web-1.json": "[" + record + `,{"snapshot":7}]`},
	}
}

func TestImport_ReportsQuarantineEachTime(t *testing.T) {
	for kind, files := range damaged() {
		dir := t.TempDir()
		files.below(t, dir)
		d := emptyFile(t)
		var first Report
		for i := range 3 {
			report, err := Import(context.Background(), d, kind, dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = report
			}
			if len(report.Quarantined) == 0 || !slices.EqualFunc(report.Quarantined, first.Quarantined,
				func(a, b Quarantined) bool { return a.ID == b.ID }) {
				t.Errorf("%s, import %d: in quarantine are %+v, at first %+v", kind, i+1, report.Quarantined,
					first.Quarantined)
			}
			for noun, c := range report.Counts {
				if c.Quarantined != first.Counts[noun].Quarantined || c.Read != c.New+c.Already+c.Changed+c.Quarantined {
					t.Errorf("%s, import %d: of %s %+v, at first %+v", kind, i+1, noun, c, first.Counts[noun])
				}
			}
		}
	}
}

func TestAVerificationSaysWhatIsInQuarantine(t *testing.T) {
	trees := damaged()
	trees[Checkpoints]["r-2.json"] = `{"run_id":"r-2"}` // which its program can't read
	for kind, files := range trees {
		dir := t.TempDir()
		files.below(t, dir)
		d := emptyFile(t)
		imported, err := Import(context.Background(), d, kind, dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		verified, err := Verify(context.Background(), d, kind, dir, Options{})
		if err != nil || !slices.EqualFunc(verified.Quarantined, imported.Quarantined,
			func(a, b Quarantined) bool { return a.ID == b.ID }) {
			t.Errorf("%s: the verification names %+v, the import %+v, %v", kind, verified.Quarantined,
				imported.Quarantined, err)
		}
	}
}

func TestImport_StoppedReportsQuarantine(t *testing.T) {
	dir := t.TempDir()
	damaged()[Runs].below(t, dir)
	whole, err := Import(context.Background(), emptyFile(t), Runs, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := emptyFile(t)
	for stops := 0; ; stops++ {
		ctx, stop := context.WithCancel(context.Background())
		report, err := Import(ctx, d, Runs, dir, Options{BatchBytes: 1, Progress: func(p Progress) {
			if p.Bytes > 0 && stops < 3 {
				stop()
			}
		}})
		stop()
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			continue
		}
		if stops == 0 || len(report.Quarantined) != len(whole.Quarantined) {
			t.Errorf("after %d stops %+v, want %+v", stops, report.Quarantined, whole.Quarantined)
		}
		break
	}
}

func TestImport_SecondOfFolderIsBusy(t *testing.T) {
	dir := folder{"a/r.jsonl": startedLine("a", "r") + turnLine(0)}.make(t)
	path := dbtest.Path(t)
	d, other := dbtest.OpenAt(t, path, db.Options{}), dbtest.OpenAt(t, path, db.Options{})
	var second error
	looked := false
	_, err := Import(context.Background(), d, Runs, dir, Options{Progress: func(p Progress) {
		if p.Bytes > 0 {
			_, second = Import(context.Background(), other, Runs, dir,
				Options{Progress: func(Progress) { looked = true }})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if looked {
		t.Error("the second import looked at the whole tree first")
	}
	busy, ok := errors.AsType[*db.Error](second)
	if !ok || !errors.Is(second, db.ErrBusy) || !slices.Equal(busy.HeldBy, []int{os.Getpid()}) {
		t.Errorf("the second import: %v", second)
	}
	report, err := Import(context.Background(), other, Runs, dir, Options{})
	if err != nil || report.Files.Already != 1 {
		t.Errorf("once the first had ended: %+v, %v", report, err)
	}
	ended, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Import(ended, d, Runs, dir, Options{}); err == nil {
		t.Error("an ended context imported")
	}
	if _, err := Import(context.Background(), other, Runs, dir, Options{}); err != nil {
		t.Errorf("after an import that was stopped: %v", err)
	}
}

func TestImport_WithoutItsLeaseWritesNoMore(t *testing.T) {
	dir := folder{"a/r.jsonl": startedLine("a", "r"), "b/s.jsonl": startedLine("b", "s")}.make(t)
	ctx, d := context.Background(), emptyFile(t)
	told := false
	_, err := Import(ctx, d, Runs, dir, Options{BatchBytes: 1, Progress: func(p Progress) {
		if p.Files == 0 || told {
			return
		}
		told = true
		if err := d.Write(ctx, "take the folder away", func(tx *db.Tx) error {
			_, err := tx.Exec(`DELETE FROM leases`)
			return err
		}); err != nil {
			t.Error(err)
		}
	}})
	if !errors.Is(err, db.ErrLeaseLost) || db.Hint(err) == "" {
		t.Errorf("it ended with %v", err)
	}
	wantNames(t, d, "", "a/r")
}

func TestACopyOfAWorkersFolderNeverWins(t *testing.T) {
	at := "runtimes/" + idName("r") + "/"
	real, copied := at+"workers/"+idName("worker-00000001")+"/worker.json",
		at+"workers/"+idName("a copy")+"/worker.json"
	worker := func(more string) string {
		return laterWorker(`{"runtime_id":"r","worker_id":"worker-00000001"}`, `"worker-00000001"`, more)
	}
	dir := t.TempDir()
	files := folder{
		at + "runtime.json": laterRuntime, at + "events.jsonl": startedEvent,
		real: worker(`,"status":"completed"`), copied: worker(`,"status":"cancelled"`),
	}
	files.below(t, dir)
	if copied > real {
		t.Fatal("the copy comes second")
	}
	d := emptyFile(t)
	report := importLater(t, d, "", dir)
	if !slices.ContainsFunc(report.Quarantined,
		func(q Quarantined) bool { return filepath.Join("runtimes", q.File) == copied && q.What == "conflict" }) ||
		slices.ContainsFunc(report.Quarantined, func(q Quarantined) bool {
			return strings.HasPrefix("runtimes/"+q.File, filepath.Dir(real)) && q.What == "conflict"
		}) {
		t.Errorf("in quarantine: %+v", report.Quarantined)
	}
	if _, out := exportedWorkers(t, d, ""); out[real] != files[real] {
		t.Errorf("the worker leaves as %s", out[real])
	}
}

func TestImport_ReadableAgentsFolderLeavesQuarantine(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	dir := folder{"a/r.jsonl": startedLine("a", "r"), "b/r.jsonl": startedLine("b", "r")}.make(t)
	importInto(t, d, "", dir)
	if err := os.Mkdir(filepath.Join(dir, "runs/b/s.jsonl"), 0o700); err != nil { // a run that stays unreadable
		t.Fatal(err)
	}
	err := d.Write(ctx, "test", func(tx *db.Tx) error { // as an import says it that may not list the folder
		_, err := tx.Exec(`INSERT INTO quarantine (scope, source, path, byte_offset, what, reason, found_at, bytes)
SELECT scope, id, x'61', 0, 'file', 'can''t be read: permission denied', 1, 0 FROM import_sources`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	importInto(t, d, "", dir)
	if left := inQuarantine(t, d, ""); !slices.Equal(left, []string{"file b/s.jsonl@0: "}) {
		t.Errorf("in quarantine: %q", left)
	}
}
