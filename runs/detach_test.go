package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// The keys of a run go a few in a transaction, before the run does. A removal that is stopped in
// between leaves a run whose appends can be repeated as before.
func TestTheKeysOfARunGoAFewAtATime(t *testing.T) {
	before, held := keysAtOnce, writerHeld
	keysAtOnce, writerHeld = 2, time.Minute // the number of keys alone ends a transaction
	t.Cleanup(func() { keysAtOnce, writerHeld = before, held })
	ctx, cancel := context.WithCancel(t.Context())
	transactions := 0
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if o.Why == opDelete && o.Err == nil {
			transactions++
			cancel()
		}
	}})
	s := NewStore(d, Options{})
	ref := RunRef{AgentID: "a", RunID: "r"}
	keyed := func(i int) Batch {
		return Batch{
			AgentID: ref.AgentID, RunID: ref.RunID, Key: fmt.Sprint("key-", i),
			Records: []Record{Turn{Index: uint64(i), VerifierVerdict: VerdictPass}},
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func(table string) (n int) {
		t.Helper()
		must(d.Read(t.Context(), "count", func(rx *db.Rx) error {
			return rx.Get(&n,
				"SELECT count(*) FROM "+table)
		}))
		return n
	}
	must(s.WriteStarted(t.Context(), Started{AgentID: ref.AgentID, RunID: ref.RunID, StartedAt: noon}))
	const keys = 5
	for i := range keys {
		must(second(s.Append(t.Context(), keyed(i))))
	}
	must(s.WriteEnded(t.Context(), Ended{AgentID: ref.AgentID, RunID: ref.RunID, EndedAt: noon}))
	repeat := func() {
		t.Helper()
		for i := range keys {
			must(second(s.Append(t.Context(), keyed(i))))
		}
	}
	if err := s.Delete(ctx, ref); err == nil || transactions != 1 {
		t.Fatalf("it was to be stopped after its first transaction: %v after %d", err, transactions)
	}
	repeat()
	if n := count("run_records"); n != keys+2 {
		t.Errorf("the repeats made %d records of %d", n, keys+2)
	}
	must(s.Delete(t.Context(), ref))
	if transactions != 3 {
		t.Errorf("5 keys went in %d transactions", transactions)
	}
	repeat()
	if runs, spent := count("runs"), count("run_spent_keys"); runs != 0 || spent != keys {
		t.Errorf("%d runs and %d spent keys are there", runs, spent)
	}
}

// The first transactions of a removal take keys from the run. Where the last is refused, the run
// must know them for as long as it stays.
func TestRemoval_RefusedRunKeepsItsKeys(t *testing.T) {
	before := keysAtOnce
	keysAtOnce = 1
	t.Cleanup(func() { keysAtOnce = before })
	clock := dbtest.NewClock(noon)
	d := dbtest.Open(t, db.Options{Now: clock.Now})
	s := NewStore(d, Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	finished := func(id string) RunRef {
		t.Helper()
		must(s.WriteStarted(t.Context(), Started{AgentID: "a", RunID: id, StartedAt: noon}))
		must(s.WriteEnded(t.Context(), Ended{AgentID: "a", RunID: id, EndedAt: noon}))
		return RunRef{AgentID: "a", RunID: id}
	}
	keyed := Batch{AgentID: "a", RunID: "r", Key: "k", Records: []Record{Turn{VerifierVerdict: VerdictPass}}}
	must(second(s.Append(t.Context(), keyed)))
	ref := finished("r")
	must(d.Write(t.Context(), "refer", func(tx *db.Tx) error {
		_, err := tx.Exec(`CREATE TABLE notes (run INTEGER REFERENCES runs (key))`)
		if err == nil {
			_, err = tx.Exec(`INSERT INTO notes SELECT key FROM runs`)
		}
		return err
	}))
	if err := s.Delete(t.Context(), ref); !errors.Is(err, db.ErrConflict) {
		t.Fatalf("it was to be refused: %v", err)
	}
	spent := func() (n int) {
		t.Helper()
		must(d.Read(t.Context(), "count", func(rx *db.Rx) error {
			return rx.Get(&n,
				"SELECT count(*) FROM run_spent_keys")
		}))
		return n
	}
	if n := spent(); n != 1 {
		t.Fatalf("the removal took %d keys", n)
	}
	forget := func(id string) {
		t.Helper()
		clock.Advance(keysKept + time.Hour)
		must(s.Delete(t.Context(), finished(id)))
	}
	forget("old keys are forgotten where something is removed")
	must(second(s.Append(t.Context(), keyed)))
	var lines int
	must(d.Read(t.Context(), "count", func(rx *db.Rx) error {
		return rx.Get(&lines,
			"SELECT count(*) FROM run_records")
	}))
	if lines != 3 {
		t.Errorf("the repeat made it %d lines of 3", lines)
	}
	must(d.Write(t.Context(), "refer no more", func(tx *db.Tx) error {
		_, err := tx.Exec(`DROP TABLE notes`)
		return err
	}))
	must(s.Delete(t.Context(), ref))
	must(second(s.Append(t.Context(), keyed))) // the key is as new as the removal
	if n := spent(); n != 1 {
		t.Errorf("%d keys of a run that has just gone are known", n)
	}
	forget("and those of a run that is gone go")
	if n := spent(); n != 0 {
		t.Errorf("%d keys of a run that is long gone are known", n)
	}
}

// A removal that goes on after months takes a run whose first keys were spent at its start: all are
// known for 30 days from its end.
func TestRemoval_OldSpentKeysAreRenewed(t *testing.T) {
	before := keysAtOnce
	keysAtOnce = 2
	t.Cleanup(func() { keysAtOnce = before })
	for name, remove := range map[string]func(*Store, *db.DB, RunRef) error{
		"Delete": func(s *Store, _ *db.DB, ref RunRef) error { return s.Delete(t.Context(), ref) },
		"DeleteTx": func(s *Store, d *db.DB, ref RunRef) error {
			return d.Write(t.Context(), "delete", func(tx *db.Tx) error { return s.DeleteTx(tx, ref) })
		},
		"GC": func(s *Store, _ *db.DB, _ RunRef) error {
			_, err := s.GC(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := dbtest.NewClock(noon)
			ctx, cancel := context.WithCancel(t.Context())
			steps := 0
			d := dbtest.Open(t, db.Options{Now: clock.Now, Observe: func(o db.Observation) {
				if steps++; o.Why == opDelete && steps >= 3 {
					cancel()
				}
			}})
			s := NewStore(d, Options{})
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			ref := RunRef{AgentID: "a", RunID: "r"}
			repeat := func() {
				t.Helper()
				for i := range 7 {
					must(second(s.Append(t.Context(), Batch{
						AgentID: "a", RunID: "r", Key: fmt.Sprint("key-", i),
						Records: []Record{Turn{VerifierVerdict: VerdictPass}},
					})))
				}
			}
			end := func(ref RunRef) {
				t.Helper()
				must(s.WriteStarted(t.Context(), Started{AgentID: ref.AgentID, RunID: ref.RunID, StartedAt: noon}))
				must(s.WriteEnded(t.Context(), Ended{AgentID: ref.AgentID, RunID: ref.RunID, EndedAt: noon}))
			}
			number := func(query string) (n int) {
				t.Helper()
				must(d.Read(t.Context(), "count", func(rx *db.Rx) error { return rx.Get(&n, query) }))
				return n
			}
			repeat()
			end(ref)
			steps = 0
			if err := s.Delete(ctx, ref); err == nil {
				t.Fatal("it was to be stopped")
			}
			if n := number("SELECT count(*) FROM run_spent_keys"); n == 0 || n == 7 {
				t.Fatalf("%d of 7 keys were spent", n)
			}
			clock.Advance(2 * keysKept)
			must(remove(s, d, ref))
			clock.Advance(keysKept - time.Hour)
			end(RunRef{AgentID: "a", RunID: "old keys go with it"})
			must(s.Delete(t.Context(), RunRef{AgentID: "a", RunID: "old keys go with it"}))
			repeat()
			if runs, known := number("SELECT count(*) FROM runs"),
				number("SELECT count(*) FROM run_spent_keys"); runs != 0 || known != 7 {
				t.Errorf("%d runs are there, and %d of 7 keys are known", runs, known)
			}
		})
	}
}

// How many records a statement removes is found by how fast the last ones went. A trace that begins
// with small ones must not make it remove as many large ones.
func TestOneStatementRemovesFewLargeRecords(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := NewStore(d, Options{})
	var turns []Turn
	for i := range 200 {
		turn := Turn{Index: uint64(i), VerifierVerdict: VerdictPass}
		if i >= 100 {
			large := strings.Repeat("x", 128<<10)
			turn.Prompt = &large
		}
		turns = append(turns, turn)
	}
	if err := s.AppendTurns(t.Context(), "a", "r", turns); err != nil {
		t.Fatal(err)
	}
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		var first leftLine
		if _, err := rx.Find(&first, sqlLeftLine, 1<<24, 2<<24); err != nil {
			return err
		}
		small, err := first.reach(rx, 64)
		if err != nil {
			return err
		}
		if n := small - first.ID; n != 64 {
			t.Errorf("it removes %d of the small records", n)
		}
		all, err := first.reach(rx, linesAtOnce)
		if err != nil {
			return err
		}
		if n := all - first.ID; n < 64 || n > 132 {
			t.Errorf("it removes %d records, of which 32 large ones are 4 MiB", n)
		}
		first.ID += 100 // at the first large one
		large, err := first.reach(rx, linesAtOnce)
		if err != nil {
			return err
		}
		if n := large - first.ID; n < 16 || n > 32 {
			t.Errorf("it removes %d of the large records", n)
		}
		first.Bytes = nil
		unknown, err := first.reach(rx, linesAtOnce)
		if n := unknown - first.ID; n != unweighedAtOnce {
			t.Errorf("it removes %d records of unknown weight", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
