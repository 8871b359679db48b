package runs_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// An example for each call of the grammar (docs/grammar.md) that example_test.go does not have, and
// of what models used. docs/runs.md shows them.

// endedRuns gives a store over a file with ended runs of agent-a: run-1 from eight o'clock, run-2
// an hour later, and so on.
func endedRuns(n int) (traces *runs.Store, done func()) {
	d := exampleFile()
	traces = runs.NewStore(d, runs.Options{})
	for i := 1; i <= n; i++ {
		id, start := fmt.Sprint("run-", i), eight.Add(time.Duration(i-1)*time.Hour)
		err := traces.AppendRecords(ctx, "agent-a", id, []runs.Record{
			runs.Started{RunID: id, AgentID: "agent-a", Intent: "fix the build", StartedAt: start},
			runs.Turn{Index: 0},
			runs.Ended{RunID: id, AgentID: "agent-a", EndedAt: start.Add(time.Minute)},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	return traces, func() {
		if err := d.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleStore_Get() {
	traces, done := endedRuns(1)
	defer done()

	run, err := traces.Get(ctx, runs.RunRef{AgentID: "agent-a", RunID: "run-1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Intent, run.Status, run.TurnCount)

	_, err = traces.Get(ctx, runs.RunRef{AgentID: "agent-a", RunID: "run-9"})
	fmt.Println("missing:", errors.Is(err, db.ErrNotFound))
	// Output:
	// fix the build incomplete 1
	// missing: true
}

func ExampleStore_All() {
	traces, done := endedRuns(3)
	defer done()

	for run, err := range traces.All(ctx, runs.Filter{Since: eight.Add(time.Hour)}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(run.RunID, run.StartedAt.Format("15:04"))
	}
	// Output:
	// run-3 10:00
	// run-2 09:00
}

// What a person typed is the beginning of an id.
func ExampleStore_Find() {
	traces, done := endedRuns(2)
	defer done()

	found, err := traces.Find(ctx, "run-", 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, ref := range found {
		fmt.Println(ref.AgentID, ref.RunID)
	}
	// Output:
	// agent-a run-1
	// agent-a run-2
}

// What comes from the call on, to whichever run, also to ones that don't exist yet.
func ExampleStore_FollowAll() {
	traces, done := endedRuns(1)
	defer done()

	news := traces.FollowAll(ctx, runs.Filter{})
	if err := traces.WriteStarted(ctx, runs.Started{
		RunID: "run-2", AgentID: "agent-b",
		StartedAt: eight,
	}); err != nil {
		log.Fatal(err)
	}
	for item, err := range news {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Of.AgentID, item.Of.RunID, item.Item.Record.RecordKind())
		break // or go on, until the context ends
	}
	// Output: agent-b run-2 started
}

// The last two records of a run, and what is yet to come behind them.
func ExampleStore_CursorBefore() {
	traces, done := endedRuns(1)
	defer done()

	run := runs.RunRef{AgentID: "agent-a", RunID: "run-1"}
	cursor, err := traces.CursorBefore(ctx, run, 2)
	if err != nil {
		log.Fatal(err)
	}
	for item, err := range traces.Follow(ctx, run, cursor) {
		if err != nil {
			log.Fatal(err)
		}
		if item.What != db.Written {
			break
		}
		fmt.Println(item.Item.Sequence, item.Item.Record.RecordKind())
	}
	// Output:
	// 2 turn
	// 3 ended
}

func ExampleStore_Delete() {
	traces, done := endedRuns(1)
	defer done()

	run := runs.RunRef{AgentID: "agent-a", RunID: "run-1"}
	fmt.Println(traces.Delete(ctx, run))
	fmt.Println("missing:", errors.Is(traces.Delete(ctx, run), db.ErrNotFound))
	// Output:
	// <nil>
	// missing: true
}

// First what would go, then the same in earnest. The two newest runs of each agent stay.
func ExampleStore_Prune() {
	traces, done := endedRuns(5)
	defer done()

	policy := db.Policy{Count: 2, DryRun: true, Each: func(gone db.Gone) { fmt.Println(gone.Of, gone.ID) }}
	would, err := traces.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("would remove", would.Removed)

	policy.DryRun, policy.Each = false, nil
	pruned, err := traces.Prune(ctx, policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed", pruned.Removed, "and", pruned.Remaining, "remain")
	// Output:
	// agent-a run-1
	// agent-a run-2
	// agent-a run-3
	// would remove 3
	// removed 3 and 2 remain
}

// What is pinned no limit takes, until it is unpinned.
func ExampleStore_Pin() {
	traces, done := endedRuns(3)
	defer done()

	if err := traces.Pin(ctx, runs.RunRef{AgentID: "agent-a", RunID: "run-1"}); err != nil {
		log.Fatal(err)
	}
	pruned, err := traces.Prune(ctx, db.Policy{Age: time.Nanosecond})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 2 1 <nil>
}

func ExampleStore_Unpin() {
	traces, done := endedRuns(1)
	defer done()

	run := runs.RunRef{AgentID: "agent-a", RunID: "run-1"}
	if err := traces.Pin(ctx, run); err != nil {
		log.Fatal(err)
	}
	if err := traces.Unpin(ctx, run); err != nil {
		log.Fatal(err)
	}
	pruned, err := traces.Prune(ctx, db.Policy{Age: time.Nanosecond})
	fmt.Println(pruned.Removed, pruned.Remaining, err)
	// Output: 1 0 <nil>
}

// A program died in the middle of a run. Whoever comes next gives back what it held, nothing of
// those that live, and goes on.
func ExampleStore_Recover() {
	dir, err := os.MkdirTemp("", "runs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // this is an example
	leave(filepath.Join(dir, "agents.db"))

	d, err := db.Open(ctx, filepath.Join(dir, "agents.db"), db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	freed, err := traces.Recover(ctx)
	if err != nil {
		log.Fatal(err)
	}
	run, err := traces.Resume(ctx, runs.RunRef{AgentID: "agent-a", RunID: "run-1"})
	fmt.Println(freed, run.Ref().RunID, err)
	// Output: 1 run-1 <nil>
}

// leave holds a run, and closes the file before the run has ended: to others that is as if the
// process were gone.
func leave(path string) {
	d, err := db.Open(ctx, path, db.Options{})
	if err == nil {
		_, err = runs.NewStore(d, runs.Options{}).Begin(ctx,
			runs.Started{RunID: "run-1", AgentID: "agent-a", StartedAt: eight}, runs.BeginOptions{})
	}
	if err := errors.Join(err, d.Close()); err != nil {
		log.Fatal(err)
	}
}

// A run that is held: nobody else can hold it, and what is written under a lease that was lost is refused.
func ExampleStore_Begin() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})

	run, err := traces.Begin(ctx, runs.Started{RunID: "run-1", AgentID: "agent-a", Intent: "fix the build"},
		runs.BeginOptions{})
	if err != nil {
		log.Fatal(err)
	}
	work, stop := run.Keep(ctx) // renews the lease; work ends once it is lost
	defer stop()
	if err := run.Append(work, runs.Turn{Index: 0}); err != nil {
		log.Fatal(err)
	}
	_, err = traces.Begin(ctx, runs.Started{RunID: "run-1", AgentID: "agent-a"}, runs.BeginOptions{})
	fmt.Println("taken:", errors.Is(err, db.ErrConflict))
	outcome := &runs.AgentOutcome{Status: runs.OutcomeSuccess}
	fmt.Println("ended:", run.End(ctx, runs.Termination{Outcome: outcome}))
	// Output:
	// taken: true
	// ended: <nil>
}

// One process leaves a run open, and another goes on with it.
func ExampleStore_Resume() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	first, err := traces.Begin(ctx, runs.Started{RunID: "run-1", AgentID: "agent-a"}, runs.BeginOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := first.Release(ctx); err != nil {
		log.Fatal(err)
	}

	second, err := traces.Resume(ctx, runs.RunRef{AgentID: "agent-a", RunID: "run-1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first has lost it:", errors.Is(first.Append(ctx, runs.Turn{Index: 0}), db.ErrLeaseLost))
	fmt.Println("the second writes:", second.Append(ctx, runs.Turn{Index: 0}))
	// Output:
	// the first has lost it: true
	// the second writes: <nil>
}

// The epoch is what a program has to remember of a run that it holds.
func ExampleStore_Reattach() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	run, err := traces.Begin(ctx, runs.Started{RunID: "run-1", AgentID: "agent-a"}, runs.BeginOptions{})
	if err != nil {
		log.Fatal(err)
	}

	again, err := traces.Reattach(ctx, run.Ref(), run.Epoch())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Append(ctx, runs.Turn{Index: 0}))

	_, err = traces.Reattach(ctx, run.Ref(), run.Epoch()-1)
	fmt.Println("an older epoch:", errors.Is(err, db.ErrLeaseLost))
	// Output:
	// <nil>
	// an older epoch: true
}

// What each turn of a model cost. The view v_usage has the same for all records of the file, and no
// use twice.
func ExampleTraceRecord_Usage() {
	d := exampleFile()
	defer d.Close() //nolint:errcheck // this is an example
	traces := runs.NewStore(d, runs.Options{})
	err := traces.AppendRecords(ctx, "agent-a", "run-1", []runs.Record{
		runs.Unknown{Kind: "model_turn", Raw: []byte(
			`{"record":"model_turn","token_usage":{"prompt_tokens":100,"completion_tokens":20},"cost_usd":0.25}`)},
	})
	if err != nil {
		log.Fatal(err)
	}

	for record, err := range traces.Trace(ctx, runs.RunRef{AgentID: "agent-a", RunID: "run-1"}) {
		if err != nil {
			log.Fatal(err)
		}
		if u := record.Usage(); u.CostUSD != nil {
			fmt.Println(*u.InputTokens, *u.OutputTokens, *u.CostUSD)
		}
	}
	// Output: 100 20 0.25
}
