package runs

import (
	"context"
	"fmt"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
)

// The keys of a run go a few in a transaction, before the run does. A removal that is stopped in between leaves a run whose
// appends can be repeated as before.
func TestTheKeysOfARunGoAFewAtATime(t *testing.T) {
	before := keysAtOnce
	keysAtOnce = 2
	t.Cleanup(func() { keysAtOnce = before })
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
		return Batch{AgentID: ref.AgentID, RunID: ref.RunID, Key: fmt.Sprint("key-", i), Records: []Record{Turn{Index: uint64(i), VerifierVerdict: VerdictPass}}}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func(table string) (n int) {
		t.Helper()
		must(d.Read(t.Context(), "count", func(rx *db.Rx) error { return rx.Get(&n, "SELECT count(*) FROM "+table) }))
		return n
	}
	must(s.WriteStarted(t.Context(), Started{AgentID: ref.AgentID, RunID: ref.RunID, StartedAt: noon}))
	const keys = 5
	for i := range keys {
		must(s.Append(t.Context(), keyed(i)))
	}
	must(s.WriteEnded(t.Context(), Ended{AgentID: ref.AgentID, RunID: ref.RunID, EndedAt: noon}))
	repeat := func() {
		t.Helper()
		for i := range keys {
			must(s.Append(t.Context(), keyed(i)))
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
