package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"selvedge"
	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/legacy"
	"selvedge/query"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// since is how far the first page looks back for what failed.
const since = 12 * time.Hour

type overviewBody struct {
	query.Overview
	Week, LastWeek db.Usage
	Counted        time.Time // when the weeks were added up; zero: not yet
	ByAgent        bool
	Answer         bool
	Secret         string
}

func (s *server) overview(r *http.Request) (*page, error) {
	o, err := s.query.Overview(r.Context(), time.Now().Add(-since))
	if err != nil {
		return nil, err
	}
	body := overviewBody{
		Overview: o, ByAgent: r.FormValue("by") == "agent", Answer: s.o.Answer,
		Secret: s.secret,
	}
	weeks, counted, err := s.weeks.get(r.Context(), func(ctx context.Context) (w [2]db.Usage, err error) {
		w[0], w[1], err = s.query.Weeks(ctx)
		return w, err
	})
	if err != nil {
		return nil, err
	}
	body.Week, body.LastWeek, body.Counted = weeks[0], weeks[1], counted
	if body.ByAgent {
		byAgent := func(a, b query.Run) int {
			return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.RunID, b.RunID))
		}
		slices.SortStableFunc(body.Running.Items, byAgent)
		slices.SortStableFunc(body.Failed.Items, byAgent)
		slices.SortStableFunc(body.Needs.Items, func(a, b selvedge.Step) int {
			return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Key, b.Key))
		})
		slices.SortStableFunc(body.Paused.Items, func(a, b checkpoints.Summary) int {
			return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.RunID, b.RunID))
		})
	}
	return &page{Title: "Tonight", Name: "overview", Here: "./", Stream: "stream", Body: body}, nil
}

// A listBody is a page of a list, with the links to its other pages.
type listBody[T any] struct {
	db.Page[T]
	Turn turning
}

func bodyOf[T any](r *http.Request, list db.Page[T]) listBody[T] {
	return listBody[T]{list, turn(r, list.Next)}
}

type runsBody struct {
	listBody[query.Run]
	Statuses []runs.RunStatus
	Outcomes []runs.OutcomeStatus
	Given    url.Values // the filter, as it was given
}

func (s *server) runs(r *http.Request) (*page, error) {
	f, err := filterOf(r)
	if err != nil {
		return nil, err
	}
	list, err := s.query.Runs(r.Context(), f, at(r))
	if err != nil {
		return nil, err
	}
	body := runsBody{
		listBody: bodyOf(r, list), Given: r.URL.Query(),
		Statuses: []runs.RunStatus{
			runs.StatusInProgress, runs.StatusWaiting, runs.StatusCompleted, runs.StatusIncomplete,
			runs.StatusCancelled,
		},
		Outcomes: []runs.OutcomeStatus{
			runs.OutcomeSuccess, runs.OutcomePartialSuccess, runs.OutcomeGiveUp, runs.OutcomeTimeout,
			runs.OutcomeFailure, runs.OutcomeDone,
		},
	}
	return &page{Title: "Runs", Name: "runs", Here: "runs", Stream: "stream", Body: body}, nil
}

// filterOf reads a filter from an address.
func filterOf(r *http.Request) (f query.Filter, err error) {
	if agent := r.FormValue("agent"); agent != "" {
		f.Agent = &agent
	}
	if word := r.FormValue("status"); word != "" {
		f.Statuses = []runs.RunStatus{runs.RunStatus(word)}
	}
	if word := r.FormValue("outcome"); word != "" {
		f.Outcomes = []runs.OutcomeStatus{runs.OutcomeStatus(word)}
	}
	f.Words, f.Failed, f.Stalled = r.FormValue("words"), r.FormValue("failed") != "",
		r.FormValue("stalled") != ""
	f.Open = f.Stalled
	if text := r.FormValue("cost"); text != "" {
		if f.CostUSD, err = strconv.ParseFloat(text, 64); err != nil || f.CostUSD < 0 {
			return f, txn.Invalid("write a number of dollars", "the least cost %.20q", text)
		}
	}
	for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if *to, err = query.ParseTime(r.FormValue(name), time.Now()); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (s *server) liveRuns(r *http.Request) (*page, error) {
	list, err := s.live.Page(r.Context(), live.Filter{Newest: true}, at(r))
	return &page{Title: "Live runs", Name: "live", Here: "live", Stream: "stream", Body: bodyOf(r, list)}, err
}

// usedDays is for how many days the page of costs adds up, and plots.
const usedDays = 30

type costBody struct {
	Used    []query.Used
	Plots   []plot
	Days    int
	Counted time.Time // when they were added up; zero: not yet
}

func (s *server) cost(r *http.Request) (*page, error) {
	body, counted, err := s.month.get(r.Context(), func(ctx context.Context) (b costBody, err error) {
		first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-usedDays)
		if b.Used, err = s.query.Used(ctx, first, time.Time{}); err != nil {
			return b, err
		}
		days, err := s.query.Days(ctx, first)
		b.Plots, b.Days = plotsOf(first, usedDays, b.Used, days), usedDays
		return b, err
	})
	body.Counted = counted
	return &page{Title: "Cost", Name: "cost", Here: "cost", Body: body}, err
}

type agentsBody struct {
	listBody[agents.Entry]
	All bool
}

func (s *server) registry(r *http.Request) (*page, error) {
	body := agentsBody{All: r.FormValue("all") != ""}
	f := agents.Filter{Statuses: []agents.Status{agents.Active}}
	if body.All {
		f.Statuses = nil
	}
	list, err := s.agents.Page(r.Context(), f, at(r))
	body.listBody = bodyOf(r, list)
	return &page{Title: "Agents", Name: "agents", Here: "agents", Stream: "stream", Body: body}, err
}

func (s *server) runtimes(r *http.Request) (*page, error) {
	list, err := s.workers.Page(r.Context(), workers.RuntimeFilter{}, at(r))
	p := &page{Title: "Workers", Name: "workers", Here: "workers", Stream: "stream", Body: bodyOf(r, list)}
	return p, err
}

func (s *server) quarantine(r *http.Request) (*page, error) {
	list, err := legacy.Quarantine(r.Context(), s.db, s.o.Scope, at(r))
	return &page{Title: "Quarantine", Name: "quarantine", Here: "quarantine", Body: bodyOf(r, list)}, err
}

type healthBody struct {
	db.Health
	db.Schema
	Path string
}

func (s *server) health(r *http.Request) (*page, error) {
	health, err := s.db.Health(r.Context())
	if err != nil {
		return nil, err
	}
	schema, err := s.db.Schema(r.Context())
	body := healthBody{health, schema, s.db.Path()}
	return &page{Title: "Health", Name: "health", Here: "health", Body: body}, err
}

// answer settles what waits, and goes back to the page that asked.
func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "The form could not be read.", http.StatusBadRequest)
		return
	}
	if !s.sameOrigin(r) || !same(r.PostFormValue("secret"), s.secret) {
		http.Error(w, "This form is not from a page of this server, or from before it started.",
			http.StatusForbidden)
		return
	}
	run := selvedge.Ref{AgentID: r.PostFormValue("agent"), RunID: r.PostFormValue("id")}
	a := selvedge.Answer{Decision: strings.TrimSpace(r.PostFormValue("decision")), By: r.PostFormValue("by")}
	if fields := strings.TrimSpace(r.PostFormValue("fields")); fields != "" {
		a.Fields = []byte(fields)
	}
	if err := s.front.Answer(r.Context(), run, r.PostFormValue("key"), a); err != nil {
		s.write(w, r, nil, err)
		return
	}
	w.Header().Set("Location", link("run", "agent", run.AgentID, "id", run.RunID))
	w.WriteHeader(http.StatusSeeOther)
}
