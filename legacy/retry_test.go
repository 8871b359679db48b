package legacy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
)

// collision is a file of each kind of tree whose files are things, and what is here already under its id.
type collision struct {
	kind             Kind
	path, here, file string
	remove           func(d *db.DB) error
}

func collisions(t *testing.T) []collision {
	ctx := context.Background()
	return []collision{
		{
			Agents, "agents/a-1.toml", agentEntry("a-1", "active", 1), agentEntry("a-1", "active", 2),
			func(d *db.DB) error { return agents.NewRegistry(d, agents.Options{}).Delete(ctx, "a-1") },
		},
		{
			Checkpoints, "r-1.json", pausedRun(t, "r-1", "here"), pausedRun(t, "r-1", "there"),
			func(d *db.DB) error { return checkpoints.NewStore(d, checkpoints.Options{}).Remove(ctx, "r-1") },
		},
		{
			Runs, "runs/a/r.jsonl", startedLine("a", "r"), startedLine("a", "r") + turnLine(0) + endedLine("a", "r"),
			func(d *db.DB) error {
				return runs.NewStore(d, runs.Options{}).Delete(ctx, runs.RunRef{AgentID: "a", RunID: "r"})
			},
		},
	}
}

// collide imports two trees that have the id, and gives the folder of the second and what is in
// quarantine of it.
func (c collision) collide(t *testing.T, d *db.DB) (dir string, q Quarantined) {
	t.Helper()
	first, second := t.TempDir(), t.TempDir()
	folder{c.path: c.here}.below(t, first)
	folder{c.path: c.file}.below(t, second)
	for _, dir := range []string{first, second} {
		report, err := Import(context.Background(), d, c.kind, dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if dir == second {
			if len(report.Quarantined) != 1 || report.Quarantined[0].What != "conflict" {
				t.Fatalf("%s: in quarantine %+v", c.kind, report.Quarantined)
			}
			if q, err = ShowQuarantine(context.Background(), d, report.Quarantined[0].ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	return second, q
}

func TestRetry_ReusedID(t *testing.T) {
	ctx := context.Background()
	for _, c := range collisions(t) {
		d := emptyFile(t)
		dir, q := c.collide(t, d)
		if err := os.RemoveAll(dir); err != nil { // the quarantine is the only place that has it
			t.Fatal(err)
		}
		var ours bytes.Buffer
		if ok, err := QuarantineOurs(ctx, d, q, &ours); !ok || err != nil || ours.String() != c.here {
			t.Errorf("%s: here is %q, %v, %v", c.kind, ours.String(), ok, err)
		}
		r, err := RetryQuarantine(ctx, d, q.ID, Options{})
		if err != nil || r.Taken || r.Reason == "" {
			t.Errorf("%s, while the id is taken: %+v, %v", c.kind, r, err)
		}
		if still, err := ShowQuarantine(ctx, d, q.ID); err != nil || still.Bytes != q.Bytes ||
			still.FoundAt != q.FoundAt {
			t.Errorf("%s: %+v became %+v, %v", c.kind, q, still, err)
		}
		if err := c.remove(d); err != nil {
			t.Fatal(err)
		}
		if r, err = RetryQuarantine(ctx, d, q.ID, Options{}); err != nil || !r.Taken {
			t.Errorf("%s, once the id is free: %+v, %v", c.kind, r, err)
		}
		if left := inQuarantine(t, d, ""); len(left) > 0 {
			t.Errorf("%s: left in quarantine: %q", c.kind, left)
		}
		ours.Reset()
		if ok, err := QuarantineOurs(ctx, d, q, &ours); !ok || err != nil || ours.String() != c.file {
			t.Errorf("%s: taken was %q, %v, %v", c.kind, ours.String(), ok, err)
		}
		if _, err := RetryQuarantine(ctx, d, q.ID, Options{}); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("%s, a second time: %v", c.kind, err)
		}
		folder{c.path: c.file}.below(t, dir) // as if it had never been away
		if report, err := Import(ctx, d, c.kind, dir, Options{OtherFolder: true}); err != nil ||
			report.Files.Already != 1 || report.Partial() {
			t.Errorf("%s: the folder imported again: %+v, %v", c.kind, report, err)
		}
	}
}

func TestDrop_NextImportMeetsFileAgain(t *testing.T) {
	ctx := context.Background()
	for _, c := range collisions(t) {
		d := emptyFile(t)
		dir, q := c.collide(t, d)
		if err := DropQuarantine(ctx, d, q.ID, q.ID+1000); !errors.Is(err, db.ErrNotFound) ||
			len(inQuarantine(t, d, "")) != 1 {
			t.Errorf("%s: one of two that is not there: %v", c.kind, err)
		}
		if err := DropQuarantine(ctx, d, q.ID); err != nil {
			t.Fatal(err)
		}
		if left := inQuarantine(t, d, ""); len(left) > 0 {
			t.Errorf("%s: left in quarantine: %q", c.kind, left)
		}
		report, err := Import(ctx, d, c.kind, dir, Options{})
		if err != nil || len(report.Quarantined) != 1 || report.Quarantined[0].ID == q.ID {
			t.Errorf("%s: imported again, with the id still taken: %+v, %v", c.kind, report.Quarantined, err)
		}
		if err := errors.Join(c.remove(d), DropQuarantine(ctx, d, report.Quarantined[0].ID)); err != nil {
			t.Fatal(err)
		}
		if report, err = Import(ctx, d, c.kind, dir, Options{}); err != nil || report.Files.New != 1 ||
			report.Partial() {
			t.Errorf("%s: imported again, with the id free: %+v, %v", c.kind, report, err)
		}
	}
}

func TestDrop_LineStaysAwayWhileFileUnchanged(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	dir := folder{"a/r.jsonl": startedLine("a", "r") + "{no record\n" + turnLine(0)}.make(t)
	report := importInto(t, d, "", dir)
	if len(report.Quarantined) != 1 {
		t.Fatalf("%+v", report.Quarantined)
	}
	r, err := RetryQuarantine(ctx, d, report.Quarantined[0].ID, Options{})
	if err != nil || r.Taken || r.Reason == "" {
		t.Errorf("a line tried by itself: %+v, %v", r, err)
	}
	if err := DropQuarantine(ctx, d, report.Quarantined[0].ID); err != nil {
		t.Fatal(err)
	}
	if again := importInto(t, d, "", dir); again.Partial() {
		t.Errorf("imported again: %+v", again.Quarantined)
	}
}

// What a report counts as quarantined is in its list and in the quarantine, whatever was dropped.
func TestDrop_CountsListsAndPartialAgree(t *testing.T) {
	ctx := context.Background()
	dirs := map[Kind]string{}
	for kind, files := range damaged() {
		dirs[kind] = t.TempDir()
		files.below(t, dirs[kind])
	}
	folder{"runs/copy.json": "[" + liveRecord("run-1", "web-1", "other") + "]"}.below(t, dirs[Live])
	for kind, dir := range dirs {
		d := emptyFile(t)
		if _, err := Import(ctx, d, kind, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		for len(inQuarantine(t, d, "")) > 0 {
			page, err := Quarantine(ctx, d, "", db.At{})
			if err != nil {
				t.Fatal(err)
			}
			if err := DropQuarantine(ctx, d, page.Items[0].ID); err != nil {
				t.Fatal(err)
			}
			what := page.Items[0].What
			report, err := Import(ctx, d, kind, dir, Options{})
			counted, rows := int64(0), len(inQuarantine(t, d, ""))
			for _, c := range report.Counts {
				counted += c.Quarantined
			}
			if err != nil || report.Partial() != (rows > 0) || len(report.Quarantined) != rows ||
				(counted > 0) != (rows > 0) {
				t.Errorf("%s, a %s dropped: %d counted, %d named, %d in quarantine, %v", kind, what, counted,
					len(report.Quarantined), rows, err)
			}
			if what != "line" && what != "tail" {
				break // it comes back
			}
			if len(report.Ignored) == 0 {
				t.Errorf("%s: nothing is said of a %s that was dropped", kind, what)
			}
		}
	}
}

func TestRetry_UnreadableEntryStaysInQuarantine(t *testing.T) {
	ctx, d, dir := context.Background(), emptyFile(t), t.TempDir()
	folder{"agents/bad.toml": "no = entry"}.below(t, dir)
	report, err := Import(ctx, d, Agents, dir, Options{})
	if err != nil || len(report.Quarantined) != 1 {
		t.Fatalf("%+v, %v", report.Quarantined, err)
	}
	q := report.Quarantined[0]
	if r, err := RetryQuarantine(ctx, d, q.ID, Options{}); err != nil || r.Taken || r.Reason != q.Reason {
		t.Errorf("%+v, %v; it is there for %q", r, err, q.Reason)
	}
	if left, err := ShowQuarantine(ctx, d, q.ID); err != nil || left.Bytes != q.Bytes {
		t.Errorf("%+v, %v", left, err)
	}
}

func TestDrop_WaitsForImportIntoScope(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	report := importInto(t, d, "tenant", folder{"a/r.jsonl": startedLine("a", "r") + "{no record\n"}.make(t))
	if len(report.Quarantined) != 1 {
		t.Fatalf("%+v", report.Quarantined)
	}
	var source string
	err := d.Read(ctx, "test", func(rx *db.Rx) error { return rx.Get(&source, `SELECT id FROM import_sources`) })
	if err != nil {
		t.Fatal(err)
	}
	lease, err := d.Reserve(ctx, "import", source, db.ReserveOptions{Scope: "tenant"}) // as an import does
	if err != nil {
		t.Fatal(err)
	}
	id := report.Quarantined[0].ID
	if err := DropQuarantine(ctx, d, id); !errors.Is(err, db.ErrBusy) || len(inQuarantine(t, d, "tenant")) != 1 {
		t.Errorf("while it is imported: %v", err)
	}
	if err := errors.Join(lease.Release(ctx), DropQuarantine(ctx, d, id)); err != nil {
		t.Error(err)
	}
	wantQuarantine(t, d, "tenant")
}
