package live_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

var programs = map[string]dbtest.Program{
	"append": appendProgram, "hold": holdProgram,
	"replace": replaceProgram,
}

// holdProgram begins and holds the runs whose ids it reads.
func holdProgram(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{})
	if err != nil {
		return err
	}
	store := live.NewStore(d, live.Options{})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		r, err := store.Begin(ctx, live.Start{ID: in.Text(), SessionID: "theirs"})
		if err != nil {
			return err
		}
		if _, err := r.Append(ctx, live.AgentStart("p")); err != nil {
			return err
		}
		fmt.Println("holds " + in.Text())
	}
	return d.Close()
}

// appendProgram records events on a run, args[2] of them or without end, and says the count after
// each once it is stored.
func appendProgram(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{})
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // the test judges the file
	store := live.NewStore(d, live.Options{})
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if !bufio.NewScanner(os.Stdin).Scan() {
		return nil
	}
	for i := 0; n == 0 || i < n; i++ {
		run, found, err := store.RecordEvent(ctx, args[1], live.TextDelta(fmt.Sprint(os.Getpid(), " ", i)))
		if err != nil || !found {
			return fmt.Errorf("event %d: found %v, %w", i, found, err)
		}
		fmt.Println(run.EventCount)
	}
	return nil
}

func TestSeveralProcessesWriteOneRun(t *testing.T) {
	const processes, each = 4, 40
	path := dbtest.Path(t)
	store := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	run := create(t, store, "p")
	var wg sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]bool{}
	for range processes {
		p := dbtest.Start(t, "append", path, run.ID, strconv.Itoa(each))
		p.Expect("ready")
		p.Send("go")
		wg.Go(func() {
			for range each {
				line, _ := p.Line()
				mu.Lock()
				counts[line] = true
				mu.Unlock()
			}
			p.Wait()
		})
	}
	wg.Wait()
	if len(counts) != processes*each {
		t.Errorf("the processes got %d different counts of %d", len(counts), processes*each)
	}
	for i, e := range eventsOf(t, store, run.ID) {
		if e.Sequence != uint64(i) {
			t.Fatalf("event %d has sequence %d", i, e.Sequence)
		}
	}
	if n := snapshotOf(t, store, run.ID).EventCount; n != processes*each {
		t.Errorf("the run counts %d events", n)
	}
}

func TestAKilledProcessLosesNothingThatItAcknowledged(t *testing.T) {
	path := dbtest.Path(t)
	store := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	run := create(t, store, "p")
	acknowledged := 0
	for round := range 3 {
		p := dbtest.Start(t, "append", path, run.ID, "0")
		p.Expect("ready")
		p.Send("go")
		for range 10 + 7*round {
			line, ok := p.Line()
			if !ok {
				t.Fatal("the process ended by itself")
			}
			n, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			acknowledged = n
		}
		p.Kill()
		events := eventsOf(t, store, run.ID)
		if len(events) < acknowledged {
			t.Errorf("%d events were acknowledged, %d are there", acknowledged, len(events))
		}
		for i, e := range events {
			if e.Sequence != uint64(i) {
				t.Fatalf("event %d has sequence %d", i, e.Sequence)
			}
		}
		if n := snapshotOf(t, store, run.ID).EventCount; n != uint64(len(events)) {
			t.Errorf("the run counts %d events and has %d", n, len(events))
		}
	}
}
