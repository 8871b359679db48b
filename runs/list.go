package runs

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
)

// A Filter selects the runs of a list. The zero value selects all. Runs without a started record
// are in no list.
type Filter struct {
	// Agent is the agent under which the run was written; nil is any. ("" is an agent like any
	// other.)
	Agent *string
	// Statuses are the runs' statuses; none means any.
	Statuses []RunStatus
	// Outcomes are the outcomes of completed runs; none means any run.
	Outcomes []OutcomeStatus
	// Since and Until bound the start: at or after Since, before Until. Zero is no bound.
	Since, Until time.Time
}

const opList = "list runs"

// listName is the name of the list in its cursors.
const listName = "runs"

// Page returns a page of the runs that pass the filter, newest first. Runs that started at the same
// nanosecond are ordered by run id, then by agent id. So are the runs from before 1678, and those
// from after 2261, which a column of times cannot tell apart. The cost depends on the runs that are
// examined, not on how many there are: indexes serve the filter's agent and times, and open runs;
// other statuses, and outcomes, are checked run by run.
func (s *Store) Page(ctx context.Context, filter Filter, at db.At) (page db.Page[RunSummary], err error) {
	read := s.db.Read
	if at.After == "" { // a page after a cursor takes two statements
		read = s.db.ReadSingle
	}
	return stores.Get(ctx, read, opList,
		func(rx *db.Rx) (db.Page[RunSummary], error) { return s.PageTx(rx, filter, at) })
}

// PageTx is Page inside a transaction.
func (s *Store) PageTx(rx *db.Rx, filter Filter, at db.At) (page db.Page[RunSummary], err error) {
	page, err = s.page(rx, filter, at)
	if err != nil {
		return page, &db.Error{Op: opList, Hint: db.Hint(err), Err: err}
	}
	return page, nil
}

// All returns the runs that pass the filter one by one, in the order of Page: see [paging.All]. A
// run moves in that order when another started record is written to it.
func (s *Store) All(ctx context.Context, filter Filter) iter.Seq2[RunSummary, error] {
	return paging.All(func(at db.At) (db.Page[RunSummary], error) { return s.Page(ctx, filter, at) })
}

// Get describes one run. A run without a started record, which no list shows, is Unstarted.
// ErrNotFound: the run does not exist.
func (s *Store) Get(ctx context.Context, run RunRef) (summary RunSummary, err error) {
	return stores.Get(ctx, s.db.Read, opGet, stores.Bind(s.GetTx, run))
}

const opGet = "get run"

// GetTx is Get inside a transaction.
func (s *Store) GetTx(rx *db.Rx, run RunRef) (summary RunSummary, err error) {
	scope, ok, err := s.scopeIn(rx)
	if err != nil {
		return summary, err
	}
	found := false
	if ok {
		where := conditions{text: ` AND scope = ? AND run_id = ? AND agent_id = ?`}
		where.args = []any{scope, run.RunID, run.AgentID}
		for summary, err = range where.summaries(rx, "") {
			if err != nil {
				return RunSummary{}, err
			}
			found = true
		}
	}
	if !found {
		return RunSummary{}, run.failed(opGet, db.ErrNotFound)
	}
	return summary, nil
}

// Find returns the runs whose id begins with prefix, ordered by run and then by agent, including
// those that no list shows; at most limit of them, with the rules of a page.
func (s *Store) Find(ctx context.Context, prefix string, limit int) (found []RunRef, err error) {
	return stores.Get(ctx, s.db.Read, opFind, stores.Bind2(s.FindTx, prefix, limit))
}

const opFind = "find runs"

// FindTx is Find inside a transaction.
func (s *Store) FindTx(rx *db.Rx, prefix string, limit int) (found []RunRef, err error) {
	found, err = stores.FindPrefix[RunRef](rx, s.db, s.scope, "run", prefix, limit, sqlFindRuns)
	return found, db.About(err, opFind, "", "", nil)
}

const sqlFindRuns = `SELECT agent_id, run_id FROM runs WHERE scope = ? AND run_id >= ? AND run_id < ?
	ORDER BY run_id, agent_id LIMIT ` + paging.BoundLimit

// conditions is a filter as SQL.
type conditions struct {
	text  string
	args  []any
	exact bool // a time is out of a column's range: Filter.passes decides
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
	var err error
	closed := func(s RunStatus) bool { return s != StatusInProgress && s != StatusWaiting }
	switch {
	case len(f.Statuses) == 0 || slices.ContainsFunc(f.Statuses, closed):
		err = addWords(&c, "status", shownStatus, f.Statuses, statuses)
	// Spelled out, so that the planner can use the index of open runs.
	case !slices.Contains(f.Statuses, StatusWaiting):
		c.add(" AND status = 'in_progress' AND NOT " + waits)
	case !slices.Contains(f.Statuses, StatusInProgress):
		c.add(" AND status = 'in_progress' AND " + waits)
	default:
		c.add(" AND status = 'in_progress'")
	}
	if err == nil {
		err = addWords(&c, "outcome", "outcome", f.Outcomes, outcomeWords)
	}
	if err != nil {
		return c, err
	}
	// A column of times ranges from 1677 to 2262. It clamps times beyond, and the exact times
	// decide.
	if !f.Since.IsZero() {
		c.add(" AND started_at >= ?", db.Nanos(f.Since))
	}
	switch {
	case f.Until.IsZero():
	case holdsNanos(f.Until):
		c.add(" AND started_at < ?", db.Nanos(f.Until))
	default:
		c.add(" AND started_at <= ?", db.Nanos(f.Until))
	}
	c.exact = !f.Since.IsZero() && !holdsNanos(f.Since) || !f.Until.IsZero() &&
		!holdsNanos(f.Until)
	return c, nil
}

// passes compares the exact times, for conditions that are exact.
func (f Filter) passes(run *RunSummary) bool {
	return (f.Since.IsZero() || !run.StartedAt.Before(f.Since)) &&
		(f.Until.IsZero() || run.StartedAt.Before(f.Until))
}

// addWords requires an expression to be one of the words, if there are any; known are those that it
// may be.
func addWords[W ~string](c *conditions, what, expression string, words []W, known []string) error {
	for _, word := range words {
		if !slices.Contains(known, string(word)) {
			return &db.Error{
				Op: opList, Hint: "use one of " + strings.Join(known, ", "),
				Err: fmt.Errorf("%w: %q is no %s of a run", db.ErrInvalid, word, what),
			}
		}
		c.args = append(c.args, string(word))
	}
	if n := len(words); n > 0 {
		c.text += " AND " + expression + " IN (?" + strings.Repeat(", ?", n-1) + ")"
	}
	return nil
}

// summaryOrder is the order of every list, and of the indexes runs_by_agent, runs_by_start and
// runs_open.
const summaryOrder = ` ORDER BY started_at DESC, run_id, agent_id`

func (s *Store) page(rx *db.Rx, filter Filter, at db.At) (page db.Page[RunSummary], err error) {
	where, err := filter.where()
	if err != nil {
		return page, err
	}
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	scope, ok, err := s.scopeIn(rx)
	if err != nil || !ok && at.After == "" {
		return page, err
	}
	var place []any // start, run id and agent id of the previous page's last run
	if at.After != "" {
		numbers, run := []int64{scope, 0}, RunRef{}
		if err := rx.Store().ReadListCursor(listName, at.After, numbers, &run.RunID, &run.AgentID); err != nil {
			return page, err
		}
		place = []any{numbers[1], run.RunID, run.AgentID}
	}
	limit := room.Items + 1
	if where.exact {
		limit = math.MaxInt32 // some are filtered out, and the page's room ends the loop
	}
	items := func(yield func(RunSummary, error) bool) {
		for run, err := range where.behind(rx, scope, place, limit) {
			if err == nil && where.exact && !filter.passes(&run) {
				continue
			}
			if !yield(run, err) {
				return
			}
		}
	}
	return stores.FillPage(room, items, (*RunSummary).size, func(run *RunSummary) string {
		return rx.Store().Cursor(listName, []int64{scope, columnNanos(run.StartedAt)}, run.Ref.RunID,
			run.Ref.AgentID)
	})
}

// size returns roughly how many bytes a summary takes.
func (s *RunSummary) size() int { return 200 + len(s.RunID) + len(s.AgentID) + len(s.Intent) }

// behind returns at most limit runs after a place. It takes two statements, the first for the runs
// that started at the same time, so that each reads one range of an index.
func (c *conditions) behind(rx *db.Rx, scope int64, place []any, limit int) iter.Seq2[RunSummary, error] {
	from := c.and(` AND started_at IS NOT NULL AND scope = ?`, scope)
	if place == nil {
		return from.summaries(rx, summaryOrder+` LIMIT `+paging.BoundLimit, limit)
	}
	tied := from.and(` AND started_at = ? AND (run_id, agent_id) > (?, ?)`, place...)
	older := from.and(` AND started_at < ?`, place[0])
	return func(yield func(RunSummary, error) bool) {
		for _, part := range []conditions{tied, older} {
			for run, err := range part.summaries(rx, summaryOrder+` LIMIT `+paging.BoundLimit, limit) {
				if !yield(run, err) || err != nil {
					return
				}
			}
		}
	}
}

// and returns the conditions with some more added.
func (c *conditions) and(text string, args ...any) conditions {
	return conditions{text: c.text + text, args: slices.Concat(c.args, args)}
}
