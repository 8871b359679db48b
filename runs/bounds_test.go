package runs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// begun writes runs of one agent that are open, or have ended at noon.
func begun(t *testing.T, s *Store, count int, over bool) {
	t.Helper()
	err := s.db.Write(t.Context(), "fill", func(tx *db.Tx) error {
		for i := range count {
			id := fmt.Sprint("run-", i)
			records := []Record{Started{RunID: id, AgentID: "a", StartedAt: noon}}
			if over {
				records = append(records, Ended{RunID: id, AgentID: "a", EndedAt: noon})
			}
			if _, err := s.AppendTx(tx, Batch{AgentID: "a", RunID: id, Records: records}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What was done before a call was interrupted stays done, and is in its answer.
func TestAnInterruptedCallSaysWhatItDid(t *testing.T) {
	for _, c := range []struct {
		name, why string
		after     int // transactions, then the context ends
		over      bool
		call      func(*Store, context.Context) (int, error)
	}{
		{"adoption", "adopt orphans", 1, false, (*Store).AdoptOrphans},
		{"adoption before the next page", "adopt orphans", 200 / endedAtATime, false, (*Store).AdoptOrphans},
		{"retention", opGC, 1, true, (*Store).GC},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			d := dbtest.Open(t, db.Options{Now: func() time.Time { return noon }, Observe: func(o db.Observation) {
				if o.Write && o.Why == c.why {
					if c.after--; c.after == 0 {
						cancel()
					}
				}
			}})
			s := NewStore(d, Options{Retention: &RetentionConfig{MaxAgeDays: 30}})
			count := 3 * int(runsAtATime)
			begun(t, s, count, c.over)
			done, err := c.call(s, ctx)
			if !errors.Is(err, context.Canceled) || done == 0 || done == count {
				t.Fatalf("it did %d of %d: %v", done, count, err)
			}
			more, err := c.call(s, t.Context())
			if err != nil || done+more != count {
				t.Errorf("it did %d and then %d of %d: %v", done, more, count, err)
			}
		})
	}
}

func TestRetention_TransactionBoundedByRuns(t *testing.T) {
	const count = 7
	was := runsAtATime
	runsAtATime = 3
	t.Cleanup(func() { runsAtATime = was })
	path := dbtest.Path(t)
	other := dbtest.OpenAt(t, path, db.Options{})
	left, turns := count, 0
	d := dbtest.OpenAt(t, path, db.Options{
		Now: func() time.Time { return noon },
		Observe: func(o db.Observation) {
			if !o.Write || o.Why != opGC {
				return
			}
			n := 0
			err := other.Read(t.Context(), "count",
				func(rx *db.Rx) error { return rx.Get(&n, `SELECT count(*) FROM runs`) })
			if err != nil {
				t.Error(err)
			}
			if left-n > int(runsAtATime) {
				t.Errorf("a transaction removed %d runs", left-n)
			}
			if n < left {
				left, turns = n, turns+1
			}
		},
	})
	s := NewStore(d, Options{Retention: &RetentionConfig{MaxAgeDays: 30}})
	begun(t, s, count, true)
	if removed, err := s.GC(t.Context()); removed != count || err != nil {
		t.Errorf("it removed %d of %d: %v", removed, count, err)
	}
	if turns < 3 { // more where the machine is slow: a transaction is bounded by time too
		t.Errorf("it took %d transactions, not 3", turns)
	}
}

func TestARunThatEndedMeanwhileIsNotEndedAgain(t *testing.T) {
	s := NewStore(dbtest.Open(t, db.Options{}), Options{})
	begun(t, s, 1, true)
	nobody := func(*db.Rx, int64, RunRef, *runRow) (bool, error) { return false, nil }
	e := ending{store: s, op: "end", spares: nobody}
	if refused, err := e.end(t.Context(), []RunRef{{AgentID: "a", RunID: "run-0"}}); refused != nil ||
		err != nil || e.ended != 0 {
		t.Errorf("it ended %d runs: %v, %v", e.ended, refused, err)
	}
}

// A run that can't be ended keeps nobody from ending the others.
func TestARunThatCannotBeEndedIsLeft(t *testing.T) {
	s := NewStore(dbtest.Open(t, db.Options{}), Options{})
	begun(t, s, 3, false)
	err := s.db.Write(t.Context(), "fill a trace", func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO run_records (id, kind, turn_index, verdict, exact)
SELECT (key << 24) + 16777215, 'turn', 0, 'pass', 1 FROM runs WHERE run_id = 'run-1'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if ended, err := s.AdoptOrphans(t.Context()); ended != 2 || !errors.Is(err, db.ErrInvalid) {
		t.Errorf("it ended %d runs: %v", ended, err)
	}
	err = s.db.Write(t.Context(), "make it whole again", func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM run_records WHERE id & 16777215 = 16777215`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestARunThatEndsAtTheCutoffStays(t *testing.T) {
	cutoff := time.Date(2300, 1, 1, 12, 0, 0, 0, time.UTC) // no column holds it
	days := int64(cutoff.Sub(noon) / (24 * time.Hour))
	s := NewStore(dbtest.Open(t, db.Options{Now: func() time.Time { return cutoff.AddDate(0, 0, -int(days)) }}),
		Options{Retention: &RetentionConfig{MaxPerAgent: 50, MaxAgeDays: -days}})
	for id, at := range map[string]time.Time{"before": cutoff.Add(-1), "at": cutoff, "after": cutoff.Add(1)} {
		err := s.AppendRecords(t.Context(), "a", id,
			[]Record{Started{RunID: id, AgentID: "a", StartedAt: noon}, Ended{RunID: id, AgentID: "a", EndedAt: at}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := s.GC(t.Context()); removed != 1 || err != nil {
		t.Errorf("it removed %d: %v", removed, err)
	}
	if _, err := s.Get(t.Context(), RunRef{AgentID: "a", RunID: "before"}); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("the one that ended before: %v", err)
	}
}

func TestARecordThatIsTooLongIsRefused(t *testing.T) {
	s := NewStore(dbtest.Open(t, db.Options{}), Options{})
	long := make([]byte, 400_000_001) // never touched
	for _, r := range []Record{Turn{Output: long}, Unknown{Kind: "x", Raw: long}} {
		if err := s.AppendRecords(t.Context(), "a", "r", []Record{r}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", r.RecordKind(), err)
		}
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	s := NewStore(dbtest.Open(t, db.Options{}), Options{})
	for _, key := range []string{"\x00", "\xff", string(make([]byte, txn.MaxID+1))} {
		_, err := s.Append(t.Context(), Batch{AgentID: "a", RunID: "r", Key: key, Records: []Record{Turn{}}})
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("the key %.10q gave %v", key, err)
		}
	}
}
