package legacy

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"selvedge/internal/tree"
)

// checkExport exports, and sees that every file is there byte for byte, that the original's reader
// gives the recorded answers on it, and that importing it brings nothing.
func checkExport(t *testing.T, v *verdictList, x *importedTree, recorded *recordedTree) {
	ctx := context.Background()
	out := filepath.Join(t.TempDir(), "out")
	report, err := Export(ctx, x.d, Runs, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.LeftOut {
		if !strings.HasPrefix(r.Reason, "is in quarantine, row ") &&
			!strings.HasSuffix(r.Reason, "not UTF-8, and nothing is read from it on") {
			t.Errorf("the export left out %v", r)
		}
	}
	outRoot := filepath.Join(out, "runs")
	exported := readTree(t, outRoot, modelRules{}, treeNow)
	original := readTree(t, x.root, modelRules{}, treeNow)
	files := map[string][]byte{}
	for _, f := range exported.files {
		files[f.path()] = f.real.bytes
	}
	for _, f := range original.files {
		if f.real == nil {
			continue
		}
		if !bytes.Equal(files[f.path()], f.real.bytes) {
			t.Errorf("%s did not leave byte for byte", f.path())
		}
		checkReadable(t, &report, f.path(), utf8.Valid(f.real.bytes))
		delete(files, f.path())
	}
	for path := range files {
		t.Errorf("the export made %s", path)
	}
	lists, traces := exported.lists(), exported.answers(nil)["traces"].(map[string]any)
	for _, a := range recorded.Agents {
		if a.ListRuns != nil {
			got, _ := lists[a.Dir].([]any)
			v.same("export: list of "+a.Dir, a.ListRuns, orEmpty(got))
		}
	}
	for _, run := range recorded.Runs {
		trace, _ := traces[run.AgentDir+"/"+run.File].(map[string]any)
		if run.Digest == nil || run.Digest.SHA256 == nil || trace == nil {
			continue
		}
		v.same("export: digest of "+run.File, *run.Digest.SHA256, trace["sha256"])
	}
	checkModes(t, out)

	before := dump(t, x.d, "import_files", "import_sources", "import_settings", "quarantine", "quarantine_parts")
	again, err := Import(ctx, x.d, Runs, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range again.Counts {
		if c.Already != c.Read {
			t.Errorf("importing the export counts %s as %+v", kind, c)
		}
	}
	if diff := firstDifference(before, dump(t, x.d, "import_files", "import_sources", "import_settings",
		"quarantine", "quarantine_parts")); diff != "" {
		t.Errorf("importing the export changed the file: %s", diff)
	}
}

// checkReadable sees that the report says of a file whether the original reads it.
func checkReadable(t *testing.T, report *Report, path string, want bool) {
	t.Helper()
	// A name that is not UTF-8 may be shown like another one.
	if !slices.ContainsFunc(report.Readable, func(r Readability) bool {
		return r.File == tree.Shown(path) && r.Readable == want
	}) {
		t.Errorf("%s can be read: %v; the report says %+v", path, want, report.Readable)
	}
}

func checkModes(t *testing.T, dir string) {
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		want := os.FileMode(0o600)
		if entry.IsDir() {
			want = os.ModeDir | 0o700
		}
		if err == nil && info.Mode() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
