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
)

func TestTheFolderAboveARegistryIsNone(t *testing.T) {
	ctx, d, dir := context.Background(), emptyFile(t), t.TempDir()
	folder{"agents/agents/whole.toml": wholeEntry}.below(t, dir)
	if _, err := Import(ctx, d, Agents, dir, Options{}); !errors.Is(err, db.ErrNotFound) || db.Hint(err) == "" {
		t.Errorf("the folder above it: %v", err)
	}
	if report, err := Import(ctx, d, Agents, filepath.Join(dir, "agents"), Options{}); err != nil ||
		report.Files.Found != 1 {
		t.Errorf("the folder that holds it: %+v, %v", report, err)
	}
	empty := t.TempDir()
	if err := os.Mkdir(filepath.Join(empty, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(ctx, d, Agents, empty, Options{}); err != nil {
		t.Errorf("a registry without entries: %v", err)
	}
}

func TestWhatIsNoSessionOfATreeIsNamed(t *testing.T) {
	dir := t.TempDir()
	folder{
		"runs/web-1.json": "[" + liveRecord("run-1", "web-1", "p") + "]", "web-1.json": "{}", "traces/t": "",
		"notes.txt": "",
	}.below(t, dir)
	if err := os.Symlink("v1", filepath.Join(dir, "v1")); err != nil {
		t.Fatal(err)
	}
	report, err := Import(context.Background(), emptyFile(t), Live, dir, Options{})
	if err != nil || report.Partial() {
		t.Fatalf("%+v, %v", report, err)
	}
	var names []string
	for _, r := range report.Ignored {
		names = append(names, r.File)
	}
	slices.Sort(names)
	if want := []string{"notes.txt", "traces", "v1/runs", "v1/sessions", "web-1.json"}; !slices.Equal(names,
		want) {
		t.Errorf("ignored is %q, not %q", names, want)
	}
}

func TestExport_FaultIsOneDiagnosticAfterRepeats(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	at := "runtimes/" + idName("r") + "/"
	folder{
		at + "runtime.json": wholeRuntime(""),
		at + "events.jsonl": startedEvent + `{"id":2,"kind":{"kind":"worker_deleted"},"message":"m"}` +
			"\n",
	}.below(t, dir)
	for range 3 {
		d := emptyFile(t)
		if _, err := Import(ctx, d, Workers, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		if s, err := openWorkers(t, d, "r").Summary(ctx); err != nil || s.DiagnosticCount != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		dir = filepath.Join(t.TempDir(), "out")
		if _, err := Export(ctx, d, Workers, dir, Options{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExport_CheckpointWithoutIDGetsUnlistedName(t *testing.T) {
	ctx, d, out := context.Background(), emptyFile(t), filepath.Join(t.TempDir(), "out")
	if err := pausesOf(d).SaveDocument(ctx, "",
		[]byte(strings.Replace(wholeCheckpoint, `"whole"`, `""`, 1))); err != nil {
		t.Fatal(err)
	}
	report, err := Export(ctx, d, Checkpoints, out, Options{})
	if err != nil || !report.Partial() || len(report.Readable) != 1 || report.Readable[0].File != ".json" ||
		report.Readable[0].Readable {
		t.Errorf("it is said to be readable: %+v, %v", report, err)
	}
	if old := oldCheckpoints(t, out).(map[string]any); len(old["waiting"].(map[string]any)) != 0 {
		t.Errorf("the old program lists %v", old)
	}
}

func TestImport_FolderOfStrangersIsNotFound(t *testing.T) {
	ctx := context.Background()
	for name, files := range map[string]folder{
		"no JSON": {"notes.txt": "n"}, "JSON": {"package.json": `{"name":"x"}`, "list.json": "[1]"},
	} {
		for _, kind := range Kinds() {
			d, dir := emptyFile(t), t.TempDir()
			files.below(t, dir)
			if _, err := Import(ctx, d, kind, dir, Options{}); !errors.Is(err, db.ErrNotFound) || db.Hint(err) == "" {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
		}
	}
	// A folder that was imported stays the tree, even if only another program's files are left in it.
	d, dir := emptyFile(t), t.TempDir()
	folder{"r.json": `{"run_id":"r"}`, "package.json": `{"name":"x"}`}.below(t, dir)
	for range 2 {
		if _, err := Import(ctx, d, Checkpoints, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(dir, "r.json"))
	}
}
