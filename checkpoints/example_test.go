package checkpoints_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
)

// A workflow pauses at an approval stage; later one process claims it, reads what it needs, and
// completes the claim.
func ExampleStore_Claim() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // this is an example
	store := checkpoints.NewStore(d, checkpoints.Options{})

	err = store.Save(ctx, &checkpoints.PausedWorkflow{
		RunID:         "deploy-17",
		Workflow:      checkpoints.Workflow{ID: "deploy", Name: "Deploy", Start: "gate", MaxIterations: 100},
		PausedStageID: "gate",
		Prompt:        "Deploy this build?",
		OutputKey:     "approval",
		CreatedAt:     time.Now(),
	})
	if err != nil {
		log.Fatal(err)
	}

	claim, ok, err := store.Claim(ctx, "deploy-17")
	if err != nil || !ok {
		log.Fatal(ok, err)
	}
	paused, err := claim.Paused()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(paused.Prompt)

	_, again, err := store.Claim(ctx, "deploy-17")
	fmt.Println("a second claim:", again, err)

	fmt.Println("completed:", claim.Complete(ctx))
	fmt.Println("once more:", errors.Is(claim.Complete(ctx), db.ErrLeaseLost))
	// Output:
	// Deploy this build?
	// a second claim: false <nil>
	// completed: <nil>
	// once more: true
}

// The end of a resumed run is one transaction across three stores: its trace ends, its claim is
// completed, and the thread of its agent is free, or nothing of it happened.
func ExampleClaim_CompleteTx() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // this is an example
	traces, registry := runs.NewStore(d, runs.Options{}), agents.NewRegistry(d, agents.Options{})
	paused := checkpoints.NewStore(d, checkpoints.Options{})

	lease, _, err := registry.TryLeaseThread(ctx, "main", db.LeaseTerms{TTL: time.Minute},
		func(id string) (agents.Entry, error) {
			return agents.Entry{
				SessionID: id, Thread: "main", BaseState: "none", StartedAt: time.Now(),
				Status: agents.Active,
			}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := traces.WriteStarted(ctx, runs.Started{
		RunID: "r", AgentID: "agent-a", Intent: "deploy",
		StartedAt: time.Now(),
	}); err != nil {
		log.Fatal(err)
	}
	if err := paused.Save(ctx, sample("r")); err != nil {
		log.Fatal(err)
	}
	claim, ok, err := paused.Claim(ctx, "r")
	if err != nil || !ok {
		log.Fatal(ok, err)
	}

	err = d.Write(ctx, "end run", func(tx *db.Tx) error {
		outcome := runs.AgentOutcome{Status: runs.OutcomeSuccess, Timestamp: tx.Now()}
		ended := runs.Ended{
			RunID: "r", AgentID: "agent-a", EndedAt: tx.Now(),
			Termination: runs.Termination{Outcome: &outcome},
		}
		if _, err := traces.AppendTx(tx, runs.Batch{
			AgentID: "agent-a", RunID: "r",
			Records: []runs.Record{ended},
		}); err != nil {
			return err
		}
		if err := claim.CompleteTx(tx); err != nil { // ErrLeaseLost would undo the end of the run, too
			return err
		}
		return lease.ReleaseTx(tx, agents.Complete)
	})
	fmt.Println(err)

	summary, err := traces.Get(ctx, runs.RunRef{AgentID: "agent-a", RunID: "r"})
	if err != nil {
		log.Fatal(err)
	}
	recovered, err := paused.RecoverOrphaned(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, held, err := registry.Reservation(ctx, "main")
	fmt.Println(summary.Status, recovered, held, err)
	// Output:
	// <nil>
	// completed 0 false <nil>
}
