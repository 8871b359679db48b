package workers_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"selvedge/db"
	"selvedge/workers"
)

func Example() {
	ctx := context.Background()
	r, err := workers.WithOptions(ctx, workers.RuntimeOptions{RuntimeID: "build"})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a writer to memory
	w, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{
		Intent:                workers.TaskIntent("fix the build"),
		Profile:               workers.BuiltinProfile("coder"),
		RequestedCapabilities: []workers.CapabilityRequest{workers.NamedCapability("shell")},
	})
	if err != nil {
		log.Fatal(err)
	}
	ack, err := r.SendInput(ctx, w.WorkerRef, workers.UserInput("begin with the linter"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.WorkerID, ack.TranscriptSequence, ack.EventID)
	// Output: worker-00000001 1 3
}

func ExampleRuntime_Follow() {
	ctx := context.Background()
	r, err := workers.NewMemory(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a writer to memory
	if _, err := r.StopRuntime(ctx); err != nil {
		log.Fatal(err)
	}
	for item, err := range r.Follow(ctx, "") { // from the beginning; else from an item.Cursor that was kept
		if err != nil {
			log.Fatal(err)
		}
		if item.What == db.StatusChanged {
			fmt.Println("now", item.Status)
			break
		}
		fmt.Println(item.Item.ID, item.Item.Kind)
	}
	// Output:
	// 1 runtime_started
	// 2 runtime_stopped
	// now stopped
}

func ExampleRuntimeError() {
	ctx := context.Background()
	r, err := workers.WithOptions(ctx, workers.RuntimeOptions{RuntimeID: "build"})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a writer to memory
	_, err = r.WorkerDetail(ctx, workers.NewWorkerRef("build", "worker-00000007"))
	if refusal, ok := errors.AsType[*workers.RuntimeError](err); ok {
		fmt.Println(refusal.Kind, errors.Is(err, db.ErrNotFound))
	}
	fmt.Println(err)
	// Output:
	// WorkerNotFound true
	// worker worker-00000007 was not found in runtime build
}
