package workers_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

func TestMain(m *testing.M) {
	dbtest.Main(m, map[string]dbtest.Program{"sender": sender, "follower": follower, "inputter": inputter})
}

const sharedRuntime = "runtime-shared"

// sender makes a worker in the shared runtime and sends it inputs, and says each event id once it
// is acknowledged. Arguments: path, what to say.
func sender(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{})
	if err != nil {
		return err
	}
	r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: sharedRuntime})
	if err != nil {
		return err
	}
	w, err := r.CreateWorker(ctx, taskRequest(args[1]))
	if err != nil {
		return err
	}
	fmt.Println(w.WorkerID, w.LastEventID)
	for {
		ack, err := r.SendInput(ctx, w.WorkerRef, workers.UserInput(args[1]))
		if err != nil {
			return err
		}
		fmt.Println(w.WorkerID, ack.EventID)
	}
}

// follower says the ids of the events of the shared runtime behind a cursor, each with its own,
// until its input ends. Arguments: path, cursor.
func follower(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d, err := db.Open(ctx, args[0], db.Options{})
	if err != nil {
		return err
	}
	r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: sharedRuntime})
	if err != nil {
		return err
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			continue
		}
		cancel()
	}()
	for item, err := range r.Follow(ctx, args[1]) {
		if err != nil {
			break // told to end
		}
		fmt.Println(item.Item.ID, item.Cursor)
	}
	return d.Close()
}
