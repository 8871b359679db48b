package legacy

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/runs"
)

func oldRuns(t *testing.T, dir string) any {
	m := readTree(t, filepath.Join(dir, "runs"), modelRules{}, backAt)
	lists, traces := m.lists(), map[string]any{}
	for agent, list := range lists {
		if len(list.([]any)) == 0 {
			delete(lists, agent)
		}
	}
	for _, f := range m.files {
		traces[f.path()] = m.records(f)
	}
	return map[string]any{"lists": lists, "traces": traces}
}

func ourRuns(ctx context.Context, d *db.DB) (any, error) {
	lists, traces := map[string]any{}, map[string]any{}
	for run, err := range tracesOf(d).All(ctx, runs.Filter{}) {
		if err != nil {
			return nil, err
		}
		ref := runs.RunRef{AgentID: run.AgentID, RunID: run.RunID}
		path := runPath(ref, seedName)
		agent, _, _ := strings.Cut(path, "/")
		if lists[agent] == nil {
			list, err := tracesOf(d).ListRuns(ctx, run.AgentID)
			if err != nil {
				return nil, err
			}
			as := jsonOf(list).([]any)
			sortList(as)
			lists[agent] = as
		}
		records, _, err := tracesOf(d).GetRunTraceFor(ctx, run.AgentID, run.RunID)
		if err != nil {
			return nil, err
		}
		traces[path] = jsonOf(records)
	}
	return map[string]any{"lists": lists, "traces": traces}, nil
}

func runWrites(s *storeFile) []publicWrite {
	var heldTrace *runs.Run
	text := "go"
	turn := runs.Turn{
		Index: 1, Prompt: &text, Output: json.RawMessage(`{"a":[1,"é"]}`),
		VerifierVerdict: runs.VerdictPass,
	}
	started := func(run string) runs.Started {
		return runs.Started{RunID: run, AgentID: "moved", Intent: "go", StartedAt: s.clock.Now()}
	}
	ref := func(run string) runs.RunRef { return runs.RunRef{AgentID: "moved", RunID: run} }
	return []publicWrite{
		{
			name: "WriteStarted", touches: "runs/moved/m-1.jsonl",
			do: func(ctx context.Context) error { return tracesOf(s.d).WriteStarted(ctx, started("m-1")) },
		},
		{name: "AppendTurns", touches: "runs/moved/m-1.jsonl", do: func(ctx context.Context) error {
			return tracesOf(s.d).AppendTurns(ctx, "moved", "m-1", []runs.Turn{turn})
		}},
		{name: "Append", touches: "runs/moved/m-1.jsonl", do: func(ctx context.Context) error {
			return second(tracesOf(s.d).Append(ctx, runs.Batch{
				AgentID: "moved", RunID: "m-1",
				Records: []runs.Record{turn, turn}, Key: "key",
			}))
		}},
		{name: "WriteEnded", touches: "runs/moved/m-1.jsonl", do: func(ctx context.Context) error {
			return tracesOf(s.d).WriteEnded(ctx, runs.Ended{RunID: "m-1", AgentID: "moved"})
		}},
		{name: "Begin", touches: "runs/moved/m-2.jsonl", do: func(ctx context.Context) (err error) {
			heldTrace, err = tracesOf(s.d).Begin(ctx, started("m-2"), runs.BeginOptions{})
			return err
		}},
		{
			name: "Run.Append", touches: "runs/moved/m-2.jsonl",
			do: func(ctx context.Context) error { return heldTrace.Append(ctx, turn) },
		},
		{
			name: "Run.Release", silent: ownership,
			do: func(ctx context.Context) error { return heldTrace.Release(ctx) },
		},
		{name: "Resume", silent: ownership, do: func(ctx context.Context) (err error) {
			heldTrace, err = tracesOf(s.d).Resume(ctx, ref("m-2"))
			return err
		}},
		{name: "Run.End", touches: "runs/moved/m-2.jsonl", do: func(ctx context.Context) error {
			return heldTrace.End(ctx, runs.Termination{Outcome: &runs.AgentOutcome{
				Status:    runs.OutcomeSuccess,
				Timestamp: s.clock.Now(),
			}})
		}},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error {
			return tracesOf(s.d).Pin(ctx,
				ref("m-2"))
		}},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error {
			return tracesOf(s.d).Unpin(ctx,
				ref("m-2"))
		}},
		{name: "a process dies at work", touches: "runs/moved/m-3.jsonl", do: s.diesAtWork(Runs)},
		{
			name: "Recover", silent: ownership,
			do: func(ctx context.Context) error { return one(tracesOf(s.d).Recover(ctx)) },
		},
		{
			name: "WriteStarted of another", touches: "runs/moved/m-4.jsonl",
			do: func(ctx context.Context) error { return tracesOf(s.d).WriteStarted(ctx, started("m-4")) },
		},
		{
			name: "AdoptOrphans", touches: "runs/", says: `"termination":{"kind":"incomplete"}`,
			do: func(ctx context.Context) error { return some(tracesOf(s.d).AdoptOrphans(ctx)) },
		},
		{name: "GC", touches: "runs/", do: func(ctx context.Context) error { return some(tracesOf(s.d).GC(ctx)) }},
		{
			name: "Delete", touches: "runs/moved/m-1.jsonl",
			do: func(ctx context.Context) error { return tracesOf(s.d).Delete(ctx, ref("m-1")) },
		},
		{name: "Prune", touches: "runs/", do: func(ctx context.Context) error {
			_, err := tracesOf(s.d).Prune(ctx, db.Policy{Count: 1})
			return err
		}},
	}
}
