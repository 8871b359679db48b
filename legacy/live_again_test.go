package legacy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/runs/live"
)

// becomesAFolder puts a folder in a file's place, which nobody can read as a file, and gives what
// brings the file back.
func becomesAFolder(t *testing.T, path string) (back func()) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImport_UnreadableSessionLosesNothing(t *testing.T) {
	whole, bad := "runs/web-1.json", "runs/web-2.json"
	files := folder{
		whole: "[" + liveRecord("run-1", "web-1", "p") + "]",
		bad:   "[" + liveRecord("run-2", "web-2", "p") + `,{"snapshot":7}]`,
	}
	for _, unread := range []string{whole, bad} {
		dir := t.TempDir()
		files.below(t, dir)
		d := emptyFile(t)
		importLive(t, d, "", dir)
		before := inQuarantine(t, d, "")
		back := becomesAFolder(t, filepath.Join(dir, unread))
		importLive(t, d, "", dir)
		if now := inQuarantine(t, d, ""); len(now) != len(before)+1 || !slices.Contains(now, before[0]) {
			t.Errorf("%s can't be read: in quarantine are %q", unread, now)
		}
		back()
		report := importLive(t, d, "", dir)
		if now := inQuarantine(t, d, ""); !slices.Equal(now, before) || len(report.Quarantined) != len(before) ||
			report.Files.Already != 2 {
			t.Errorf("%s can be read again: in quarantine are %q, and %+v", unread, now, report)
		}
	}
}

func TestImport_ChangedSessionStaysOutWhileOursTouched(t *testing.T) {
	ctx, dir, d := context.Background(), t.TempDir(), emptyFile(t)
	running := func(prompt string) folder {
		return folder{"runs/web-1.json": "[" +
			strings.Replace(liveRecord("run-1", "web-1", prompt), "completed", "executing", 1) + "]"}
	}
	running("p").below(t, dir)
	importLive(t, d, "", dir)
	if _, _, err := live.NewStore(d, live.Options{}).MarkCancelled(ctx, "run-1"); err != nil {
		t.Fatal(err)
	}
	running("q").below(t, dir)
	for range 3 {
		if report := importLive(t, d, "", dir); len(report.Differs) != 1 || report.Counts["run"].Changed != 1 {
			t.Errorf("%+v", report)
		}
	}
}

func TestCopiedRun_ChangeIsReread(t *testing.T) {
	ctx, dir, d := context.Background(), t.TempDir(), emptyFile(t)
	real, copied := "runs/web-1.json", "runs/copy of web-1.json"
	files := folder{
		real:   "[" + liveRecord("run-1", "web-1", "once") + "]",
		copied: "[" + liveRecord("run-1", "web-1", "once") + "]",
	}
	files.below(t, dir)
	importLive(t, d, "", dir)
	folder{real: "[" + liveRecord("run-1", "web-1", "now") + "]"}.below(t, dir)
	for range 2 {
		report, err := Import(ctx, d, Live, dir, Options{BatchBytes: 1})
		if err != nil || len(report.Quarantined) != 1 || report.Quarantined[0].File != copied ||
			report.Quarantined[0].What != "conflict" {
			t.Errorf("%+v, %v", report, err)
		}
	}
}
