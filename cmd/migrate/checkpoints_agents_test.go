package main

import (
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestCheckpoints_AgentTellsRunsApart(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	for _, agent := range []string{"a", "b"} {
		err := checkpoints.NewStore(d, checkpoints.Options{Agent: agent}).Save(t.Context(),
			&checkpoints.PausedWorkflow{
				RunID: "r", PausedStageID: "gate", Prompt: agent + "?", CreatedAt: time.Unix(0, 0),
				Workflow: checkpoints.Workflow{ID: "w", Name: "W", Start: "gate"},
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line string
		exit int
		says string
	}{
		{"checkpoints show r", kindUsage.exit, "r --agent b"},
		{"checkpoints show r --agent b --json", 0, `"agent_id":"b"`},
		{"checkpoints pin r --agent a", 0, "checkpoint r of a"},
		{"checkpoints unpin r --agent a", 0, "checkpoint r of a"},
		{"delete checkpoints r --agent a --yes", 0, "deleted"},
		{"checkpoints show r", 0, "b?"},
	} {
		exit, out, stderr := call(t, append([]string{"--db", path}, strings.Fields(c.line)...)...)
		if exit != c.exit || !strings.Contains(out+stderr, c.says) {
			t.Errorf("%s: exit %d: %s%s", c.line, exit, out, stderr)
		}
	}
}
