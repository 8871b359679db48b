package legacy

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"selvedge/db"
	"selvedge/runs"
)

func TestLimitsOfATreeAreStoredAndLeaveAgain(t *testing.T) {
	d := emptyFile(t)
	dir := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	config := func(dir, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stored := func(want runs.RetentionConfig, wantOK bool) {
		t.Helper()
		limits, ok, err := StoredLimits(context.Background(), d, "")
		if err != nil || ok != wantOK || limits != want {
			t.Errorf("stored is %+v, %v, %v", limits, ok, err)
		}
	}
	importInto(t, d, "", dir)
	stored(runs.RetentionConfig{}, false)
	config(dir, "[runs]\nmax_per_agent = 7\n")
	importInto(t, d, "", dir)
	stored(runs.RetentionConfig{MaxPerAgent: 7, MaxAgeDays: 30}, true)

	other := folder{"b/r.jsonl": startedLine("b", "r")}.make(t)
	config(other, "[runs]\nmax_per_agent = 9\n")
	importInto(t, d, "", other)
	stored(runs.RetentionConfig{MaxPerAgent: 7, MaxAgeDays: 30}, true)

	out := filepath.Join(t.TempDir(), "out")
	if _, err := Export(context.Background(), d, Runs, out, Options{}); err != nil {
		t.Fatal(err)
	}
	if limits := runs.FromCarDir(out); limits != (runs.RetentionConfig{MaxPerAgent: 7, MaxAgeDays: 30}) {
		t.Errorf("exported are %+v", limits)
	}
	checkModes(t, out)

	config(dir, "[runs]\nmax_per_agent = \"many\"\n") // the original goes back to its own limits
	importInto(t, d, "", dir)
	stored(runs.RetentionConfig{}, false)
	if _, ok, err := StoredLimits(context.Background(), d, "of nobody"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestTheFileOfAnImportTakesAboutTheRoomOfItsTree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "typical.db")
	d, err := db.Open(context.Background(), path, db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		t.Fatal(err)
	}
	report := importInto(t, d, "", typicalTree(t))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	ratio := float64(info.Size()) / float64(report.Files.Bytes)
	t.Logf("%.2f bytes of file for a byte of the tree", ratio)
	if ratio > 1.35 {
		t.Errorf("%d bytes of tree take %d bytes", report.Files.Bytes, info.Size())
	}
}
