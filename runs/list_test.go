package runs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// shelfOfRuns writes 60 runs of three agents, with ties among their starts, every fifth open, every
// seventh failed.
func shelfOfRuns(t *testing.T) *runs.Store {
	t.Helper()
	s, _ := openStore(t, runs.Options{})
	for i := range 60 {
		agent, run := fmt.Sprint("agent-", i%3), fmt.Sprintf("run-%02d", (i*17)%60)
		at := start.Add(time.Duration(i/9) * time.Hour)
		records := []runs.Record{started(run, agent, at), turn(0, "p")}
		switch {
		case i%5 == 0:
		case i%7 == 0:
			records = append(records, ended(run, agent, runs.OutcomeFailure, at.Add(time.Minute)))
		default:
			records = append(records, ended(run, agent, runs.OutcomeSuccess, at.Add(time.Minute)))
		}
		must(t, s.AppendRecords(t.Context(), agent, run, records))
	}
	return s
}

func pages(t *testing.T, s *runs.Store, filter runs.Filter, limit int) []runs.RunSummary {
	t.Helper()
	var all []runs.RunSummary
	page := db.At{Limit: limit}
	for {
		got, err := s.Page(t.Context(), filter, page)
		must(t, err)
		all = append(all, got.Items...)
		if got.Next == "" {
			return all
		}
		if len(got.Items) != limit {
			t.Fatalf("a page of %d has %d items and a next one", limit, len(got.Items))
		}
		page.After = got.Next
	}
}

func TestPagesOfAnySizeGiveTheList(t *testing.T) {
	s := shelfOfRuns(t)
	for _, filter := range []runs.Filter{
		{},
		{Agent: new("agent-1")},
		{Agent: new("nobody")},
		{Statuses: []runs.RunStatus{runs.StatusInProgress}},
		{Statuses: []runs.RunStatus{runs.StatusInProgress, runs.StatusIncomplete}},
		{Statuses: []runs.RunStatus{runs.StatusCompleted}},
		{Outcomes: []runs.OutcomeStatus{runs.OutcomeFailure, runs.OutcomeTimeout}},
		{Since: start.Add(2 * time.Hour), Until: start.Add(5 * time.Hour)},
		{Agent: new("agent-0"), Since: start.Add(time.Hour), Statuses: []runs.RunStatus{runs.StatusInProgress}},
	} {
		var want []runs.RunSummary
		for run, err := range s.All(t.Context(), runs.Filter{}) {
			must(t, err)
			if passes(filter, run) {
				want = append(want, run)
			}
		}
		for _, limit := range []int{1, 2, 7, 59, 60, 1000} {
			if got := pages(t, s, filter, limit); !slices.EqualFunc(got, want, sameRun) {
				t.Errorf("%+v in pages of %d:\n%v, not\n%v", filter, limit, names(got), names(want))
			}
		}
	}
}

// passes is the filter in plain words.
func passes(f runs.Filter, run runs.RunSummary) bool {
	return (f.Agent == nil || run.Ref.AgentID == *f.Agent) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, run.Status)) &&
		(len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, run.Outcome)) &&
		(f.Since.IsZero() || !run.StartedAt.Before(f.Since)) &&
		(f.Until.IsZero() || run.StartedAt.Before(f.Until))
}

func sameRun(a, b runs.RunSummary) bool { return a.Ref == b.Ref }

func names(all []runs.RunSummary) string {
	var b strings.Builder
	for _, run := range all {
		fmt.Fprintf(&b, "%s/%s ", run.AgentID, run.RunID)
	}
	return b.String()
}

func TestList_NewestFirstThenByRun(t *testing.T) {
	all := pages(t, shelfOfRuns(t), runs.Filter{}, 11)
	if len(all) != 60 {
		t.Fatalf("the list has %d runs, not 60", len(all))
	}
	for i, run := range all[1:] {
		before := all[i]
		if before.StartedAt.Before(run.StartedAt) || before.StartedAt.Equal(run.StartedAt) &&
			before.RunID >= run.RunID {
			t.Errorf("%s of %v comes before %s of %v", before.RunID, before.StartedAt, run.RunID, run.StartedAt)
		}
	}
}

func TestAPageGoesOnWhereARunWasRemoved(t *testing.T) {
	d := shelfOfRuns(t)
	first, err := d.Page(t.Context(), runs.Filter{}, db.At{Limit: 20})
	must(t, err)
	want := pages(t, d, runs.Filter{}, 60)[20:]
	must(t, removeRun(t, d, first.Items[19].Ref))
	must(t, d.WriteStarted(t.Context(), started("newer", "agent-0", start.Add(day))))
	var got []runs.RunSummary
	for page := (db.At{After: first.Next}); ; {
		next, err := d.Page(t.Context(), runs.Filter{}, page)
		must(t, err)
		got = append(got, next.Items...)
		if page.After = next.Next; page.After == "" {
			break
		}
	}
	if !slices.EqualFunc(got, want, sameRun) {
		t.Errorf("behind the removed run come\n%s, not\n%s", names(got), names(want))
	}
}

func TestTheLoopOverRunsMayWrite(t *testing.T) {
	s := shelfOfRuns(t)
	seen := 0
	for run, err := range s.All(t.Context(), runs.Filter{}) {
		must(t, err)
		must(t, s.AppendTurns(t.Context(), run.Ref.AgentID, run.Ref.RunID, []runs.Turn{turn(1, "more")}))
		seen++
	}
	if seen != 60 {
		t.Errorf("the loop saw %d runs", seen)
	}
}

func TestBadQuestionsAreRefused(t *testing.T) {
	s := shelfOfRuns(t)
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(0, "p")}))
	trace, err := s.CursorBefore(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}, 0)
	must(t, err)
	for name, ask := range map[string]func() error{
		"a negative limit": func() error {
			_,
				err := s.Page(t.Context(), runs.Filter{}, db.At{Limit: -1})
			return err
		},
		"a huge limit": func() error {
			_,
				err := s.Page(t.Context(), runs.Filter{}, db.At{Limit: 1001})
			return err
		},
		"no cursor": func() error {
			_,
				err := s.Page(t.Context(), runs.Filter{}, db.At{After: "x"})
			return err
		},
		"a cursor of a trace": func() error {
			_,
				err := s.Page(t.Context(), runs.Filter{}, db.At{After: trace})
			return err
		},
		"an unknown status": func() error {
			_, err := s.Page(t.Context(), runs.Filter{Statuses: []runs.RunStatus{"done"}}, db.At{})
			return err
		},
		"an unknown outcome": func() error {
			_, err := s.Page(t.Context(), runs.Filter{Outcomes: []runs.OutcomeStatus{"completed"}}, db.At{})
			return err
		},
	} {
		if err := ask(); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
			t.Errorf("%s gave %v (%s)", name, err, db.Hint(err))
		}
	}
}

func TestASummaryOfOneRun(t *testing.T) {
	s := shelfOfRuns(t)
	for _, want := range list(t, s, "agent-1") {
		got, err := s.Get(t.Context(), want.Ref)
		if err != nil || !sameRun(got, want) || got.TurnCount != want.TurnCount || got.Status != want.Status {
			t.Errorf("the summary is %+v (%v), not %+v", got, err, want)
		}
	}
	if _, err := s.Get(t.Context(), runs.RunRef{AgentID: "agent-1", RunID: "none"}); !errors.Is(err,
		db.ErrNotFound) {
		t.Errorf("of a run that is not there: %v", err)
	}
	must(t, s.AppendTurns(t.Context(), "agent-1", "unstarted", []runs.Turn{turn(0, "p")}))
	got, err := s.Get(t.Context(), runs.RunRef{AgentID: "agent-1", RunID: "unstarted"})
	if err != nil || !got.Unstarted || got.TurnCount != 1 || got.Status != runs.StatusInProgress {
		t.Errorf("a run without a started record is %+v (%v)", got, err)
	}
}

func TestFilter_YearsBeyondColumnUseExactTimes(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	in := func(year int) time.Time { return time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC) }
	for _, year := range []int{1500, 1600, 2026, 2300, 2400} {
		must(t, s.WriteStarted(t.Context(), started(fmt.Sprint(year), "a", in(year))))
	}
	for _, test := range []struct {
		filter runs.Filter
		want   string
	}{
		{runs.Filter{}, "2300 2400 2026 1500 1600"}, // those outside tie, and go by id
		{runs.Filter{Since: in(2301)}, "2400"},
		{runs.Filter{Since: in(2300)}, "2300 2400"},
		{runs.Filter{Until: in(2400)}, "2300 2026 1500 1600"},
		{runs.Filter{Until: in(1600)}, "1500"},
		{runs.Filter{Since: in(1501), Until: in(2301)}, "2300 2026 1600"},
	} {
		var got []string
		for run, err := range s.All(t.Context(), test.filter) {
			must(t, err)
			got = append(got, run.Ref.RunID)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("from %v to %v there are %v, not %s", test.filter.Since, test.filter.Until, got, test.want)
		}
	}
	list, err := s.ListRuns(t.Context(), "a")
	must(t, err)
	var exact []string
	for _, run := range list {
		exact = append(exact, run.Ref.RunID)
	}
	if got := strings.Join(exact, " "); got != "2400 2300 2026 1600 1500" {
		t.Errorf("the old store's list is %s", got)
	}
}
