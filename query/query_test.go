package query_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/query"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/night"
)

var ctx = context.Background()

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened is a database with the runs of a few agents. It returns the time before them.
func opened(t testing.TB) (*db.DB, *query.Store, time.Time) {
	t.Helper()
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	before := time.Now().Add(-time.Second)
	held, err := night.Few(ctx, d)
	ok(t, err)
	t.Cleanup(func() { _ = held.Leave() })
	return d, query.On(d, ""), before
}

func ids(list []query.Run) (ids []string) {
	for _, r := range list {
		ids = append(ids, r.RunID)
	}
	return ids
}

func TestOverview_SaysWhatTheNightBrought(t *testing.T) {
	_, q, before := opened(t)
	o, err := q.Overview(ctx, before)
	ok(t, err)
	if len(o.Needs.Items) != 2 || o.Needs.Items[1].Prompt != "Deploy on a Friday?" {
		t.Errorf("needs %+v", o.Needs.Items)
	}
	if got := ids(o.Running.Items); !slices.Equal(got, []string{
		"nightly-works", "nightly-unknown", "nightly-waits", "nightly-stalls",
	}) {
		t.Errorf("running %q", got)
	}
	for _, r := range o.Running.Items {
		if r.Stalled != (r.RunID == "nightly-stalls") {
			t.Errorf("%s: stalled is %v", r.RunID, r.Stalled)
		}
	}
	if len(o.Failed.Items) != 1 || o.Failed.Items[0].Why != "two tests are red" {
		t.Errorf("failed %+v", o.Failed.Items)
	}
	week, before7, err := q.Weeks(ctx)
	ok(t, err)
	if week.CostUSD == nil || *week.CostUSD != 0.75 || *week.InputTokens != 300 || before7.CostUSD != nil {
		t.Errorf("cost %+v %+v", week, before7)
	}
}

func TestRuns_FiltersAddUp(t *testing.T) {
	_, q, before := opened(t)
	for _, c := range []struct {
		filter query.Filter
		want   []string
	}{
		{query.Filter{Words: "DEPLOY"}, []string{"nightly-waits", "nightly-done"}},
		{query.Filter{Words: "tests are", Agent: new("tester")}, []string{"nightly-child"}},
		{query.Filter{Stalled: true}, []string{"nightly-stalls"}},
		{query.Filter{CostUSD: 0.3}, []string{"nightly-done"}},
		{query.Filter{Failed: true, Since: before, Agent: new("deployer")}, nil},
		{query.Filter{Failed: true, Since: time.Now().Add(time.Hour)}, nil},
		{query.Filter{Open: true, Since: before}, []string{"nightly-works", "nightly-unknown", "nightly-waits"}},
		{query.Filter{Outcomes: []runs.OutcomeStatus{runs.OutcomeFailure}}, []string{"nightly-child"}},
	} {
		page, err := q.Runs(ctx, c.filter, db.At{})
		ok(t, err)
		if got := ids(page.Items); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.filter, got, c.want)
		}
	}
	_, err := q.Runs(ctx, query.Filter{Failed: true, Open: true}, db.At{})
	if !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
		t.Errorf("failed and open: %v", err)
	}
}

func TestRuns_PagesHaveEachRunOnce(t *testing.T) {
	_, q, _ := opened(t)
	for _, filter := range []query.Filter{{}, {Words: "nightly"}, {Words: "deploy"}, {Failed: true}} {
		whole, err := q.Runs(ctx, filter, db.At{})
		ok(t, err)
		var got []string
		for at := (db.At{Limit: 1}); ; {
			page, err := q.Runs(ctx, filter, at)
			ok(t, err)
			if len(page.Items) > 1 {
				t.Fatalf("%+v: %d items", filter, len(page.Items))
			}
			got = append(got, ids(page.Items)...)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
		if want := ids(whole.Items); !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", filter, got, want)
		}
	}
}

func TestTimeline_HasRecordsAndTheirSteps(t *testing.T) {
	_, q, _ := opened(t)
	run := runs.RunRef{AgentID: "deployer", RunID: "nightly-done"}
	var got []string
	for at := (db.At{Limit: 1}); ; {
		page, err := q.Timeline(ctx, run, at)
		ok(t, err)
		for _, item := range page.Items {
			if item.At.IsZero() {
				t.Errorf("item %d has no time", item.Sequence)
			}
			line := item.Record.RecordKind()
			for _, step := range item.Steps {
				line += " " + step.Key
			}
			got = append(got, line)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	want := []string{"started", "turn reply-0 post-0", "turn reply-1 post-1", "ended"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	page, err := q.Timeline(ctx, runs.RunRef{AgentID: "deployer", RunID: "nightly-waits"}, db.At{})
	ok(t, err)
	if n := len(page.Items); n != 2 || page.Items[1].Record != nil || page.Items[1].Steps[0].Key != "gate" {
		t.Errorf("a run that waits: %+v", page.Items)
	}
	_, err = q.Timeline(ctx, runs.RunRef{RunID: "none"}, db.At{})
	if !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a run that is not there: %v", err)
	}
}

func TestFollow_GoesOnBehindTheTimeline(t *testing.T) {
	d, q, _ := opened(t)
	run := runs.RunRef{AgentID: "old", RunID: "nightly-stalls"}
	page, err := q.Timeline(ctx, run, db.At{})
	ok(t, err)
	bounded, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	ok(t, runs.NewStore(d, runs.Options{}).AppendRecords(ctx, "old", "nightly-stalls",
		[]runs.Record{runs.Turn{Prompt: new("next")}, runs.Cancelled(run, "enough", time.Now())}))
	var got []string
	for item, err := range q.Follow(bounded, run, page.Items[len(page.Items)-1].Cursor) {
		ok(t, err)
		if item.Record == nil {
			got = append(got, item.Status)
			break
		}
		got = append(got, item.Record.RecordKind())
	}
	if want := []string{"turn", "ended", "cancelled"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLive_JoinsPiecesOfOneText(t *testing.T) {
	d, q, _ := opened(t)
	l := live.NewStore(d, live.Options{})
	_, err := l.CreateRunWithID(ctx, "words", "session", "say it")
	ok(t, err)
	_, _, err = l.RecordEvent(ctx, "words", live.TextDelta("dead ").In(1, 1), live.TextDelta("words").In(1, 1),
		live.TextDelta("good ").In(1, 2), live.TextDelta("words").In(1, 2), live.ToolStart("1", "shell"),
		live.ErrorEvent("the disk is full"))
	ok(t, err)
	page, err := q.Live(ctx, "words", db.At{})
	ok(t, err)
	var got []string
	for _, e := range page.Items {
		got = append(got, fmt.Sprint(e.Type, "|", e.Text, "|", e.Tool, "|", e.Dropped))
	}
	want := []string{
		"text_delta|dead words||true", "text_delta|good words||false", "tool_start||shell|false",
		"error|the disk is full||false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestUsed_AddsUpByDayAgentAndModel(t *testing.T) {
	_, q, before := opened(t)
	list, err := q.Used(ctx, before, time.Time{})
	ok(t, err)
	if len(list) != 2 || list[0].Agent != "deployer" || list[0].Model != "large" ||
		*list[0].Usage.CostUSD != 0.5 ||
		list[1].Agent != "tester" || *list[1].Usage.OutputTokens != 10 {
		t.Errorf("%+v", list)
	}
	days, err := q.Days(ctx, before)
	ok(t, err)
	if len(days) == 0 || days[len(days)-1].Runs < 1 {
		t.Errorf("days %+v", days)
	}
}

func TestRun_HasParentsChildrenAndCost(t *testing.T) {
	_, q, _ := opened(t)
	parent := runs.RunRef{AgentID: "deployer", RunID: "nightly-done"}
	d, err := q.Run(ctx, parent)
	ok(t, err)
	if got := ids(d.Children); !slices.Equal(got, []string{"nightly-child"}) || *d.Cost.Own.CostUSD != 0.5 ||
		*d.Cost.Tree.CostUSD != 0.75 || !d.Live || d.Parent != nil {
		t.Errorf("%+v", d)
	}
	d, err = q.Run(ctx, d.Children[0].Ref())
	ok(t, err)
	if d.Parent == nil || *d.Parent != parent {
		t.Errorf("the parent is %v", d.Parent)
	}
}

func TestShortID_IsUniqueInTheScope(t *testing.T) {
	d, q, _ := opened(t)
	s := runs.NewStore(d, runs.Options{})
	for _, id := range []string{"nightly-done-2", "x", "0f8fad5b-d9cb-469f-a165-70867728950e", "日本語の長い名前です"} {
		ok(t, s.WriteStarted(ctx, runs.Started{RunID: id, AgentID: "old", Intent: id}))
	}
	page, err := q.Runs(ctx, query.Filter{}, db.At{})
	ok(t, err)
	for _, r := range page.Items {
		found, err := q.Find(ctx, r.ShortID, 2)
		ok(t, err)
		if !strings.HasPrefix(r.RunID, r.ShortID) || r.ShortID != r.RunID && len(found) != 1 {
			t.Errorf("%q is short for %q, and finds %v", r.ShortID, r.RunID, found)
		}
		if r.RunID[0] == '0' && r.ShortID != "0f8fad5b" {
			t.Errorf("%q is short for %q", r.ShortID, r.RunID)
		}
	}
}
