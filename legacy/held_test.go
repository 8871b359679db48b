package legacy

import (
	"context"
	"testing"

	"selvedge/runs"
	"selvedge/runs/live"
)

func TestImport_AddsLinesToHeldRun(t *testing.T) {
	ctx, dir, d := context.Background(), folder{"a/r.jsonl": ""}.make(t), emptyFile(t)
	text := startedLine("a", "r") + turnLine(0)
	folder{"a/r.jsonl": text}.in(t, dir)
	importInto(t, d, "", dir)
	held, err := runs.NewStore(d, runs.Options{}).Resume(ctx, runs.RunRef{AgentID: "a", RunID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	text += turnLine(1)
	folder{"a/r.jsonl": text}.in(t, dir)
	importInto(t, d, "", dir)
	if got := exported(t, d, "")["a/r.jsonl"]; got != text {
		t.Errorf("the trace is\n%s", got)
	}
	if err := held.Append(ctx, runs.Turn{Index: 2}); err != nil {
		t.Errorf("its holder: %v", err)
	}
}

func TestImport_ChangedSessionSparesHeldRun(t *testing.T) {
	ctx, dir, d := context.Background(), t.TempDir(), emptyFile(t)
	session := func(prompt string) folder {
		return folder{"runs/web-1.json": "[" + liveRecord("run-1", "web-1", prompt) + "]"}
	}
	session("p").below(t, dir)
	importLive(t, d, "", dir)
	held, err := live.NewStore(d, live.Options{}).Resume(ctx, "run-1")
	if err != nil {
		t.Fatal(err)
	}
	session("q").below(t, dir)
	if report := importLive(t, d, "", dir); len(report.Differs) != 1 {
		t.Errorf("while it is held: %+v", report)
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if report := importLive(t, d, "", dir); len(report.Differs) != 0 || report.Counts["run"].Changed != 1 {
		t.Errorf("once it is free: %+v", report)
	}
}
