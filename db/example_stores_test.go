package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
)

// Ending a run, completing its checkpoint and releasing the agent's thread in one transaction: there is no moment at
// which only some of the three have happened.
func ExampleDB_Write_acrossStores() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // the example ends
	traces := runs.NewStore(d, runs.Options{})
	paused := checkpoints.NewStore(d, checkpoints.Options{})
	registry := agents.NewRegistry(d, agents.Options{})

	// A run that waits for approval, and a thread that an agent holds for it.
	at := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	must(traces.WriteStarted(ctx, runs.Started{RunID: "run-1", AgentID: "agent-a", Intent: "ship it", StartedAt: at}))
	must(paused.Save(ctx, &checkpoints.PausedWorkflow{
		RunID: "run-1", PausedStageID: "gate", Prompt: "ship it?", OutputKey: "answer", CreatedAt: at,
		Workflow: checkpoints.Workflow{ID: "release", Name: "Release", Start: "gate"}, WFState: map[string]json.RawMessage{},
	}))
	lease, _, err := registry.TryLeaseThread(ctx, "main", agents.LeaseOptions{TTL: time.Minute}, func(id string) (agents.Entry, error) {
		return agents.Entry{SessionID: id, Thread: "main", BaseState: "none", StartedAt: at, Status: agents.Active}, nil
	})
	must(err)
	claim, _, err := paused.Claim(ctx, "run-1")
	must(err)

	must(d.Write(ctx, "finish the run", func(tx *db.Tx) error {
		end := runs.Ended{
			RunID: "run-1", AgentID: "agent-a", EndedAt: tx.Now(),
			Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess}},
		}
		if err := traces.AppendTx(tx, runs.Batch{AgentID: "agent-a", RunID: "run-1", Records: []runs.Record{end}}); err != nil {
			return err
		}
		if err := claim.CompleteTx(tx); err != nil {
			return err
		}
		return lease.ReleaseTx(tx, agents.Complete)
	}))

	run, _, err := traces.Summary(ctx, "agent-a", "run-1")
	must(err)
	_, held, err := registry.Reservation(ctx, "main")
	must(err)
	fmt.Println(run.Status, "and the thread is held:", held)
	// Output: completed and the thread is held: false
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
