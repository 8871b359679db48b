package runs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// writerProgram opens the file, starts the run that each line of stdin names, and says so. A run
// named held-… it holds.
func writerProgram(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{})
	if err != nil {
		return err
	}
	s := runs.NewStore(d, runs.Options{})
	for {
		var run string
		if n, _ := fmt.Fscanln(os.Stdin, &run); n == 0 {
			return d.Close()
		}
		begin := func() error { return s.WriteStarted(ctx, started(run, "a", start)) }
		if strings.HasPrefix(run, "held-") {
			begin = func() error { _, err := s.Begin(ctx, started(run, "a", start), runs.BeginOptions{}); return err }
		}
		if err := begin(); err != nil {
			return err
		}
		fmt.Println("started", run)
	}
}

func adopt(t *testing.T, s *runs.Store, want int) {
	t.Helper()
	if adopted, err := s.AdoptOrphans(t.Context()); err != nil || adopted != want {
		t.Errorf("adopted %d (%v), not %d", adopted, err, want)
	}
}

func TestAdoptionSparesRunsOfAnotherLivingProcess(t *testing.T) {
	path := dbtest.Path(t)
	s := runs.NewStore(dbtest.OpenAt(t, path, db.Options{}), runs.Options{})
	other := dbtest.Start(t, "writer", path)
	other.Send("theirs")
	other.Expect("started theirs")
	must(t, s.WriteStarted(t.Context(), started("ours", "a", start)))

	if r, err := s.Resume(t.Context(), runs.RunRef{AgentID: "a", RunID: "theirs"}); r != nil ||
		!errors.Is(err, db.ErrConflict) {
		t.Errorf("what another process writes was taken up: %v", err)
	}
	adopt(t, s, 1)
	other.Signal(syscall.SIGSTOP) // stopped is not dead
	adopt(t, s, 0)
	other.Signal(syscall.SIGCONT)

	other.Send("another")
	other.Expect("started another")
	// A helper's append takes no run from a process that lives.
	must(t, s.AppendTurns(t.Context(), "a", "another", []runs.Turn{turn(0, "p")}))
	adopt(t, s, 0)
	status := map[string]runs.RunStatus{}
	for _, run := range list(t, s, "a") {
		status[run.RunID] = run.Status
	}
	if status["theirs"] != runs.StatusInProgress || status["ours"] != runs.StatusIncomplete ||
		status["another"] != runs.StatusInProgress {
		t.Errorf("the runs are %v", status)
	}

	other.Kill()
	// From a dead one it does.
	must(t, s.AppendTurns(t.Context(), "a", "another", []runs.Turn{turn(1, "p")}))
	adopt(t, s, 2)
	adopt(t, s, 0)
	must(t, handle(s).Write(t.Context(), "forget", func(tx *db.Tx) error {
		must(t, tx.Store().ForgetDeadOwners())
		var n int
		must(t, tx.Get(&n, `SELECT count(*) FROM owners`))
		if n != 1 {
			t.Errorf("%d owners are left: nothing should refer to the dead one", n)
		}
		return nil
	}))
}

func TestAdopt_ImportedRunsAreWrittenIntoRun(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	const text = `{"record":"started","run_id":"else","agent_id":"other","intent":"i","started_at":"2021-03-01T08:00:00Z"}` + "\n"
	importTrace(t, d, s, ref, text)
	adopt(t, s, 1)
	adopt(t, s, 0)
	const end = `{"record":"ended","run_id":"else","agent_id":"other","termination":{"kind":"incomplete"},"ended_at":"2026-05-04T08:00:00Z"}` + "\n"
	if got := exportTrace(t, s, ref); got != text+end {
		t.Errorf("the trace is\n%s", got)
	}
	if _, found, err := s.GetRunTrace(t.Context(), "else"); found || err != nil {
		t.Errorf("a stray run is there (%v)", err)
	}
}

func TestAdoptionPassesBy(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	for run, records := range map[string][]runs.Record{
		"cancelled": {started("r", "a", start), cancelled("2026-05-04T08:00:00Z")},
		"pending":   {started("r", "a", start), laterRecord("cancellation_result")},
		"no-start":  {turn(0, "p")},
	} {
		must(t, s.AppendRecords(t.Context(), "a", run, records))
	}
	adopt(t, s, 0)
	// An end still closes the pending one.
	must(t, s.AppendRecords(t.Context(), "a", "pending",
		[]runs.Record{ended("r", "a", runs.OutcomeGiveUp, start)}))
	run, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: "pending"})
	if err != nil || run.Status != runs.StatusCompleted || run.Outcome != runs.OutcomeGiveUp {
		t.Errorf("the run is %+v (%v)", run, err)
	}
}

func TestAdopt_RerunCountsEachOnce(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	for i := range 3 {
		must(t, s.WriteStarted(t.Context(), started(fmt.Sprint(i), "a", start)))
	}
	dbtest.Again(t, d, func() { adopt(t, s, 3) })
}

func TestAdoptionJudgesAnewWhatChangedSinceItLooked(t *testing.T) {
	path := dbtest.Path(t)
	other := runs.NewStore(dbtest.OpenAt(t, path, db.Options{}), runs.Options{})
	looking := false
	d := dbtest.OpenAt(t, path, db.Options{Observe: func(o db.Observation) {
		if o.Write || !looking {
			return
		}
		looking = false
		for _, run := range []string{"removed", "without a start"} { // and made anew
			must(t, other.AppendRecords(t.Context(), "a", run,
				[]runs.Record{ended(run, "a", runs.OutcomeDone, start)}))
			must(t, other.Delete(t.Context(), runs.RunRef{AgentID: "a", RunID: run}))
		}
		must(t, other.AppendTurns(t.Context(), "a", "without a start", []runs.Turn{turn(0, "p")}))
		must(t, other.AppendRecords(t.Context(), "a", "ended",
			[]runs.Record{ended("ended", "a", runs.OutcomeDone, start)}))
	}})
	s := runs.NewStore(d, runs.Options{})
	for _, run := range []string{"removed", "without a start", "ended", "open"} {
		must(t, s.WriteStarted(t.Context(), started(run, "a", start)))
	}
	looking = true
	adopt(t, s, 1)
	if _, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: "removed"}); !errors.Is(err,
		db.ErrNotFound) {
		t.Errorf("what was removed came back: %v", err)
	}
	for run, want := range map[string][]string{
		"without a start": {"turn"}, "ended": {"started", "ended"},
		"open": {"started", "ended"},
	} {
		if got := kinds(t, s, "a", run); !slices.Equal(got, want) {
			t.Errorf("%s: the trace is %v", run, got)
		}
	}
}

func TestAdopt_ManyRunsShareOneTime(t *testing.T) {
	clock := dbtest.NewClock(start)
	turns := 0
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now, Observe: func(o db.Observation) {
		clock.Advance(1)
		if o.Write && o.Why == "adopt orphans" {
			turns++
		}
	}})
	s := runs.NewStore(d, runs.Options{})
	for i := range 450 {
		must(t, s.WriteStarted(t.Context(), started(fmt.Sprint(i), "a", start)))
	}
	adopt(t, s, 450)
	if turns != 9 {
		t.Errorf("it took %d turns of the writer, of 50 runs each", turns)
	}
	times := map[string]bool{}
	for _, run := range list(t, s, "a") {
		times[chrono.Format(*run.EndedAt)] = true
	}
	if len(times) != 1 {
		t.Errorf("the ends have %d times", len(times))
	}
}
