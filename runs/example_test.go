package runs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

var (
	ctx   = context.Background()
	eight = time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC)
)

// A file on disk is opened the same way: db.Open(ctx, "agents.db", db.Options{}).
func exampleFile() *db.DB {
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return d
}

func Example() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})

	err := traces.WriteStarted(ctx, runs.Started{
		RunID: "run-1", AgentID: "agent-a", Intent: "fix the build",
		StartedAt: eight,
	})
	if err != nil {
		log.Fatal(err)
	}
	prompt := "run the tests"
	err = traces.AppendTurns(ctx, "agent-a", "run-1", []runs.Turn{{
		Prompt: &prompt, Parameters: json.RawMessage(`{"cmd":"go test"}`),
		Output: json.RawMessage(`{"exit_code":0}`), VerifierVerdict: runs.VerdictPass,
	}})
	if err != nil {
		log.Fatal(err)
	}
	err = traces.WriteEnded(ctx, runs.Ended{
		RunID: "run-1", AgentID: "agent-a", EndedAt: eight.Add(time.Minute),
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{
			Status:  runs.OutcomeSuccess,
			Summary: "green again",
		}},
	})
	if err != nil {
		log.Fatal(err)
	}

	list, err := traces.ListRuns(ctx, "agent-a")
	if err != nil {
		log.Fatal(err)
	}
	for _, run := range list {
		fmt.Println(run.RunID, run.Status, run.Outcome, run.TurnCount)
	}
	// Output: run-1 completed success 1
}

func ExampleStore_Trace() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	err := traces.AppendRecords(ctx, "agent-a", "run-1", []runs.Record{
		runs.Started{RunID: "run-1", AgentID: "agent-a", StartedAt: eight},
		runs.Turn{Index: 0},
		runs.Unknown{Kind: "model_turn", Raw: json.RawMessage(`{"record":"model_turn","index":1}`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	for record, err := range traces.Trace(ctx, runs.RunRef{AgentID: "agent-a", RunID: "run-1"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(record.Record.RecordKind())
	}
	// Output:
	// started
	// turn
	// model_turn
}

func ExampleStore_Append() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	batch := runs.Batch{
		AgentID: "agent-a", RunID: "run-1", Key: "request-17",
		Records: []runs.Record{runs.Turn{Index: 0}},
	}
	for range 2 { // the second time as if the first answer had been lost
		if _, err := traces.Append(ctx, batch); err != nil {
			log.Fatal(err)
		}
	}
	records, _, err := traces.GetRunTrace(ctx, "run-1")
	fmt.Println(len(records), err)
	// Output: 1 <nil>
}

func ExampleStore_Page() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	for i := range 5 {
		err := traces.WriteStarted(ctx, runs.Started{
			RunID: fmt.Sprint("run-", i), AgentID: "agent-a",
			StartedAt: eight.Add(time.Duration(i) * time.Hour),
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	agent := "agent-a"
	page := db.At{Limit: 2}
	for {
		got, err := traces.Page(ctx, runs.Filter{Agent: &agent, Since: eight.Add(time.Hour)}, page)
		if err != nil {
			log.Fatal(err)
		}
		var ids []any
		for _, run := range got.Items {
			ids = append(ids, run.RunID)
		}
		fmt.Println(ids...)
		if page.After = got.Next; page.After == "" {
			break
		}
	}
	// Output:
	// run-4 run-3
	// run-2 run-1
}

func ExampleStore_AdoptOrphans() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	if err := traces.WriteStarted(ctx, runs.Started{
		RunID: "run-1", AgentID: "agent-a",
		StartedAt: eight,
	}); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		fmt.Println(traces.AdoptOrphans(ctx))
	}
	// Output:
	// 1 <nil>
	// 0 <nil>
}

// Records as they come, from whichever process, until the run has ended. A cursor that is kept goes on later.
func ExampleStore_Follow() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	if err := traces.WriteStarted(ctx, runs.Started{
		RunID: "run-1", AgentID: "agent-a",
		StartedAt: eight,
	}); err != nil {
		log.Fatal(err)
	}
	go func() {
		err := traces.AppendTurns(ctx, "agent-a", "run-1", []runs.Turn{{Index: 0}, {Index: 1}})
		if err == nil {
			err = traces.WriteEnded(ctx, runs.Ended{
				RunID: "run-1", AgentID: "agent-a",
				EndedAt: eight.Add(time.Minute),
			})
		}
		if err != nil {
			log.Print(err)
		}
	}()
	for r, err := range traces.Follow(ctx, runs.RunRef{AgentID: "agent-a", RunID: "run-1"}, "") {
		if err != nil {
			log.Fatal(err)
		}
		if r.What == db.StatusChanged {
			fmt.Println(r.Status)
			break
		}
		fmt.Println(r.Item.Sequence, r.Item.Record.RecordKind())
	}
	// Output:
	// 1 started
	// 2 turn
	// 3 turn
	// 4 ended
	// incomplete
}
