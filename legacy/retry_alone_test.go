package legacy

import (
	"context"
	"testing"

	"selvedge/agents"
	"selvedge/runs"
)

func TestARetriedTraceLeavesItsSiblingsAsTheyAre(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	importInto(t, d, "", folder{"a/x_y.jsonl": startedLine("a", "x_y")}.make(t))
	tree := folder{"a/x:y.jsonl": startedLine("a", "x:y") + turnLine(0) + endedLine("a", "x:y")}
	dir := tree.make(t)
	importInto(t, d, "", dir)
	tree["a/x_y.jsonl"] = startedLine("a", "x:y") + turnLine(0) // what a later version calls the same run
	tree.in(t, dir)
	report := importInto(t, d, "", dir)
	if len(report.Quarantined) != 1 || report.Quarantined[0].What != "conflict" {
		t.Fatalf("in quarantine %+v", report.Quarantined)
	}
	if err := runs.NewStore(d, runs.Options{}).Delete(ctx, runs.RunRef{AgentID: "a", RunID: "x_y"}); err != nil {
		t.Fatal(err)
	}
	if r, err := RetryQuarantine(ctx, d, report.Quarantined[0].ID, Options{}); err != nil || !r.Taken {
		t.Errorf("%+v, %v", r, err)
	}
	wantNames(t, d, "", "a/x:y", "a/x_y")
	sameFiles(t, "exported", tree, exported(t, d, ""))
}

func TestRetry_EntryAvoidsIDsOfTreeFiles(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	c := collision{
		kind: Agents, path: "agents/Odd.toml", here: agentEntry("a-1", "active", 1),
		file: agentEntry("a-1", "active", 2),
	}
	dir, q := c.collide(t, d)
	folder{"agents/a-1.toml": agentEntry("a-1", "active", 3)}.below(t, dir)
	report, err := Import(ctx, d, Agents, dir, Options{})
	if err != nil || len(report.Quarantined) != 2 {
		t.Fatalf("%+v, %v", report.Quarantined, err)
	}
	registry := agents.NewRegistry(d, agents.Options{})
	if err := registry.Delete(ctx, "a-1"); err != nil {
		t.Fatal(err)
	}
	if r, err := RetryQuarantine(ctx, d, q.ID, Options{}); err != nil || r.Taken || r.Reason == "" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, other := range report.Quarantined {
		if other.ID == q.ID {
			continue
		}
		if r, err := RetryQuarantine(ctx, d, other.ID, Options{}); err != nil || !r.Taken {
			t.Errorf("the file that is named after it: %+v, %v", r, err)
		}
	}
}
