package runs_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// Two processes and this one write to old runs and new ones, of two agents and another scope, while
// one loop follows.
func TestFollowAllDeliversEveryRunInItsOrder(t *testing.T) {
	path := dbtest.Path(t)
	s, elsewhere := storeAt(t, path), runs.NewStore(dbtest.OpenAt(t, path, db.Options{}),
		runs.Options{Scope: "other"})
	must(t, s.AppendTurns(t.Context(), "a", "old", []runs.Turn{turn(0, "before")}))
	must(t, s.AppendRecords(t.Context(), "a", "over",
		[]runs.Record{started("over", "a", start), ended("over", "a", runs.OutcomeSuccess, start)}))
	all := s.FollowAll(t.Context(), runs.Filter{})
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
		want[runs.RunRef{AgentID: "a", RunID: fmt.Sprint("new ", i)}],
			want[runs.RunRef{AgentID: "b", RunID: fmt.Sprint("new ", i)}] = 2, 1
	}
	for r, err := range records(all) {
		must(t, err)
		if r.Item.Sequence != last[r.Of]+1 {
			t.Fatalf("record %d of %v came behind %d", r.Item.Sequence, r.Of, last[r.Of])
		}
		if last[r.Of]++; last[r.Of] == want[r.Of] {
			if delete(want, r.Of); len(want) == 0 {
				break
			}
		}
	}
	must(t, <-done)
}

func TestFollowAllOfAnAgentAndItsCursors(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	agent := "" // one like any other
	all := s.FollowAll(t.Context(), runs.Filter{Agent: &agent})
	for _, a := range []string{"a", ""} {
		must(t, s.AppendTurns(t.Context(), a, "r", []runs.Turn{turn(0, "first"), turn(1, "second")}))
	}
	for r, err := range records(all) {
		must(t, err)
		if r.Of != (runs.RunRef{RunID: "r"}) {
			t.Fatalf("it delivered a record of %v", r.Of)
		}
		for next, err := range s.Follow(t.Context(), r.Of, r.Cursor) {
			must(t, err)
			if next.Item.Sequence != 2 {
				t.Errorf("behind record 1 comes %d", next.Item.Sequence)
			}
			break
		}
		break
	}
}

func TestFollowAll_ReportsEveryRemoval(t *testing.T) {
	whole := func(run string) []runs.Record {
		return []runs.Record{started(run, "a", start), ended(run, "a", runs.OutcomeSuccess, start)}
	}
	gone := runs.RunRef{AgentID: "a", RunID: "gone"}
	for _, c := range []struct {
		name   string
		before []runs.Record // in the run that goes
		first  []runs.Record // appended to it before another run's
	}{
		{"an ended run goes", whole("gone"), nil},
		{"an open run goes", whole("gone")[:1], nil},
		{"a run with unread records goes", nil, whole("gone")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := openStore(t, runs.Options{})
			must(t, s.AppendRecords(t.Context(), "a", "first", whole("first")))
			must(t, s.AppendRecords(t.Context(), "a", "gone", c.before))
			all := s.FollowAll(t.Context(), runs.Filter{})
			must(t, handle(s).Write(t.Context(), "append", func(tx *db.Tx) error {
				return errors.Join(
					second(s.AppendTx(tx, runs.Batch{AgentID: "a", RunID: "first", Records: whole("first")})),
					second(s.AppendTx(tx, runs.Batch{AgentID: "a", RunID: "gone", Records: c.first})))
			}))
			// Which run comes first is nobody's promise; each that stays is told whole, and the one that
			// goes is told to go.
			told := map[string]int{}
			gaps, items := 0, 0
			for r, err := range all {
				must(t, err)
				if items++; items == 1 {
					must(t, removeRun(t, s, gone))
					must(t, s.AppendRecords(t.Context(), "a", "next", []runs.Record{laterRecord("x")}))
				}
				switch {
				case r.What == db.Gap && (!r.Gone || r.Of != gone):
					t.Errorf("the gap is %+v", r)
				case r.What == db.Gap:
					gaps++
				case r.Of == gone && gaps > 0:
					t.Errorf("behind its removal comes %+v", r)
				case r.What == db.Written:
					told[r.Of.RunID]++
				}
				if gaps > 0 && told["first"] == 2 && told["next"] == 1 || items == 20 {
					break
				}
			}
			if gaps != 1 || told["first"] != 2 || told["next"] != 1 || told["gone"] > len(c.first) {
				t.Errorf("it delivered %v, and %d removals", told, gaps)
			}
		})
	}
}

func TestFollowersHearOfEachNewStatusOnce(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	all := s.FollowAll(t.Context(), runs.Filter{})
	must(t, s.AppendRecords(t.Context(), "a", "r",
		[]runs.Record{started("r", "a", start), ended("r", "a", runs.OutcomeSuccess, start)}))
	told := func(items iter.Seq2[runs.Followed, error]) (list []string, last string) {
		for item, err := range items {
			must(t, err)
			if last = item.Cursor; item.What == db.StatusChanged {
				return append(list, item.Status), last
			}
			list = append(list, item.Item.Record.RecordKind())
		}
		return list, last
	}
	want := []string{"started", "ended", "completed"}
	one, cursor := told(s.Follow(t.Context(), ref, ""))
	many, _ := told(all)
	if !slices.Equal(one, want) || !slices.Equal(many, want) {
		t.Errorf("they heard %v and %v, not %v", one, many, want)
	}
	must(t, s.AppendRecords(t.Context(), "a", "r",
		[]runs.Record{
			turn(0, "late"), ended("r", "a", runs.OutcomeSuccess, start),
			runs.Ended{RunID: "r", AgentID: "a", EndedAt: start},
		}))
	if after, _ := told(s.Follow(t.Context(), ref, cursor)); !slices.Equal(after,
		[]string{"turn", "ended", "ended", "incomplete"}) {
		t.Errorf("behind its cursor a follower heard %v", after)
	}
}

func TestFollowAll_FilterTakesRunsOnceTheyPass(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("early", "a", start)))
	all := s.FollowAll(t.Context(), runs.Filter{Statuses: []runs.RunStatus{runs.StatusCompleted}})
	must(t, s.AppendTurns(t.Context(), "a", "early", []runs.Turn{turn(0, "not told")}))
	must(t, s.WriteEnded(t.Context(), ended("early", "a", runs.OutcomeSuccess, start)))
	for item, err := range all {
		must(t, err)
		if item.Of.RunID != "early" {
			t.Errorf("it was told of %+v", item)
		}
		if item.What == db.StatusChanged {
			break
		}
	}
}

func TestFollowersOfOtherTimesHearEachTheirOwn(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	later := s.FollowAll(ctx, runs.Filter{Since: start.Add(time.Hour)})
	earlier := s.FollowAll(ctx, runs.Filter{Since: start.Add(-time.Hour)})
	must(t, s.WriteStarted(ctx, started("now", "a", start)))
	must(t, s.WriteStarted(ctx, started("in two hours", "a", start.Add(2*time.Hour))))
	for want, items := range map[string]iter.Seq2[runs.Followed, error]{"in two hours": later, "now": earlier} {
		for item, err := range items {
			must(t, err)
			if item.Of.RunID != want {
				t.Errorf("the follower of %q heard of %q", want, item.Of.RunID)
			}
			break
		}
	}
}

func TestARunThatPassesNoMoreIsFollowedOn(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
	must(t, s.WriteStarted(t.Context(), started("never passed", "a", start)))
	must(t, s.WriteEnded(t.Context(), ended("never passed", "a", runs.OutcomeDone, start)))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	all := s.FollowAll(ctx, runs.Filter{Statuses: []runs.RunStatus{runs.StatusInProgress}})
	must(t, s.AppendTurns(t.Context(), "a", "never passed", []runs.Turn{turn(0, "not told")}))
	must(t, s.WriteEnded(t.Context(), ended("r", "a", runs.OutcomeDone, start)))
	var got []string
	for f, err := range all {
		must(t, err)
		if f.Of.RunID != "r" {
			t.Errorf("it was told of %v", f.Of)
		}
		if f.What == db.StatusChanged {
			if got = append(got, f.Status); f.Status == string(runs.StatusCompleted) {
				must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(0, "behind the end")}))
			}
			continue
		}
		if got = append(got, f.Item.Record.RecordKind()); got[len(got)-1] == "turn" {
			break
		}
	}
	if want := []string{"ended", string(runs.StatusCompleted), "turn"}; !slices.Equal(got, want) {
		t.Errorf("it was told %q", got)
	}
}
