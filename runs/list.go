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
	err = read(ctx, opList, func(rx *db.Rx) error {
		page, err = s.PageTx(rx, filter, at)
		return err
	})
	return page, err
}

// PageTx is Page inside a transaction.
func (s *Store) PageTx(rx *db.Rx, filter Filter, at db.At) (page db.Page[RunSummary], err error) {
	page, err = s.page(rx, filter, at)
	if err != nil {
		return page, &db.Error{Op: opList, Hint: db.Hint(err), Err: err}
	}
	return page, nil
}

// All gives the runs that pass the filter one by one, in the order of Page: see [db.AllPages]. A
// run moves in that order when another started record is written to it.
func (s *Store) All(ctx context.Context, filter Filter) iter.Seq2[RunSummary, error] {
	return db.AllPages(func(at db.At) (db.Page[RunSummary], error) { return s.Page(ctx, filter, at) })
}

// Get describes one run. One without a started record, which no list shows, is Unstarted.
// ErrNotFound: there is no such run.
func (s *Store) Get(ctx context.Context, run RunRef) (summary RunSummary, err error) {
	err = s.db.Read(ctx, opGet, func(rx *db.Rx) error {
		summary, err = s.GetTx(rx, run)
		return err
	})
	return summary, err
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
		where := conditions{
			text: ` AND scope = ? AND run_id = ? AND agent_id = ?`,
			args: []any{scope, run.RunID, run.AgentID},
		}
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
	err = s.db.Read(ctx, opFind, func(rx *db.Rx) error {
		found, err = s.FindTx(rx, prefix, limit)
		return err
	})
	return found, err
}

const opFind = "find runs"

// FindTx is Find inside a transaction.
func (s *Store) FindTx(rx *db.Rx, prefix string, limit int) (found []RunRef, err error) {
	room, err := db.At{Limit: limit}.Room()
	if err == nil {
		err = db.CheckID("run", prefix)
	}
	if err != nil {
		return nil, db.About(err, opFind, "", "", nil)
	}
	scope, ok, err := s.scopeIn(rx)
	if err != nil || !ok {
		return nil, err
	}
	err = rx.Select(&found, sqlFindRuns, scope, prefix, db.AfterPrefix(prefix), room.Items)
	return found, err
}

const sqlFindRuns = `SELECT agent_id, run_id FROM runs WHERE scope = ? AND run_id >= ? AND run_id < ?
	ORDER BY run_id, agent_id LIMIT ` + db.BoundLimit

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
			return c, noWord(fmt.Errorf("%w: %q is no status of a run", db.ErrInvalid, status), statuses)
		}
	}
	if len(f.Outcomes) > 0 {
		words := make([]RunStatus, len(f.Outcomes))
		for i, outcome := range f.Outcomes {
			if !slices.Contains(outcomeWords, string(outcome)) {
				return c, noWord(fmt.Errorf("%w: %q is no outcome of a run", db.ErrInvalid, outcome), outcomeWords)
			}
			words[i] = RunStatus(outcome)
		}
		c.addWords("outcome", words)
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

// noWord adds which words there are.
func noWord[T ~string](err error, words []T) error {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = string(word)
	}
	return &db.Error{Op: opList, Hint: "use one of " + strings.Join(list, ", "), Err: err}
}

func (c *conditions) addWords(column string, words []RunStatus) {
	c.text += " AND " + column + " IN (" + strings.TrimSuffix(strings.Repeat("?, ", len(words)), ", ") + ")"
	for _, w := range words {
		c.args = append(c.args, string(w))
	}
}

// summaryOrder is the order of every list: that of the indexes runs_by_agent, runs_by_start and runs_open.
const summaryOrder = ` ORDER BY started_at DESC, run_id, agent_id`

func (s *Store) page(rx *db.Rx, filter Filter, at db.At) (page db.Page[RunSummary], err error) {
	where, err := filter.where()
	if err != nil {
		return page, err
	}
	room, err := at.Room()
	if err != nil {
		return page, err
	}
	scope, ok, err := s.scopeIn(rx)
	if err != nil || !ok && at.After == "" {
		return page, err
	}
	var place *listPlace
	if at.After != "" {
		if place, err = readListPlace(rx, scope, at.After); err != nil {
			return page, err
		}
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
	return db.FillPage(room, items, (*RunSummary).size, func(run *RunSummary) string {
		return rx.Cursor(listName, []int64{scope, columnNanos(run.StartedAt)}, run.Ref.RunID,
			run.Ref.AgentID)
	})
}

// size is how many bytes a summary takes, about.
func (s *RunSummary) size() int { return 200 + len(s.RunID) + len(s.AgentID) + len(s.Intent) }

// listPlace is where a page of a list ended. The run need not be there any more.
type listPlace struct {
	startedAt int64
	ref       RunRef
}

func readListPlace(rx *db.Rx, scope int64, cursor string) (*listPlace, error) {
	var numbers [2]int64
	p := new(listPlace)
	if err := rx.ReadCursor(listName, cursor, numbers[:], &p.ref.RunID, &p.ref.AgentID); err != nil {
		return nil, err
	}
	if numbers[0] != scope {
		return nil, db.NotThisCursor(cursor)
	}
	p.startedAt = numbers[1]
	return p, nil
}

// behind gives at most limit runs behind a place, in two steps, first those that started at the
// same time, so that each is one range of an index.
func (c *conditions) behind(rx *db.Rx, scope int64, after *listPlace, limit int) iter.Seq2[RunSummary,
	error] {
	from := c.and(` AND started_at IS NOT NULL AND scope = ?`, scope)
	if after == nil {
		return from.summaries(rx, summaryOrder+` LIMIT `+db.BoundLimit, limit)
	}
	tied := from.and(` AND started_at = ? AND (run_id, agent_id) > (?, ?)`, after.startedAt, after.ref.RunID,
		after.ref.AgentID)
	older := from.and(` AND started_at < ?`, after.startedAt)
	return func(yield func(RunSummary, error) bool) {
		for _, part := range []conditions{tied, older} {
			for run, err := range part.summaries(rx, summaryOrder+` LIMIT `+db.BoundLimit, limit) {
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
