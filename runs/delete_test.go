package runs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

func rowsIn(t *testing.T, s *runs.Store, table string) (n int) {
	t.Helper()
	must(t, handle(s).Read(t.Context(), "count",
		func(rx *db.Rx) error { return rx.Get(&n, "SELECT count(*) FROM "+table) }))
	return n
}

func over(run string, at time.Time) []runs.Record {
	return []runs.Record{
		started(run, "a", at), turn(0, "p"),
		ended(run, "a", runs.OutcomeSuccess, at.Add(time.Minute)),
	}
}

func TestDelete_TakesRunAndItsRows(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	keyed := runs.Batch{AgentID: "a", RunID: "r", Key: "k", Records: over("r", start)}
	must(t, second(s.Append(t.Context(), keyed)))
	must(t, s.Delete(t.Context(), ref))
	for _, table := range []string{"runs", "run_records", "run_append_keys", "run_leavings"} {
		if n := rowsIn(t, s, table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	if err := s.Delete(t.Context(), ref); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("of a run that is gone: %v", err)
	}
	must(t, second(s.Append(t.Context(), keyed))) // a repeat that comes late
	if n := rowsIn(t, s, "runs"); n != 0 {
		t.Error("it made the run anew")
	}
	must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
	if err := s.Delete(t.Context(), ref); !errors.Is(err, db.ErrConflict) || db.Hint(err) == "" {
		t.Errorf("of a run that this process writes: %v", err)
	}
	must(t, s.WriteEnded(t.Context(), ended("r", "a", runs.OutcomeSuccess, start)))
	must(t, d.Write(t.Context(), "delete", func(tx *db.Tx) error { return s.DeleteTx(tx, ref) }))
	if n := rowsIn(t, s, "run_records"); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

// What is left of a run that is gone is nobody's concern but the next removal's.
func TestDelete_RunGoneEvenIfRecordsRemain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if o.Why == "delete run" {
			cancel()
		}
	}})
	s := runs.NewStore(d, runs.Options{})
	for _, run := range []string{"r", "s"} {
		must(t, s.AppendRecords(t.Context(), "a", run, over(run, start)))
	}
	must(t, s.Delete(ctx, runs.RunRef{AgentID: "a", RunID: "r"}))
	if n := rowsIn(t, s, "run_records"); n != 6 {
		t.Fatalf("%d records are there: it was to be stopped before it dropped them", n)
	}
	if _, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("the run is there: %v", err)
	}
	must(t, d.Write(t.Context(), "drop one, as a removal does that is stopped", func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM run_records WHERE id = (SELECT min(id) FROM run_records WHERE id >> 24 = " +
			"(SELECT run FROM run_leavings))")
		return err
	}))
	if problems, err := d.Check(t.Context()); err != nil || len(problems) != 0 {
		t.Errorf("the check finds %v: %v", problems, err)
	}
	must(t, s.Delete(t.Context(), runs.RunRef{AgentID: "a", RunID: "s"}))
	if n := rowsIn(t, s, "run_records"); n != 0 {
		t.Errorf("the next removal left %d records", n)
	}
}

func TestATransactionOfAnotherFileIsRefused(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	_, other := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	must(t, other.Write(t.Context(), "elsewhere", func(tx *db.Tx) error {
		for name, call := range map[string]func() error{
			"append": func() error {
				return second(s.AppendTx(tx,
					runs.Batch{AgentID: "a", RunID: "r", Records: over("r", start)}))
			},
			"delete": func() error { return s.DeleteTx(tx, ref) },
			"get":    func() error { _, err := s.GetTx(&tx.Rx, ref); return err },
			"page":   func() error { _, err := s.PageTx(&tx.Rx, runs.Filter{}, db.At{}); return err },
			"find":   func() error { _, err := s.FindTx(&tx.Rx, "", 0); return err },
			"trace":  func() error { _, err := s.TracePageTx(&tx.Rx, ref, db.At{}); return err },
			"cursor": func() error { _, err := s.CursorBeforeTx(&tx.Rx, ref, 0); return err },
		} {
			if err := call(); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		return nil
	}))
}

func TestPruneKeepsWhatThePolicyKeeps(t *testing.T) {
	day := 24 * time.Hour
	clock := dbtest.NewClock(start.Add(10 * day))
	for _, c := range []struct {
		name    string
		policy  db.Policy
		removed int
	}{
		{"everything", db.Policy{}, 0},
		{"by age", db.Policy{Age: 5 * day}, 5},
		{"by count", db.Policy{Count: 3}, 7},
		{"by both", db.Policy{Age: 5 * day, Count: 6}, 5},
		{"by bytes", db.Policy{Bytes: 1}, 10},
		{"pinned", db.Policy{Count: 3, Pinned: []string{"run-0", "run-9"}}, 6},
		{"a dry run", db.Policy{Count: 3, DryRun: true}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := runs.NewStore(dbtest.Open(t, db.Options{Now: clock.Now}), runs.Options{})
			for i := range 10 {
				run := fmt.Sprint("run-", i)
				must(t, s.AppendRecords(t.Context(), "a", run, over(run, start.Add(time.Duration(i)*day))))
			}
			must(t, s.WriteStarted(t.Context(), started("open", "a", start)))
			done, err := s.Prune(t.Context(), c.policy)
			if err != nil || done.Removed != c.removed || done.Remaining != 10-c.removed ||
				(done.Bytes > 0) != (c.removed > 0) {
				t.Errorf("it did %+v, %v", done, err)
			}
			want := 11 - c.removed
			if c.policy.DryRun {
				want = 11
			}
			if n := rowsIn(t, s, "runs"); n != want {
				t.Errorf("%d runs are left, not %d", n, want)
			}
			for _, id := range c.policy.Pinned {
				if _, err := s.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: id}); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	empty, _ := openStore(t, runs.Options{Scope: "nobody wrote here"})
	if done, err := empty.Prune(soon, db.Policy{Age: day, Count: 1, Bytes: 1}); err != nil ||
		done != (db.Pruned{}) {
		t.Errorf("where nobody wrote it did %+v, %v", done, err)
	}
	s, _ := openStore(t, runs.Options{})
	if _, err := s.Prune(t.Context(), db.Policy{Age: -2}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("an age below 0 gave %v", err)
	}
}

func TestPrune_StuckRunKeepsNoOther(t *testing.T) {
	s, d := openStore(t, runs.Options{Retention: &runs.RetentionConfig{MaxPerAgent: 0, MaxAgeDays: 1 << 20}})
	for i := range 5 {
		run := fmt.Sprint("run-", i)
		must(t, s.AppendRecords(t.Context(), "a", run, over(run, start.Add(time.Duration(i)*time.Hour))))
	}
	must(t, d.Write(t.Context(), "a table of the user's", func(tx *db.Tx) error {
		_, err := tx.Exec(`CREATE TABLE notes (run INTEGER REFERENCES runs (key), text TEXT)`)
		if err == nil {
			_, err = tx.Exec(`INSERT INTO notes SELECT key, 'look at this one' FROM runs WHERE run_id = 'run-2'`)
		}
		return err
	}))
	removed, err := s.GC(t.Context())
	if removed != 4 || !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), "run-2") ||
		db.Hint(err) == "" {
		t.Errorf("it removed %d: %v (%s)", removed, err, db.Hint(err))
	}
}

// A writer waits for retention for 50 ms at most, whatever goes: many runs of many agents, or few long ones.
func TestRetentionWorksInShortTransactions(t *testing.T) {
	var longest, writes atomic.Int64
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if o.Why == "collect runs" && o.Write {
			writes.Add(1)
			longest.Store(max(longest.Load(), int64(o.Run)))
		}
	}})
	s := runs.NewStore(d, runs.Options{Retention: &runs.RetentionConfig{MaxPerAgent: 1, MaxAgeDays: 1 << 20}})
	const agents = 1000
	must(t, d.Write(t.Context(), "fill", func(tx *db.Tx) error {
		for a := range 2 * agents {
			b := runs.Batch{AgentID: fmt.Sprint("agent-", a/2), RunID: fmt.Sprint(a), Records: over("r", start)}
			if _, err := s.AppendTx(tx, b); err != nil {
				return err
			}
		}
		return nil
	}))
	long := make([]runs.Turn, 5_000)
	for i := range long {
		long[i] = turn(uint64(i), strings.Repeat("x", 500))
	}
	for _, run := range []string{"long-1", "long-2"} {
		must(t, s.AppendRecords(t.Context(), "a", run, over(run, start)))
		must(t, s.AppendTurns(t.Context(), "a", run, long))
	}
	began := time.Now()
	removed, err := s.GC(t.Context())
	if err != nil || removed != agents+1 {
		t.Errorf("it removed %d runs: %v", removed, err)
	}
	if n := rowsIn(t, s, "run_records"); n != 3*(agents+1)+len(long) {
		t.Errorf("%d records are left", n)
	}
	t.Logf("%v in %d transactions, the longest %v", time.Since(began), writes.Load(),
		time.Duration(longest.Load()))
	// The bound is tested by its cause, since a busy machine stretches any time: no transaction
	// removes more than some thousand rows.
	if writes.Load() < agents/200 {
		t.Errorf("it took %d transactions", writes.Load())
	}
}

func TestAPageOfATraceIsWeighed(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	big := turn(0, strings.Repeat("x", 4<<20))
	for range 20 {
		must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{big}))
	}
	for name, first := range map[string]func(){
		"a trace": func() {
			for _, err := range s.Trace(t.Context(), ref) {
				must(t, err)
				break
			}
		},
		"a follower": func() {
			for _, err := range s.Follow(t.Context(), ref, "") {
				must(t, err)
				break
			}
		},
		"the lines": func() {
			for _, err := range s.Lines(t.Context(), ref) {
				must(t, err)
				break
			}
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		first()
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 60 {
			t.Errorf("the first record of %s took %d MB", name, took)
		}
	}
}

func TestAZeroTimeIsThatOfTheTransaction(t *testing.T) {
	clock := dbtest.NewClock(start.Add(time.Hour))
	s := runs.NewStore(dbtest.Open(t, db.Options{Now: clock.Now}), runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	batch := runs.Batch{
		AgentID: "a", RunID: "r", Key: "k",
		Records: []runs.Record{runs.Started{RunID: "r", AgentID: "a"}},
	}
	must(t, second(s.Append(t.Context(), batch)))
	clock.Advance(time.Hour)
	must(t, second(s.Append(t.Context(), batch))) // the key says that it is the same, at another time too
	must(t, s.WriteEnded(t.Context(), runs.Ended{
		RunID: "r", AgentID: "a",
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeDone}},
	}))
	run, err := s.Get(t.Context(), ref)
	must(t, err)
	if !run.StartedAt.Equal(start.Add(time.Hour)) || !run.EndedAt.Equal(start.Add(2*time.Hour)) {
		t.Errorf("the run is %+v", run)
	}
	if removed, err := s.GC(t.Context()); removed != 0 || err != nil {
		t.Errorf("retention removed %d (%v)", removed, err)
	}
	// What an old trace says stays.
	imported := runs.RunRef{AgentID: "a", RunID: "old"}
	line := `{"record":"started","run_id":"old","agent_id":"a","intent":"i","started_at":"0001-01-01T00:00:00Z"}` + "\n"
	importTrace(t, handle(s), s, imported, line)
	for r, err := range s.Trace(t.Context(), imported) {
		must(t, err)
		must(t, s.AppendRecords(t.Context(), "a", "copy", []runs.Record{r.Record}))
	}
	if got := exportTrace(t, s, runs.RunRef{AgentID: "a", RunID: "copy"}); got != line {
		t.Errorf("a copy of an old record is %q", got)
	}
}
