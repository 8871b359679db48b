package live_test

import (
	"context"
	"fmt"
	"log"

	"selvedge/db"
	"selvedge/runs/live"
)

func Example() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	store := live.NewStore(d, live.Options{})

	run, err := store.CreateRun(ctx, "session-1", "fix tests")
	if err != nil {
		log.Fatal(err)
	}
	events := []live.Event{live.AgentStart("fix tests"), live.TextDelta("on it"), live.AgentEnd("done")}
	for _, event := range events {
		if run, _, err = store.RecordEvent(ctx, run.ID, event); err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type(), run.Status, run.EventCount)
	}
	// Output:
	// agent_start executing 1
	// text_delta executing 2
	// agent_end completed 3
}

// A start that may be repeated: the second call gets the run of the first.
func ExampleStore_ReserveRunWithID() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	store := live.NewStore(d, live.Options{})

	for range 2 {
		r, err := store.ReserveRunWithID(ctx, "job-4711", "session-1", "fix tests")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Snapshot.ID, r.Existing)
	}
	// Output:
	// job-4711 false
	// job-4711 true
}

// A handle stops the current run of its session.
func ExampleRunHandle_Cancel() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	store, session := live.NewStore(d, live.Options{}), &live.Session{}

	run, err := store.CreateRun(ctx, "session-1", "fix tests")
	if err != nil {
		log.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	session.SetCurrent(run.ID, stop)

	cancelled, err := live.NewRunHandle(run.ID, run.SessionID, store, session, nil).Cancel(ctx)
	if err != nil {
		log.Fatal(err)
	}
	<-work.Done() // what the agent waits for
	run, _, err = store.Snapshot(ctx, run.ID)
	fmt.Println(cancelled, run.Status, err)
	// Output: true cancelled <nil>
}

// Events as they come, until the run has ended.
func ExampleStore_Follow() {
	ctx := context.Background()
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	store := live.NewStore(d, live.Options{})
	run, err := store.CreateRun(ctx, "session-1", "fix tests")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for _, event := range []live.Event{
			live.AgentStart("fix tests"), live.TextDelta("on it"),
			live.AgentEnd("done"),
		} {
			if _, _, err := store.RecordEvent(ctx, run.ID, event); err != nil {
				log.Print(err)
			}
		}
	}()
	for item, err := range store.Follow(ctx, run.ID, "") {
		if err != nil {
			log.Fatal(err)
		}
		if item.What == db.Written {
			fmt.Println(item.Item.Sequence, item.Item.Event.Type())
		}
		if item.What == db.StatusChanged && live.RunStatus(item.Status).Ended() {
			fmt.Println(item.Status)
			break
		}
	}
	// Output:
	// 0 agent_start
	// 1 text_delta
	// 2 agent_end
	// completed
}

// Events are made with functions and structs, and deltas say which attempt they belong to.
func ExampleEvent_In() {
	turn := live.TurnEnd(1, db.Usage{InputTokens: new(uint64(2410)), OutputTokens: new(uint64(188))})
	tool := live.EventOf(live.ToolEnd{ID: "toolu_01", Name: "read", Output: "fn main() {}"})
	text := live.TextDelta("on it").In(2, 1) // turn 2, attempt 1

	fmt.Println(*turn.Usage().InputTokens, string(tool.JSON()))
	n, attempt, ok := text.Turn()
	fmt.Println(n, attempt, ok)
	// Output:
	// 2410 {"type":"tool_end","id":"toolu_01","name":"read","output":"fn main() {}","exit_code":0}
	// 2 1 true
}
