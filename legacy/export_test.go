package legacy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

func write(t *testing.T, d *db.DB, agent, run string, records ...runs.Record) {
	t.Helper()
	if err := runs.NewStore(d, runs.Options{}).AppendRecords(context.Background(), agent, run,
		records); err != nil {
		t.Fatal(err)
	}
}

func start(agent, run string) runs.Started {
	return runs.Started{
		AgentID: agent, RunID: run, Intent: "i",
		StartedAt: time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC),
	}
}

func TestExport_StoreRunsMatchOriginal(t *testing.T) {
	d := emptyFile(t)
	write(t, d, "a", "r", start("a", "r"), runs.Turn{Parameters: []byte(`{ "b" : 1, "a" : [ ] }`)})
	write(t, d, "name:x", "order 66/retry", start("name:x", "order 66/retry"))
	write(t, d, "", "...", start("", "..."))
	want := folder{
		"a/r.jsonl": startedLine("a", "r") +
			`{"record":"turn","index":0,"parameters":{"a":[],"b":1},"verifier_verdict":"not_run"}` + "\n",
		"name:x/order 66_retry.jsonl": startedLine("name:x", "order 66/retry"),
		"_/_.jsonl":                   startedLine("", "..."),
	}
	sameFiles(t, "the export", want, exported(t, d, ""))

	out := filepath.Join(t.TempDir(), "out")
	if _, err := Export(context.Background(), d, Runs, out, Options{}); err != nil {
		t.Fatal(err)
	}
	report := importInto(t, d, "", out)
	if report.Files.Already != 3 || report.Partial() {
		t.Errorf("importing it again: %+v", report)
	}
	importInto(t, d, "elsewhere", out)
	wantNames(t, d, "elsewhere", "/...", "a/r", "name:x/order 66/retry")
	if again := exported(t, d, "elsewhere"); !strings.Contains(again["a/r.jsonl"], "parameters") {
		t.Errorf("%v", again)
	}
}

func TestExport_LeavesOutUnholdableNames(t *testing.T) {
	d := emptyFile(t)
	long := strings.Repeat("n", 250)
	write(t, d, "a", long, start("a", long))
	write(t, d, strings.Repeat("é", 128), "r", start("a", "r"))
	write(t, d, "a", "b/c", start("a", "b/c"))
	write(t, d, "a", "b_c", start("a", "b_c"))
	write(t, d, "a", ".turns", runs.Turn{})
	importInto(t, d, "", folder{"a/x.jsonl": startedLine("a", ".x")}.make(t))
	write(t, d, "a", "x", start("a", "x"))

	out := filepath.Join(t.TempDir(), "out")
	report, err := Export(context.Background(), d, Runs, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, r := range report.LeftOut {
		_, reason, _ := strings.Cut(r.Reason, `" of agent `)
		reasons = append(reasons, reason)
	}
	want := []string{
		`"a": its file name is too long`,
		fmt.Sprintf("%q: its file name is too long", strings.Repeat("é", 128)),
		`"a": its file name is taken by another`,
		`"a" is written, but its id is not in its records: an import would call it run "turns" of agent "a"`,
		`"a": its file name is that of run ".x" of agent "a"`,
	}
	if !slices.Equal(reasons, want) || !report.Partial() {
		t.Errorf("left out: %q", reasons)
	}
	sameFiles(t, "the export", folder{
		"a/b_c.jsonl": startedLine("a", "b/c"), "a/x.jsonl": startedLine("a", ".x"),
		"a/turns.jsonl": `{"record":"turn","index":0,"verifier_verdict":"not_run"}` + "\n",
	}, readFiles(t, out))
}

func TestExport_ContinuedImportedRunMatchesOriginal(t *testing.T) {
	for name, text := range map[string]string{
		"torn":         startedLine("a", "r") + `{"record":"turn","ind`,
		"open":         startedLine("a", "r") + strings.TrimSuffix(turnLine(0), "\n"),
		"whole":        startedLine("a", "r") + turnLine(0),
		"nothing":      "",
		"only a tail":  "torn",
		"torn started": strings.TrimSuffix(startedLine("a", "r"), "\n"),
	} {
		d := emptyFile(t)
		importInto(t, d, "", folder{"a/r.jsonl": text}.make(t))
		write(t, d, "a", "r", runs.Turn{Index: 1})
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n" // as the original repairs a torn tail
		}
		sameFiles(t, name, folder{"a/r.jsonl": text + `{"record":"turn","index":1,"verifier_verdict":"not_run"}` +
			"\n"}, exported(t, d, ""))
	}
}

func TestAnExportNeedsAnEmptyFolder(t *testing.T) {
	d := emptyFile(t)
	write(t, d, "a", "r", start("a", "r"))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Export(context.Background(), d, Runs, dir, Options{}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("the error is %v", err)
	}
	if got := namesIn(t, dir); !slices.Equal(got, []string{"notes"}) {
		t.Errorf("the folder holds %v", got)
	}
	empty := filepath.Join(dir, "new", "folder")
	if _, err := Export(context.Background(), d, Runs, empty, Options{Scope: "of nobody"}); !errors.Is(err,
		db.ErrNotFound) {
		t.Errorf("a scope that is not there: %v", err)
	}
	if _, err := os.Stat(empty); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("for a scope that is not there: %v", err)
	}
	report, err := Export(context.Background(), d, Live, empty, Options{})
	if err != nil || report.Files.Found != 0 {
		t.Errorf("a store with nothing in it: %+v, %v", report, err)
	}
	checkModes(t, empty)
}
