package runs_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// appenderProgram appends turns to two runs, one at a time and several at once, until it is killed,
// and says what was acknowledged.
func appenderProgram(args []string) error {
	ctx := context.Background()
	// a killed process loses nothing then either
	d, err := db.Open(ctx, args[0], db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	s := runs.NewStore(d, runs.Options{})
	if err := s.WriteStarted(ctx, started(args[1], "a", start)); err != nil {
		return err
	}
	fmt.Println("0")
	for next := 0; ; {
		turns := []runs.Turn{turn(uint64(next), "p")}
		if next%7 == 3 {
			turns = append(turns, turn(uint64(next+1), strings.Repeat("long ", 2000)))
		}
		if err := s.AppendTurns(ctx, "a", args[1], turns); err != nil {
			return err
		}
		next += len(turns)
		fmt.Println(next)
	}
}

func TestWhatWasAcknowledgedSurvivesAKill(t *testing.T) {
	path := dbtest.Path(t)
	dbtest.OpenAt(t, path, db.Options{})
	for round := range 12 {
		run := fmt.Sprint("run-", round)
		p := dbtest.Start(t, "appender", path, run)
		p.Expect("0")
		acknowledged := 0
		read := func() bool {
			line, ok := p.Line()
			if ok {
				_, err := fmt.Sscan(line, &acknowledged)
				must(t, err)
			}
			return ok
		}
		for acknowledged < round*round*3 {
			if !read() {
				t.Fatalf("the process of round %d ended by itself", round)
			}
		}
		p.Signal(syscall.SIGKILL)
		for read() { // what it said before it died
		}
		p.Kill()
		s := runs.NewStore(dbtest.OpenAt(t, path, db.Options{}), runs.Options{})
		records := trace(t, s, run)[1:]
		if len(records) < acknowledged {
			t.Errorf("round %d: %d of %d acknowledged turns are there", round, len(records), acknowledged)
		}
		for i, r := range records {
			if got := r.(runs.Turn).Index; got != uint64(i) {
				t.Fatalf("round %d: turn %d is where %d should be", round, got, i)
			}
		}
		adopt(t, s, 1)
	}
}
