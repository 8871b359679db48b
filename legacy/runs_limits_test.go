package legacy

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"selvedge/db"
	traces "selvedge/legacy/internal/runs"
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
		limits, ok, err := traces.StoredLimits(context.Background(), d, "")
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

	config(dir, "[other]\n") // the original goes back to its own limits
	importInto(t, d, "", dir)
	stored(runs.RetentionConfig{}, false)
	if _, ok, err := traces.StoredLimits(context.Background(), d, "of nobody"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestLimitsThatTheOldProgramCannotSayAreRoundedUpAndNamed(t *testing.T) {
	for _, c := range []struct {
		policy  db.Policy
		want    runs.RetentionConfig
		leftOut int
	}{
		{db.Policy{Age: 12 * time.Hour}, runs.RetentionConfig{MaxPerAgent: math.MaxInt64, MaxAgeDays: 1}, 1},
		{db.Policy{Age: 36 * time.Hour, Count: 3}, runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: 2}, 1},
		{db.Policy{Age: 48 * time.Hour, Count: 3}, runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: 2}, 0},
		{db.Policy{Age: math.MaxInt64, Count: 3}, runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: math.MaxInt64/(24*int64(time.Hour)) + 1}, 1},
		{db.Policy{Age: db.KeepNone, Count: db.KeepNone}, runs.RetentionConfig{}, 0},
		{db.Policy{Count: 3, Age: 24 * time.Hour, Bytes: 1 << 20}, runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: 1}, 1},
	} {
		d := emptyFile(t)
		if err := d.SetRetention(context.Background(), "", db.StoreRuns, c.policy); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		report, err := Export(context.Background(), d, Runs, out, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if limits := runs.FromCarDir(out); limits != c.want || len(report.LeftOut) != c.leftOut {
			t.Errorf("%+v leaves as %+v, left out is %v", c.policy, limits, report.LeftOut)
		}
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
