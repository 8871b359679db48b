package runs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"selvedge/db"
)

// A Filter says which runs a list shows. The zero value is all of them. Runs without a started record are in no list.
type Filter struct {
	// Agent is the agent that the calls named; nil is any. ("" is an agent like any other.)
	Agent *string
	// Statuses are those to show; none means any.
	Statuses []RunStatus
	// Outcomes are those to show, of completed runs; none means any run.
	Outcomes []OutcomeStatus
	// Since and Until bound the start: not before Since, before Until. Zero is no bound.
	Since, Until time.Time
}

// A ListPage is a part of a list, newest first; runs that started at the same nanosecond go by run id, then by agent id.
type ListPage struct {
	Items []RunSummary
	Next  string // for the next page; "" when this is the last
}

const opList = "list runs"

// ListRuns gives all runs of an agent, newest first, from one snapshot. An agent that nobody has seen has none.
func (s *Store) ListRuns(ctx context.Context, agentID string) ([]RunSummary, error) {
	return s.read(ctx, Filter{Agent: &agentID}, nil, -1)
}

// List gives a page of the runs that pass the filter. Its cost depends on the runs that it looks at, not on how many there
// are: the filter's agent and times are found in an index, as are open runs; other statuses, and outcomes, are picked out.
func (s *Store) List(ctx context.Context, filter Filter, page Page) (ListPage, error) {
	limit, err := page.limit()
	if err != nil {
		return ListPage{}, &db.Error{Op: opList, Err: err}
	}
	var after *listPlace
	if page.After != "" {
		place, err := parseListCursor(page.After)
		if err != nil {
			return ListPage{}, &db.Error{Op: opList, Err: err}
		}
		after = &place
	}
	items, err := s.read(ctx, filter, after, limit+1)
	if err != nil {
		return ListPage{}, err
	}
	if len(items) <= limit {
		return ListPage{Items: items}, nil
	}
	items = items[:limit]
	return ListPage{Items: items, Next: items[limit-1].place().cursor()}, nil
}

// Runs gives the runs that pass the filter one by one, read in pages: no transaction is open while the caller's loop runs,
// and runs that come or go meanwhile may or may not be seen, none twice. After an error there is nothing more.
func (s *Store) Runs(ctx context.Context, filter Filter) iter.Seq2[RunSummary, error] {
	return func(yield func(RunSummary, error) bool) {
		const pageSize = 200
		var after *listPlace
		for {
			items, err := s.read(ctx, filter, after, pageSize)
			if err != nil {
				yield(RunSummary{}, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if len(items) < pageSize {
				return
			}
			place := items[len(items)-1].place()
			after = &place
		}
	}
}

// Summary describes one run; found is false when there is none, or none with a started record.
func (s *Store) Summary(ctx context.Context, agentID, runID string) (summary RunSummary, found bool, err error) {
	err = s.db.Read(ctx, "summarize run", func(rx *db.Rx) error {
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		var items []RunSummary
		items, err = selectSummaries(rx, `WHERE started_at IS NOT NULL AND scope = ? AND run_id = ? AND agent_id = ?`, scope, runID, agentID)
		if len(items) == 1 {
			summary, found = items[0], true
		}
		return err
	})
	return summary, found, err
}

// place is where a list goes on behind this run.
func (s *RunSummary) place() listPlace {
	return listPlace{startedAt: columnNanos(s.StartedAt), ref: s.Ref}
}

// read gives at most limit runs behind a place; a negative limit is none.
func (s *Store) read(ctx context.Context, filter Filter, after *listPlace, limit int) (items []RunSummary, err error) {
	where, err := filter.where()
	if err != nil {
		return nil, &db.Error{Op: opList, Err: err}
	}
	err = s.db.Read(ctx, opList, func(rx *db.Rx) error {
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		items, err = where.read(rx, scope, after, limit)
		return err
	})
	return items, err
}

// conditions are a filter as SQL.
type conditions struct {
	text string
	args []any
}

func (c *conditions) add(text string, args ...any) {
	c.text += text
	c.args = append(c.args, args...)
}

func (f Filter) where() (conditions, error) {
	var c conditions
	if f.Agent != nil {
		c.add(" AND agent_id = ?", *f.Agent)
	}
	if len(f.Statuses) == 1 {
		// Written out, so that the index of open runs is seen to hold all that is wanted.
		if f.Statuses[0] == StatusInProgress {
			c.add(" AND status = 'in_progress'")
		} else {
			c.add(" AND status = ?", string(f.Statuses[0]))
		}
	} else if len(f.Statuses) > 1 {
		c.addWords("status", f.Statuses)
	}
	for _, status := range f.Statuses {
		if !slices.Contains(statuses, status) {
			return c, fmt.Errorf("%w: %q is no status of a run", db.ErrInvalid, status)
		}
	}
	if len(f.Outcomes) > 0 {
		words := make([]RunStatus, len(f.Outcomes))
		for i, outcome := range f.Outcomes {
			if !slices.Contains(outcomeWords, string(outcome)) {
				return c, fmt.Errorf("%w: %q is no outcome of a run", db.ErrInvalid, outcome)
			}
			words[i] = RunStatus(outcome)
		}
		c.addWords("outcome", words)
	}
	if !f.Since.IsZero() {
		c.add(" AND started_at >= ?", db.Nanos(f.Since))
	}
	if !f.Until.IsZero() {
		c.add(" AND started_at < ?", db.Nanos(f.Until))
	}
	return c, nil
}

func (c *conditions) addWords(column string, words []RunStatus) {
	c.text += " AND " + column + " IN (" + strings.TrimSuffix(strings.Repeat("?, ", len(words)), ", ") + ")"
	for _, w := range words {
		c.args = append(c.args, string(w))
	}
}

// summaryOrder is the order of every list: that of the indexes runs_by_agent, runs_by_start and runs_open.
const summaryOrder = ` ORDER BY started_at DESC, run_id, agent_id LIMIT ` + boundLimit

// read looks behind a place in two steps, first among the runs that started at the same time, so that each is one range of
// an index.
func (c conditions) read(rx *db.Rx, scope int64, after *listPlace, limit int) ([]RunSummary, error) {
	const started = `WHERE started_at IS NOT NULL AND scope = ?`
	where, args := started+c.text, append([]any{scope}, c.args...)
	if after == nil {
		return selectSummaries(rx, where+summaryOrder, append(args, limit)...)
	}
	tied, err := selectSummaries(rx, where+` AND started_at = ? AND (run_id, agent_id) > (?, ?)`+summaryOrder,
		append(slices.Clone(args), after.startedAt, after.ref.RunID, after.ref.AgentID, limit)...)
	if err != nil || len(tied) == limit {
		return tied, err
	}
	older, err := selectSummaries(rx, where+` AND started_at < ?`+summaryOrder, append(args, after.startedAt, limit-len(tied))...)
	return append(tied, older...), err
}

// sqlSummary counts the turns of an open run by one seek for its last line; the count of an ended one is kept.
const sqlSummary = `SELECT agent_id, run_id, shown_agent_id, shown_run_id, intent, started_at, started_at_text, status, outcome,
    ended_at, ended_at_text,
    coalesce(turn_count, coalesce((SELECT max(id) FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24) & 16777215, 0) - others)
FROM runs `

func selectSummaries(rx *db.Rx, where string, args ...any) ([]RunSummary, error) {
	rows, err := rx.Query(sqlSummary+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var (
		list    []RunSummary
		s       RunSummary
		state   runState
		started int64
		status  string
	)
	targets := []any{
		&s.Ref.AgentID, &s.Ref.RunID, &state.ShownAgentID, &state.ShownRunID, &s.Intent, &started,
		&state.StartedAtText, &status, &state.Outcome, &state.EndedAt, &state.EndedAtText, &s.TurnCount,
	} // one set for all rows
	for rows.Next() {
		s = RunSummary{}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		s.Status = RunStatus(status)
		if err := s.fill(started, state); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

func (s *RunSummary) fill(started int64, state runState) (err error) {
	s.AgentID, s.RunID = s.Ref.AgentID, s.Ref.RunID
	if state.ShownAgentID != nil {
		s.AgentID = *state.ShownAgentID
	}
	if state.ShownRunID != nil {
		s.RunID = *state.ShownRunID
	}
	if state.Outcome != nil {
		s.Outcome = OutcomeStatus(*state.Outcome)
	}
	if s.StartedAt, s.startedAtText, err = timeOf(started, state.StartedAtText); err != nil || state.EndedAt == nil {
		return err
	}
	ended, exact, err := timeOf(*state.EndedAt, state.EndedAtText)
	s.EndedAt, s.endedAtText = &ended, exact
	return err
}
