package runs_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs"
)

// Two processes and this one write to old runs and new ones, of two agents and another scope, while one loop follows.
func TestFollowAllDeliversEveryRunInItsOrder(t *testing.T) {
	path := dbtest.Path(t)
	s, elsewhere := storeAt(t, path), runs.NewStore(dbtest.OpenAt(t, path, db.Options{}), runs.Options{Scope: "other"})
	must(t, s.AppendTurns(t.Context(), "a", "old", []runs.Turn{turn(0, "before")}))
	must(t, s.AppendRecords(t.Context(), "a", "over", []runs.Record{started("over", "a", start), ended("over", "a", runs.OutcomeSuccess, start)}))
	all, err := s.FollowAll(t.Context(), nil)
	must(t, err)
	must(t, elsewhere.AppendTurns(t.Context(), "a", "old", []runs.Turn{turn(0, "not here")}))
	for _, run := range []string{"p", "q"} {
		dbtest.Start(t, "appender", path, run) // killed with the test
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range uint64(50) {
			for _, run := range []string{"old", "over", fmt.Sprint("new ", i)} {
				if err == nil {
					err = s.AppendTurns(t.Context(), "b", run, []runs.Turn{turn(i, "b's")})
				}
				if err == nil {
					err = s.AppendTurns(t.Context(), "a", run, []runs.Turn{turn(i, "a's"), turn(i, "a's")})
				}
			}
		}
		done <- err
	}()
	last := map[runs.RunRef]int64{{AgentID: "a", RunID: "old"}: 1, {AgentID: "a", RunID: "over"}: 2}
	want := map[runs.RunRef]int64{
		{AgentID: "a", RunID: "old"}: 101, {AgentID: "a", RunID: "over"}: 102, {AgentID: "b", RunID: "old"}: 50,
		{AgentID: "b", RunID: "over"}: 50, {AgentID: "a", RunID: "p"}: 400, {AgentID: "a", RunID: "q"}: 400,
	}
	for i := range 50 {
		want[runs.RunRef{AgentID: "a", RunID: fmt.Sprint("new ", i)}], want[runs.RunRef{AgentID: "b", RunID: fmt.Sprint("new ", i)}] = 2, 1
	}
	for r, err := range all {
		must(t, err)
		if r.Sequence != last[r.Run]+1 {
			t.Fatalf("record %d of %v came behind %d", r.Sequence, r.Run, last[r.Run])
		}
		if last[r.Run]++; last[r.Run] == want[r.Run] {
			if delete(want, r.Run); len(want) == 0 {
				break
			}
		}
	}
	must(t, <-done)
}

func TestFollowAllOfAnAgentAndItsCursors(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	agent := "" // one like any other
	all, err := s.FollowAll(t.Context(), &agent)
	must(t, err)
	for _, a := range []string{"a", ""} {
		must(t, s.AppendTurns(t.Context(), a, "r", []runs.Turn{turn(0, "first"), turn(1, "second")}))
	}
	for r, err := range all {
		must(t, err)
		if r.Run != (runs.RunRef{RunID: "r"}) {
			t.Fatalf("it delivered a record of %v", r.Run)
		}
		for next, err := range s.Follow(t.Context(), r.Run, r.Cursor) {
			must(t, err)
			if next.Sequence != 2 {
				t.Errorf("behind record 1 comes %d", next.Sequence)
			}
			break
		}
		break
	}
}

func TestFollowAllTellsOfARemovalOnlyWhereRecordsWereLost(t *testing.T) {
	whole := func(run string) []runs.Record {
		return []runs.Record{started(run, "a", start), ended(run, "a", runs.OutcomeSuccess, start)}
	}
	gone := runs.RunRef{AgentID: "a", RunID: "gone"}
	for _, c := range []struct {
		name   string
		before []runs.Record // in the run that goes
		first  []runs.Record // appended to it before another run's
		lost   bool
	}{
		{"an ended run goes", whole("gone"), nil, false},
		{"an open run goes", whole("gone")[:1], nil, true},
		{"a run with unread records goes", nil, whole("gone"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := openStore(t, runs.Options{})
			// The run that comes first has the lower key.
			must(t, s.AppendRecords(t.Context(), "a", "first", whole("first")))
			must(t, s.AppendRecords(t.Context(), "a", "gone", c.before))
			all, err := s.FollowAll(t.Context(), nil)
			must(t, err)
			must(t, handle(s).Write(t.Context(), "append", func(tx *db.Tx) error {
				return errors.Join(
					s.AppendTx(tx, runs.Batch{AgentID: "a", RunID: "first", Records: whole("first")}),
					s.AppendTx(tx, runs.Batch{AgentID: "a", RunID: "gone", Records: c.first}))
			}))
			var got []string
			for r, err := range all {
				if err != nil {
					if !errors.Is(err, db.ErrCursorExpired) || db.Hint(err) == "" {
						t.Fatal(err)
					}
					got = append(got, "lost")
					break
				}
				if got = append(got, r.Run.RunID); r.Run.RunID == "next" {
					break
				}
				if len(got) == 1 {
					must(t, removeRun(t, s, gone))
					must(t, s.AppendRecords(t.Context(), "a", "next", []runs.Record{laterRecord("x")}))
				}
			}
			want := []string{"first", "first", "next"}
			if c.lost {
				want = []string{"first", "first", "lost"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("it delivered %v, not %v", got, want)
			}
		})
	}
}
