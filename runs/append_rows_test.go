package runs

import (
	"errors"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func appended(t *testing.T, s *Store, b Batch) {
	t.Helper()
	p, err := prepare(b)
	if err == nil {
		err = s.db.Write(t.Context(), "append", func(tx *db.Tx) error { return second(p.append(tx, s, tx.Exec)) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

func turns(n int) (records []Record) {
	for i := range n {
		records = append(records, Turn{Index: uint64(i), Parameters: []byte("{}"), Output: []byte("{}")})
	}
	return records
}

func TestAppend_OwnRunsUseHotStatement(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := NewStore(d, Options{})
	ref := RunRef{AgentID: "a", RunID: "r"}
	for _, other := range []string{"before", "r", "behind"} { // neighbours on both sides
		appended(t, s, Batch{AgentID: "a", RunID: other, Records: turns(1)})
	}
	key, known := s.keys.find(ref)
	if !known {
		t.Fatal("the run that was made is not known")
	}
	for range 2 {
		err := d.Write(t.Context(), "append", func(tx *db.Tx) error {
			owner, err := tx.Store().Owner()
			if err != nil {
				return err
			}
			p, err := prepare(Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: turns(2)})
			if err != nil {
				return err
			}
			p.stamp(tx)
			if done, err := appendToOwn(tx, key, owner, p); !done || err != nil {
				t.Errorf("it is left to the slow way: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var ids []int64
	if err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Select(&ids, `SELECT id - (? << 24) FROM run_records WHERE id >> 24 = ?`, key, key)
	}); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if id != int64(i+1) {
			t.Errorf("the lines are %d", ids)
		}
	}
	if len(ids) != 5 {
		t.Errorf("there are %d lines", len(ids))
	}
}

func TestARecordSaysWhenItWasWritten(t *testing.T) {
	clock := dbtest.NewClock(time.Unix(0, 1000))
	d := dbtest.Open(t, db.Options{Now: clock.Now})
	s := NewStore(d, Options{})
	for range 3 {
		appended(t, s, Batch{AgentID: "a", RunID: "r", Records: turns(1)})
		clock.Advance(1)
	}
	var times []int64
	if err := d.Read(t.Context(), "look",
		func(rx *db.Rx) error {
			return rx.Select(&times,
				`SELECT recorded_at FROM run_records ORDER BY id`)
		}); err != nil {
		t.Fatal(err)
	}
	for i, at := range times {
		if at != int64(1000+i) {
			t.Errorf("the times are %d", times)
		}
	}
}

func TestAppend_UnchangedSummaryLeavesRunRow(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := NewStore(d, Options{})
	ref := RunRef{AgentID: "a", RunID: "r"}
	appended(t, s, Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: turns(1)})
	trigger := func(text string) {
		if err := d.Write(t.Context(), "trigger",
			func(tx *db.Tx) error { _, err := tx.Exec(text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	trigger(`CREATE TRIGGER untouched BEFORE UPDATE ON runs BEGIN
		SELECT RAISE(ABORT, 'the row was written'); END`)
	// The slow way.
	appended(t, s, Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: turns(1), Key: "k"})
	trigger(`DROP TRIGGER untouched`)
}

func TestHint_MissingOnlyIfMissing(t *testing.T) {
	ref := RunRef{AgentID: "a", RunID: "r"}
	if hint := db.Hint(ref.failed("append", errors.New("broken"))); hint != "" {
		t.Errorf("of another error it says %q", hint)
	}
	if hint := db.Hint(ref.failed("append", db.ErrNotFound)); hint == "" {
		t.Error("of a missing run it says nothing")
	}
}

func TestARecordThatWasReadKeepsATimeOfZero(t *testing.T) {
	for _, line := range []string{
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"0001-01-01T00:00:00Z"}`,
		`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},"ended_at":"0001-01-01T00:00:00Z"}`,
	} {
		if r := readLine([]byte(line)); r.kind != lineRecord || undated(r.record) {
			t.Errorf("%s would get another time", line)
		}
	}
	if !undated(Started{}) || !undated(Ended{}) || undated(Ended{EndedAt: time.Unix(1, 0)}) || undated(Turn{}) {
		t.Error("what a caller made without a time gets none, or what has one gets another")
	}
}

func second[T any](_ T, err error) error { return err }
