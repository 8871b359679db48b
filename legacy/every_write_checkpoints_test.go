package legacy

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/replay"
)

func oldCheckpoints(t *testing.T, dir string) any {
	m := replay.Checkpoints{Read: func(document []byte) (json.RawMessage, error) {
		value, err := replay.Decode(document)
		if err != nil {
			return nil, err
		}
		return replay.Encode(value), nil
	}}
	claimed := []string{}
	play := func(op string, args map[string]any) any {
		out := m.Play(&replay.Call{Op: op, Args: args})
		if out.Err != nil {
			t.Fatalf("%s %v: %s", op, args, *out.Err)
		}
		return jsonOf(out.OK)
	}
	for path, text := range filesBelow(t, dir) {
		play("fs.write", map[string]any{"path": path, "hex": hex.EncodeToString([]byte(text))})
		if id, ok := strings.CutSuffix(path, ".inflight"); ok {
			claimed = append(claimed, id)
		}
	}
	slices.Sort(claimed)
	waiting := map[string]any{}
	for _, id := range play("list", nil).([]any) {
		waiting[id.(string)] = play("load", map[string]any{"run_id": id})
	}
	return jsonOf(map[string]any{"waiting": waiting, "claimed": claimed})
}

func ourCheckpoints(ctx context.Context, d *db.DB) (any, error) {
	waiting, claimed := map[string]any{}, []string{}
	ids, err := pausesOf(d).List(ctx)
	for _, id := range ids {
		p, _, err := pausesOf(d).Load(ctx, id)
		if err != nil {
			return nil, err
		}
		waiting[id] = p
	}
	for c, err := range pausesOf(d).All(ctx, checkpoints.Filter{}) {
		if err != nil {
			return nil, err
		}
		if c.State == checkpoints.Claimed {
			claimed = append(claimed, c.RunID)
		}
	}
	slices.Sort(claimed)
	return map[string]any{"waiting": waiting, "claimed": claimed}, err
}

func checkpointWrites(s *storeFile) []publicWrite {
	var claim *checkpoints.Claim
	workflow := func(id, prompt string) *checkpoints.PausedWorkflow {
		return &checkpoints.PausedWorkflow{
			RunID: id, Workflow: checkpoints.Workflow{ID: "w", Name: "W", Start: "gate", MaxIterations: 3},
			PausedStageID: "gate", Prompt: prompt, OutputKey: "approval", CreatedAt: s.clock.Now(),
		}
	}
	save := func(id, prompt string) func(context.Context) error {
		return func(ctx context.Context) error { return pausesOf(s.d).Save(ctx, workflow(id, prompt)) }
	}
	take := func(id string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			var ok bool
			if claim, ok, err = pausesOf(s.d).Claim(ctx, id); err == nil && !ok {
				err = errors.New("it does not wait")
			}
			return err
		}
	}
	return []publicWrite{
		{name: "Save", touches: "m-1.", do: save("m-1", "é?")},
		{name: "Save again", touches: "m-1.", do: save("m-1", "go on?")},
		{name: "SaveDocument", touches: "m-2.", do: func(ctx context.Context) error {
			text, err := workflow("m-2", "go?").Document()
			return errors.Join(err, pausesOf(s.d).SaveDocument(ctx, "m-2", text))
		}},
		{name: "Claim", touches: "m-1.", do: take("m-1")},
		{name: "Claim.Renew", silent: ownership, do: func(ctx context.Context) error { return claim.Renew(ctx) }},
		{
			name: "Claim.Hold", silent: nested,
			do: func(ctx context.Context) error { return claim.Hold(ctx, "look", func(*db.Tx) error { return nil }) },
		},
		{name: "Claim.Release", touches: "m-1.", do: func(ctx context.Context) error { return claim.Release(ctx) }},
		{name: "Claim again", touches: "m-1.", do: take("m-1")},
		{
			name: "Claim.Complete", touches: "m-1.",
			do: func(ctx context.Context) error { return claim.Complete(ctx) },
		},
		{name: "Save the decided one", touches: "m-6.", do: save("m-6", "go?")},
		{name: "Claim of the decided one", touches: "m-6.", do: take("m-6")},
		{
			name: "Claim.Decide", touches: "m-6.",
			do: func(ctx context.Context) error { return claim.Decide(ctx, checkpoints.Decision{Decision: "yes"}) },
		},
		{name: "Claim of the next", touches: "m-2.", do: take("m-2")},
		{name: "Complete", touches: "m-2.", do: func(
			ctx context.Context,
		) error {
			return pausesOf(s.d).Complete(ctx, "m-2")
		}},
		{name: "Save a third", touches: "m-3.", do: save("m-3", "go?")},
		{name: "Remove", touches: "m-3.", do: func(ctx context.Context) error {
			return pausesOf(s.d).Remove(ctx,
				"m-3")
		}},
		{name: "Save a fourth", touches: "m-4.", do: save("m-4", "go?")},
		{name: "Delete", touches: "m-4.", do: func(ctx context.Context) error {
			return pausesOf(s.d).Delete(ctx, checkpoints.Ref{RunID: "m-4", State: checkpoints.Paused})
		}},
		{name: "Save a fifth", touches: "m-5.", do: save("m-5", "go?")},
		{name: "a process dies at work", touches: "m-5.", do: s.diesAtWork(Checkpoints)},
		{name: "Recover", touches: "m-5.", do: func(
			ctx context.Context,
		) error {
			return one(pausesOf(s.d).Recover(ctx))
		}},
		{
			name: "RecoverOrphaned", touches: "",
			do: func(ctx context.Context) error { return some(pausesOf(s.d).RecoverOrphaned(ctx)) },
		},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error { return pausesOf(s.d).Pin(ctx, "m-1") }},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error {
			return pausesOf(s.d).Unpin(ctx,
				"m-1")
		}},
		{name: "Prune", silent: history, do: func(ctx context.Context) error {
			_, err := pausesOf(s.d).Prune(ctx, db.Policy{Age: db.KeepNone})
			return err
		}},
	}
}
