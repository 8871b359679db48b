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
	"selvedge/internal/txn"
)

// A Filter says which runs a list shows. The zero value is all of them. Runs without a started
// record are in no list.
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

const opList = "list runs"

// listName is that of the list in its cursors.
const listName = "runs"

// Page gives a page of the runs that pass the filter, newest first; runs that started at the same
// nanosecond go by run id, then by agent id, and so do those from before 1678, and those from after
// 2261, which a column of times can't tell apart. Its cost depends on the runs that it looks at,
// not on how many there are: the filter's agent and times are found in an index, as are open runs;
// other statuses, and outcomes, are picked out.
func (s *Store) Page(ctx context.Context, filter Filter, at db.At) (page db.Page[RunSummary], err error) {
	read := s.db.Read
	if at.After == "" { // what lies behind a place takes two statements
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

// All gives the runs that pass the filter one by one, in the order of Page: see [paging.All]. A
// run moves in that order when another started record is written to it.
func (s *Store) All(ctx context.Context, filter Filter) iter.Seq2[RunSummary, error] {
	return paging.All(func(at db.At) (db.Page[RunSummary], error) { return s.Page(ctx, filter, at) })
}

// Get describes one run. One without a started record, which no list shows, is Unstarted.
// ErrNotFound: there is no such run.
func (s *Store) Get(ctx context.Context, run RunRef) (summary RunSummary, err error) {
	return stores.Get(ctx, s.db.Read, opGet, func(rx *db.Rx) (RunSummary, error) { return s.GetTx(rx, run) })
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

// Find gives the runs whose id begins with prefix, by run and then by agent, also those that no
// list shows; at most limit of them, with the rules of a page.
func (s *Store) Find(ctx context.Context, prefix string, limit int) (found []RunRef, err error) {
	return stores.Get(ctx, s.db.Read, opFind,
		func(rx *db.Rx) ([]RunRef, error) { return s.FindTx(rx, prefix, limit) })
}

const opFind = "find runs"

// FindTx is Find inside a transaction.
func (s *Store) FindTx(rx *db.Rx, prefix string, limit int) (found []RunRef, err error) {
	room, err := paging.RoomFor(limit)
	if err == nil {
		err = txn.CheckID("run", prefix)
	}
	if err != nil {
		return nil, db.About(err, opFind, "", "", nil)
	}
	scope, ok, err := s.scopeIn(rx)
	if err != nil || !ok {
		return nil, err
	}
	err = rx.Select(&found, sqlFindRuns, scope, prefix, paging.AfterPrefix(prefix), room.Items)
	return found, err
}

const sqlFindRuns = `SELECT agent_id, run_id FROM runs WHERE scope = ? AND run_id >= ? AND run_id < ?
	ORDER BY run_id, agent_id LIMIT ` + paging.BoundLimit

// conditions are a filter as SQL.
type conditions struct {
	text  string
	args  []any
	exact bool // a time of the filter is beyond what a column holds: Filter.passes has the last word
}

// key tells filters apart. The arguments are texts and integers, which %#v writes each in its own
// way; %q takes large ones for one rune.
func (c *conditions) key() string { return fmt.Sprintf("%s %#v", c.text, c.args) }

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
	if slices.Equal(f.Statuses, []RunStatus{StatusInProgress}) {
		// Written out, so that the index of open runs is seen to hold all that is wanted.
		c.add(" AND status = 'in_progress'")
	} else {
		err = addWords(&c, "status", f.Statuses, statuses)
	}
	if err == nil {
		err = addWords(&c, "outcome", f.Outcomes, outcomeWords)
	}
	if err != nil {
		return c, err
	}
	// A column of times ends in 1677 and 2262. Beyond, it says no more than that, and the exact times decide.
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

// passes is the filter's question about times, for conditions that are not exact.
func (f Filter) passes(run *RunSummary) bool {
	return (f.Since.IsZero() || !run.StartedAt.Before(f.Since)) &&
		(f.Until.IsZero() || run.StartedAt.Before(f.Until))
}

// addWords asks for a column with one of the words, if there are any; known are those that it may hold.
func addWords[W ~string](c *conditions, column string, words []W, known []string) error {
	for _, word := range words {
		if !slices.Contains(known, string(word)) {
			return &db.Error{
				Op: opList, Hint: "use one of " + strings.Join(known, ", "),
				Err: fmt.Errorf("%w: %q is no %s of a run", db.ErrInvalid, word, column),
			}
		}
		c.args = append(c.args, string(word))
	}
	if n := len(words); n > 0 {
		c.text += " AND " + column + " IN (?" + strings.Repeat(", ?", n-1) + ")"
	}
	return nil
}

// summaryOrder is the order of every list: that of the indexes runs_by_agent, runs_by_start and runs_open.
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
	var place []any // of the last run of the page before: its start, run id and agent id
	if at.After != "" {
		var numbers [2]int64
		var run RunRef
		if err := rx.Store().ReadCursor(listName, at.After, numbers[:], &run.RunID, &run.AgentID); err != nil {
			return page, err
		}
		if numbers[0] != scope {
			return page, txn.NotThisCursor(at.After)
		}
		place = []any{numbers[1], run.RunID, run.AgentID}
	}
	limit := room.Items + 1
	if where.exact {
		limit = math.MaxInt32 // some are picked out, and the page is full when it is full
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

// size is how many bytes a summary takes, about.
func (s *RunSummary) size() int { return 200 + len(s.RunID) + len(s.AgentID) + len(s.Intent) }

// behind gives at most limit runs behind a place, in two steps, first those that started at the
// same time, so that each is one range of an index.
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

// and gives the conditions with some more.
func (c *conditions) and(text string, args ...any) conditions {
	return conditions{text: c.text + text, args: slices.Concat(c.args, args)}
}
