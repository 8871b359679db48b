package legacy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// reasonLeftOut is what an export says of a file.
func reasonLeftOut(r *Report, file string) string {
	for _, remark := range r.LeftOut {
		if remark.File == file {
			return remark.Reason
		}
	}
	return ""
}

func TestExport_NamesSessionOldProgramRefuses(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	store := live.NewStore(d, live.Options{})
	event, err := live.NewEvent([]byte(`{"type":"from_the_future","x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"s1", "s2"} {
		_, err := store.CreateRunWithID(ctx, "of "+session, session, "p")
		if err == nil && session == "s2" {
			_, _, err = store.RecordEvent(ctx, "of s2", event)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	report, err := Export(ctx, d, Live, out, Options{})
	if err != nil || !report.Partial() || len(report.Readable) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	text, err := os.ReadFile(filepath.Join(out, "runs/s2.json"))
	if err != nil {
		t.Fatal(err)
	}
	line := bytes.Count(text[:bytes.Index(text, []byte(`"from_the_future"`))], []byte("\n")) + 1
	for _, r := range report.Readable {
		if yes := r.File == "runs/s1.json"; r.Readable != yes || !yes && r.Line != line {
			t.Errorf("%+v, in line %d of\n%s", r, line, text)
		}
	}
	if reason := reasonLeftOut(&report, "runs/s2.json"); !strings.Contains(reason,
		"unknown variant `from_the_future`") {
		t.Errorf("%q", reason)
	}
}

func TestExport_NamesRuntimeOldProgramRefuses(t *testing.T) {
	ctx, dir, d := context.Background(), t.TempDir(), emptyFile(t)
	at := "runtimes/" + idName("r") + "/"
	folder{at + "runtime.json": wholeRuntime(""), at + "events.jsonl": startedEvent +
		`{"id":2,"kind":{"kind":"worker_deleted"},"message":"m"}` + "\n"}.below(t, dir)
	if _, err := Import(ctx, d, Workers, dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "other"}); err != nil {
		t.Fatal(err)
	}
	report, err := Export(ctx, d, Workers, filepath.Join(t.TempDir(), "out"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Readable {
		if bad := r.File == idName("r")+"/events.jsonl"; r.Readable == bad || bad && r.Line != 2 {
			t.Errorf("%+v", r)
		}
	}
	if reason := reasonLeftOut(&report, idName("r")+"/events.jsonl"); !strings.Contains(reason,
		"line 2: unknown variant `worker_deleted`") {
		t.Errorf("%q of %+v", reason, report.LeftOut)
	}
}

func TestExport_QuarantinedFileReturnsOrIsNamed(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	dir := t.TempDir()
	files := folder{
		"agents/whole.toml": wholeEntry, "agents/broken.toml": "session_id = ",
		"agents/empty.toml": "",
	}
	files.below(t, dir)
	if err := syscall.Mkfifo(filepath.Join(dir, "agents/pipe.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := t.TempDir() // a second tree, whose broken file has a name that is taken then
	folder{"agents/broken.toml": "thread = "}.below(t, second)
	for _, dir := range []string{dir, second} {
		if _, err := Import(ctx, d, Agents, dir, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	report, err := Export(ctx, d, Agents, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		if got, err := os.ReadFile(filepath.Join(out, path)); string(got) != text && text != "" {
			t.Errorf("%s left as %q, %v", path, got, err)
		}
	}
	taken := 0
	for _, r := range report.LeftOut {
		if r.File == "broken.toml" && strings.HasSuffix(r.Reason, "its file name is taken by another") {
			taken++
		}
	}
	if taken != 1 || !strings.Contains(reasonLeftOut(&report, "pipe.toml"), "is a pipe") ||
		reasonLeftOut(&report, "empty.toml") == "" {
		t.Errorf("%+v", report.LeftOut)
	}
}

// Bytes like those in quarantine are soon found in a file: those of a torn line begin the next one,
// those of an empty object are anywhere.
func TestDrop_LookalikeIsNoPiece(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		kind       Kind
		path, text string
		named      string
	}{
		"a torn line": {Runs, "runs/a/r.jsonl", `{"record":"turn",`, "a/r.jsonl"},
		"a line":      {Runs, "runs/a/r.jsonl", `{"record":"turn",` + "\n", "a/r.jsonl"},
		"an empty object": {
			Live, "runs/s.json", "[" + liveRecord("r1", "s", "p {} null") + ",{}]",
			"runs/s.json",
		},
		"nothing at all": {
			Live, "runs/s.json", "[" + liveRecord("r1", "s", "p {} null") + ",null]",
			"runs/s.json",
		},
		"a document's part": {Live, "runs/s.json", "[" + liveRecord("r1", "s", "p") + ",{", "runs/s.json"},
	} {
		d, dir := emptyFile(t), t.TempDir()
		folder{c.path: c.text}.below(t, dir)
		if _, err := Import(ctx, d, c.kind, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		if c.kind == Runs { // another run of that name
			store := runs.NewStore(d, runs.Options{})
			if err := store.Delete(ctx, runs.RunRef{AgentID: "a", RunID: "r"}); err != nil {
				t.Fatal(err)
			}
			if err := store.AppendTurns(ctx, "a", "r", []runs.Turn{{Index: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		report, err := Export(ctx, d, c.kind, filepath.Join(t.TempDir(), "out"), Options{})
		if err != nil || !strings.HasPrefix(reasonLeftOut(&report, c.named), "is in quarantine, row ") {
			t.Errorf("%s: %+v, %v", name, report.LeftOut, err)
		}
	}
}

func TestExport_TornLineBeforeRunContinuesReturns(t *testing.T) {
	for name, text := range map[string]string{
		"in a file": startedLine("a", "r") + `{"record":"turn",`,
		"alone":     `{"record":"turn",`,
	} {
		for _, goesOn := range []bool{false, true} {
			d := emptyFile(t)
			importInto(t, d, "", folder{"a/r.jsonl": text}.make(t))
			if goesOn {
				write(t, d, "a", "r", runs.Turn{Index: 1})
			}
			report, err := Export(context.Background(), d, Runs, filepath.Join(t.TempDir(), "out"), Options{})
			if err != nil || len(report.LeftOut) > 0 {
				t.Errorf("%s, goes on %v: %+v, %v", name, goesOn, report.LeftOut, err)
			}
		}
	}
}

// manyRuns is a file with runs of some size.
func manyRuns(t *testing.T) *db.DB {
	t.Helper()
	d := emptyFile(t)
	for i := range 8 {
		id := fmt.Sprint("r", i)
		write(t, d, "a", id, start("a", id),
			runs.Turn{Parameters: []byte(`"` + strings.Repeat("x", 100_000) + `"`)})
	}
	return d
}

func TestExport_KilledIsNotTakenAsEnded(t *testing.T) {
	d, out := manyRuns(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(out, ".unfinished-export"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Export(context.Background(), d, Runs, out, Options{})
	if !errors.Is(err, db.ErrInvalid) || db.Hint(err) != "remove "+filepath.Join(out, ".unfinished-export") {
		t.Errorf("%v (%s)", err, db.Hint(err))
	}
}

func TestExport_BesideAnotherIsBusy(t *testing.T) {
	d, out := manyRuns(t), t.TempDir()
	var second error
	_, err := Export(context.Background(), d, Runs, out, Options{Progress: func(p Progress) {
		if p.Files == 3 {
			_, second = Export(context.Background(), d, Agents, out, Options{})
		}
	}})
	if err != nil || !errors.Is(second, db.ErrBusy) {
		t.Errorf("%v, the second %v", err, second)
	}
}

func TestRecognise_SkipsUnfinishedExport(t *testing.T) {
	dir := t.TempDir()
	folder{"a/r.jsonl": startedLine("a", "r")}.in(t, filepath.Join(dir, ".unfinished-export"))
	if found, err := Recognise(dir, Options{}); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestAnExportThatIsStoppedLeavesNothing(t *testing.T) {
	d, out := manyRuns(t), filepath.Join(t.TempDir(), "out")
	ctx, stop := context.WithCancelCause(context.Background())
	why := errors.New("stopped by the test")
	_, err := Export(ctx, d, Runs, out, Options{Progress: func(p Progress) {
		if p.Files == 3 {
			stop(why)
		}
	}})
	if !errors.Is(err, why) || len(namesIn(t, out)) > 0 {
		t.Errorf("%v; left is %q", err, namesIn(t, out))
	}
}

func TestExport_LeavesForeignFilesAlone(t *testing.T) {
	d, out := manyRuns(t), filepath.Join(t.TempDir(), "out")
	_, err := Export(context.Background(), d, Runs, out, Options{Progress: func(p Progress) {
		if p.Files == 3 {
			folder{"notes": "of another"}.below(t, out)
		}
	}})
	if !errors.Is(err, db.ErrInvalid) || db.Hint(err) != "export into a new folder" {
		t.Errorf("%v (%s)", err, db.Hint(err))
	}
	if got := namesIn(t, out); !slices.Equal(got, []string{"notes"}) {
		t.Errorf("the folder holds %q", got)
	}
}
