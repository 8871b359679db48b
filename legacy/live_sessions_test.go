package legacy

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/runs/live"
)

func liveRecord(run, session, prompt string) string {
	return `{"snapshot":{"id":"` + run + `","session_id":"` + session + `","status":"completed","prompt":"` +
		prompt +
		`","created_at_ms":1,"updated_at_ms":1,"event_count":0},"events":[]}`
}

// bringLive imports, imports again, verifies and exports, and gives what was exported.
func bringLive(t *testing.T, files folder) (Report, folder, *live.Store) {
	t.Helper()
	ctx := context.Background()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	files.below(t, dir)
	d := emptyFile(t)
	report, err := Import(ctx, d, Live, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Import(ctx, d, Live, dir, Options{})
	if err != nil || again.Partial() != report.Partial() || len(again.Apart) != len(report.Apart) ||
		again.Counts["run"].New > 0 {
		t.Errorf("the second import: %+v, %v", again, err)
	}
	if verified, err := Verify(ctx, d, Live, dir, Options{}); err != nil ||
		verified.Partial() != report.Partial() {
		t.Errorf("the verification: %+v, %v", verified, err)
	}
	if _, err := Export(ctx, d, Live, out, Options{}); err != nil {
		t.Fatal(err)
	}
	return report, readFiles(t, out), live.NewStore(d, live.Options{Scope: "live/web-2"})
}

func TestCopiedSession_TakesNothingAndLeavesUnchanged(t *testing.T) {
	record := liveRecord("run-1", "web-1", "p")
	files := folder{"runs/web-1.json": "[" + record + "]", "runs/copy of web-1.json": "[" + record + "]"}
	report, out, _ := bringLive(t, files)
	if report.Partial() || report.Counts["run"] != (Count{Read: 2, New: 1, Already: 1}) {
		t.Errorf("%+v", report)
	}
	for path := range files {
		if !strings.Contains(out[strings.TrimPrefix(path, "runs/")], `"run-1"`) {
			t.Errorf("%s leaves as %q", path, out[strings.TrimPrefix(path, "runs/")])
		}
	}
}

func TestImport_FileNamedAfterSessionHasRuns(t *testing.T) {
	files := folder{
		"runs/web-1.json":         "[" + liveRecord("run-1", "web-1", "now") + "]",
		"runs/copy of web-1.json": "[" + liveRecord("run-1", "web-1", "once") + "]",
	}
	report, out, _ := bringLive(t, files)
	if len(report.Quarantined) != 1 || report.Quarantined[0].File != "runs/copy of web-1.json" {
		t.Errorf("in quarantine: %+v", report.Quarantined)
	}
	if !strings.Contains(out["web-1.json"], `"now"`) {
		t.Errorf("the session leaves as %q", out["web-1.json"])
	}
}

// Each file keeps its records, wherever a record of its session has strayed to.
func TestImport_StrayRecordLeavesSessionsWhole(t *testing.T) {
	for _, stray := range []string{"web-1", "web-3"} {
		report, out, _ := bringLive(t, folder{
			"runs/web-2.json": "[" + liveRecord("r", "web-2", "own") + "]",
			"runs/" + stray + ".json": "[" + liveRecord("s", stray, "first") + "," +
				liveRecord("r", "web-2", "stray") + "]",
		})
		if report.Partial() || len(report.Apart) != 1 || !strings.Contains(out["web-2.json"], `"own"`) ||
			!strings.Contains(out[stray+".json"], `"first"`) || !strings.Contains(out[stray+".json"], `"stray"`) {
			t.Errorf("%+v, %q", report, out)
		}
	}
}

func TestImport_SessionWithTakenIDsIsSeparate(t *testing.T) {
	files := folder{
		"runs/web-1.json": "[" + liveRecord("main", "web-1", "first") + "]",
		"runs/web-2.json": "[" + liveRecord("main", "web-2", "second") + "," +
			liveRecord("other", "web-2", "third") + "]",
	}
	report, out, apart := bringLive(t, files)
	if report.Partial() || len(report.Apart) != 1 || report.Apart[0].File != "runs/web-2.json" ||
		!strings.Contains(report.Apart[0].Reason, "live/web-2") {
		t.Errorf("%+v", report)
	}
	for path, words := range map[string][]string{
		"runs/web-1.json": {`"first"`},
		"runs/web-2.json": {`"second"`, `"third"`},
	} {
		for _, word := range words {
			if !strings.Contains(out[strings.TrimPrefix(path, "runs/")], word) {
				t.Errorf("%s leaves as %q", path, out[strings.TrimPrefix(path, "runs/")])
			}
		}
	}
	records, err := apart.Records(context.Background())
	if err != nil || len(records) != 2 {
		t.Errorf("in the scope of its own: %+v, %v", records, err)
	}
}
