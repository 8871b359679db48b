package runs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// holdProgram begins and holds the runs of agent "a" whose ids it reads.
func holdProgram(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{})
	if err != nil {
		return err
	}
	s := runs.NewStore(d, runs.Options{})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		r, err := s.Begin(ctx, runs.Started{RunID: in.Text(), AgentID: "a"}, runs.BeginOptions{})
		if err == nil {
			err = r.Append(ctx, turn(0, "theirs"))
		}
		if err != nil {
			return err
		}
		fmt.Println("holds " + in.Text())
	}
	return d.Close()
}

// outsiders are the calls that write to run "r" of agent "a" without its lease.
func outsiders(ctx context.Context, s *runs.Store, d *db.DB) map[string]func() error {
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	batch := func(records ...runs.Record) runs.Batch {
		return runs.Batch{AgentID: "a", RunID: "r", Records: records}
	}
	return map[string]func() error{
		"Append":        func() error { return second(s.Append(ctx, batch(turn(9, "x")))) },
		"Append, keyed": func() error { b := batch(turn(9, "x")); b.Key = "k"; return second(s.Append(ctx, b)) },
		"AppendTx": func() error {
			return d.Write(ctx, "test", func(tx *db.Tx) error { return second(s.AppendTx(tx, batch(turn(9, "x")))) })
		},
		"AppendRecords": func() error {
			return s.AppendRecords(ctx, "a", "r", []runs.Record{turn(9, "x"), turn(10, "y")})
		},
		"AppendTurns":  func() error { return s.AppendTurns(ctx, "a", "r", []runs.Turn{turn(9, "x")}) },
		"WriteStarted": func() error { return s.WriteStarted(ctx, started("r", "a", start)) },
		"WriteEnded":   func() error { return s.WriteEnded(ctx, runs.Ended{RunID: "r", AgentID: "a"}) },
		"Resume":       func() error { return second(s.Resume(ctx, ref)) },
		"Delete":       func() error { return s.Delete(ctx, ref) },
	}
}

func refusesOutsiders(t *testing.T, s *runs.Store, d *db.DB, pid int) {
	t.Helper()
	before := len(recordsOf(t, s, "a", "r"))
	for name, write := range outsiders(t.Context(), s, d) {
		err := write()
		held, ok := errors.AsType[*db.ReservedError](err)
		if !errors.Is(err, db.ErrConflict) || !ok || held.Holder.PID != pid || db.Hint(err) == "" ||
			!strings.Contains(err.Error(), `run "r"`) {
			t.Errorf("%s gave %v (hint %q)", name, err, db.Hint(err))
		}
	}
	if after := len(recordsOf(t, s, "a", "r")); after != before {
		t.Errorf("the trace has %d records, not %d", after, before)
	}
}

func recordsOf(t *testing.T, s *runs.Store, agent, run string) []runs.Record {
	t.Helper()
	all, _, err := s.GetRunTraceFor(t.Context(), agent, run)
	must(t, err)
	return all
}

func epochs(t *testing.T, d *db.DB, run string) (epoch, owner *int64) {
	t.Helper()
	var row struct {
		Epoch *int64 `db:"epoch"`
		Owner *int64 `db:"owner_id"`
	}
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Get(&row, `SELECT epoch, owner_id FROM runs WHERE run_id = ?`, run)
	}))
	return row.Epoch, row.Owner
}

func TestHeldRun_RefusesOtherProcesses(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	s := runs.NewStore(d, runs.Options{})
	holder := dbtest.Start(t, "hold", path)
	holder.Send("r")
	holder.Expect("holds r")
	refusesOutsiders(t, s, d, holder.Pid())
	if n, err := s.AdoptOrphans(t.Context()); n != 0 || err != nil {
		t.Errorf("adopted %d: %v", n, err)
	}

	holder.Kill()
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(1, "mine")}))
	if epoch, owner := epochs(t, d, "r"); epoch != nil || owner == nil {
		t.Errorf("the epoch is %v, the owner %v", epoch, owner)
	}
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(2, "mine")}))
	if got := len(recordsOf(t, s, "a", "r")); got != 4 {
		t.Errorf("the trace has %d records", got)
	}
}

func TestHeldRun_RefusesItsOwnProcess(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := runs.NewStore(d, runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(0, "free")})) // its key is known from now on
	r, err := s.Resume(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"})
	must(t, err)
	refusesOutsiders(t, s, d, os.Getpid())
	must(t, r.Append(t.Context(), turn(1, "held"), turn(2, "held")))
	must(t, r.Append(t.Context(), turn(3, "held")))
	must(t, r.Release(t.Context()))
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(4, "free")}))
	if err := r.Append(t.Context(), turn(5, "stale")); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("a stale holder: %v", err)
	}
	if got := len(recordsOf(t, s, "a", "r")); got != 6 {
		t.Errorf("the trace has %d records", got)
	}
}

func TestHeldRun_UpgradeKeepsItHeld(t *testing.T) {
	path := dbtest.Path(t)
	old, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	terms := db.LeaseTerms{TTL: time.Hour, Detached: true}
	r, err := runs.NewStore(old, runs.Options{Lease: terms}).Begin(t.Context(), started("r", "a", start),
		runs.BeginOptions{})
	must(t, err)
	must(t, old.Close())
	for _, version := range []int64{21, maintenance.SchemaVersion()} {
		_, err := maintenance.Migrate(t.Context(), path, db.Options{SchemaVersion: version})
		must(t, err)
	}
	d := dbtest.OpenAt(t, path, db.Options{})
	s := runs.NewStore(d, runs.Options{})
	refusesOutsiders(t, s, d, 0)
	again, err := s.Reattach(t.Context(), r.Ref(), r.Epoch())
	must(t, err)
	must(t, again.Append(t.Context(), turn(0, "p")))
}

func TestHeldRun_EndedTakesNoMore(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, r.Append(t.Context(), runs.Ended{
		RunID: "r", AgentID: "a",
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeDone}},
	}))
	if err := r.Append(t.Context(), turn(0, "late")); !errors.Is(err, db.ErrConflict) || db.Hint(err) == "" {
		t.Errorf("it gave %v", err)
	}
	must(t, r.Release(t.Context()))
}

// Its process lives, but did not renew in time.
func TestResume_AfterTTLFromLivingProcess(t *testing.T) {
	path := dbtest.Path(t)
	now := time.Duration(0)
	open := func() *db.DB {
		return dbtest.OpenAt(t, path, db.Options{BootTime: func() db.BootTime {
			return db.BootTime{Boot: "b", Since: now}
		}})
	}
	first := runs.NewStore(open(), runs.Options{Lease: db.LeaseTerms{TTL: time.Minute}})
	d := open()
	other := runs.NewStore(d, runs.Options{})
	r, err := first.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	refusesOutsiders(t, other, d, os.Getpid())
	now = 2 * time.Minute
	taken, err := other.Resume(t.Context(), r.Ref())
	must(t, err)
	if err := r.Append(t.Context(), turn(0, "stale")); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("a stale holder: %v", err)
	}
	must(t, taken.Append(t.Context(), turn(0, "p")))
}

func TestHeldRun_ErrorsNameTheRun(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	r, err := s.Begin(t.Context(), started("build-42", "a", start), runs.BeginOptions{})
	must(t, err)
	_, err = s.Reattach(t.Context(), r.Ref(), r.Epoch()+1)
	errs := []error{err}
	_, err = s.Resume(t.Context(), r.Ref())
	errs = append(errs, err)
	kept, stop := r.Keep(t.Context())
	defer stop()
	must(t, d.ReleaseReservation(t.Context(), "", r.Lease().Kind(), r.Lease().Name(), r.Epoch()))
	<-kept.Done()
	errs = append(errs, r.Append(t.Context(), turn(0, "p")), r.Release(t.Context()), context.Cause(kept))
	for _, err := range errs {
		if text := fmt.Sprint(err); !strings.Contains(text, `"build-42"`) || strings.Contains(text, `"1"`) {
			t.Errorf("an error says %s", text)
		}
	}
}

func TestBegin_SameKeyHoldsSameRun(t *testing.T) {
	path := dbtest.Path(t)
	s, other := storeAt(t, path), storeAt(t, path)
	o := runs.BeginOptions{Key: "k"}
	begun := runs.Started{RunID: "r", AgentID: "a", Intent: "i"}
	first, err := s.Begin(t.Context(), begun, o)
	must(t, err)
	again, err := s.Begin(t.Context(), begun, o)
	must(t, err)
	if again.Epoch() != first.Epoch() {
		t.Errorf("epoch %d, not %d", again.Epoch(), first.Epoch())
	}
	must(t, again.Append(t.Context(), turn(0, "p")))
	must(t, first.Release(t.Context()))
	third, err := other.Begin(t.Context(), begun, o)
	must(t, err)
	must(t, third.Append(t.Context(), turn(1, "q")))
	begun.Intent = "another"
	for _, o := range []runs.BeginOptions{o, {}, {Key: "l"}} {
		if _, err := s.Begin(t.Context(), begun, o); !errors.Is(err, db.ErrConflict) {
			t.Errorf("with %+v: %v", o, err)
		}
	}
	if got := len(recordsOf(t, s, "a", "r")); got != 3 {
		t.Errorf("the trace has %d records", got)
	}
}

func TestBegin_KeepsItsParent(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	parent := runs.RunRef{AgentID: "a", RunID: "parent"}
	must(t, s.WriteStarted(t.Context(), started("parent", "a", start)))
	r, err := s.Begin(t.Context(), started("r", "a", start), runs.BeginOptions{Parent: parent})
	must(t, err)
	var name string
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Get(&name, `SELECT p.run_id FROM runs AS r JOIN runs AS p ON p.key = r.parent
			WHERE r.run_id = 'r'`)
	}))
	if name != parent.RunID {
		t.Errorf("the parent of %v is %q", r.Ref(), name)
	}
	_, err = s.Begin(t.Context(), started("s", "a", start),
		runs.BeginOptions{Parent: runs.RunRef{RunID: "none"}})
	if !errors.Is(err, db.ErrNotFound) {
		t.Errorf("of no parent: %v", err)
	}
	if _, err := s.Append(t.Context(), runs.Batch{AgentID: "a", RunID: "r", Parent: parent}); !errors.Is(err,
		db.ErrInvalid) || db.Hint(err) == "" {
		t.Errorf("a parent without records: %v", err)
	}
}

func TestAppend_SaysWhetherItWasRepeated(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	b := runs.Batch{AgentID: "a", RunID: "r", Key: "k", Records: []runs.Record{turn(0, "p")}}
	for _, want := range []bool{false, true, true} {
		if repeated, err := s.Append(t.Context(), b); err != nil || repeated != want {
			t.Errorf("it gave %v, %v", repeated, err)
		}
	}
}
