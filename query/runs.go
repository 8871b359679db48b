package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"selvedge"
	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/usage"
	"selvedge/runs"
)

// A Run is a line of a list.
type Run struct {
	AgentID   string             `json:"agent_id"`   // under which calls find the run
	RunID     string             `json:"run_id"`     // under which calls find the run
	ShortID   string             `json:"short_id"`   // its beginning that no other run of the scope has
	Intent    string             `json:"intent"`     // what it is meant to achieve
	Status    runs.RunStatus     `json:"status"`     // as in runs list
	Outcome   runs.OutcomeStatus `json:"outcome"`    // of a completed run; empty for every other
	Why       string             `json:"why"`        // in the words of its end; empty: it says nothing
	StartedAt time.Time          `json:"started_at"` // RFC 3339
	EndedAt   *time.Time         `json:"ended_at"`   // null while the run is open
	LastAt    time.Time          `json:"last_at"`    // of its last record; imported: its start or end
	Turns     int                `json:"turns"`      // in the trace
	// open, waits for nobody, and nothing was written for 15 minutes
	Stalled bool `json:"stalled"`
	// Usage is what the run used without the runs below it.
	Usage db.Usage `json:"-"`
}

// Ref names the run in calls.
func (r *Run) Ref() runs.RunRef { return runs.RunRef{AgentID: r.AgentID, RunID: r.RunID} }

// StalledAfter is how long an open run may write nothing before it is Stalled.
const StalledAfter = 15 * time.Minute

// A Filter selects the runs of a list. The zero value selects all that have a started record. The set
// fields must all match.
type Filter struct {
	Agent    *string              // nil: any
	Statuses []runs.RunStatus     // none: any
	Outcomes []runs.OutcomeStatus // none: any
	Open     bool                 // runs in progress, and those that wait
	// Failed selects what selvedge.Store.Failed lists. Its order is that of the ends, and Since bounds
	// the end.
	Failed       bool
	Since, Until time.Time // bound the start: at or after Since, before Until. Zero: no bound
	Words        string    // that the id, the intent or the end contains, in any case; "": any
	Stalled      bool
	CostUSD      float64 // at least so many dollars; 0: any
}

// examined is how many runs a page looks at, at most, for those that pass its filter.
const examined = 500

// Runs returns a page of the runs that pass the filter, newest first. Indexes serve Agent, Open,
// Failed and the times. The other fields are checked run by run, of 500 runs at most: a page may
// have fewer items than its limit, or none, and yet a Next.
func (s *Store) Runs(ctx context.Context, f Filter, at db.At) (page db.Page[Run], err error) {
	if f.Failed && (f.Open || len(f.Statuses)+len(f.Outcomes) > 0) {
		return page, invalid("leave the others out", "a list of failed runs goes with no status and no outcome")
	}
	if f.Open {
		f.Statuses = append(slices.Clone(f.Statuses), runs.StatusInProgress, runs.StatusWaiting)
	}
	at.Limit = cmp.Or(at.Limit, paging.DefaultLimit)
	room := at
	for seen := 0; ; {
		part, err := s.source(ctx, f, room)
		if err != nil {
			return page, err
		}
		var found []Run
		err = s.db.Read(ctx, "describe runs", func(rx *db.Rx) (err error) {
			found, err = s.described(rx, f, part.Items)
			return err
		})
		if err != nil {
			return page, err
		}
		page.Items, page.Next = append(page.Items, found...), part.Next
		seen += len(part.Items)
		room.After, room.Limit = part.Next, at.Limit-len(page.Items)
		if part.Next == "" || room.Limit <= at.Limit/4 || seen >= examined {
			return page, nil
		}
	}
}

// source returns a page of what the indexes select.
func (s *Store) source(ctx context.Context, f Filter, at db.At) (db.Page[runs.RunSummary], error) {
	if f.Failed {
		return s.front.Failed(ctx, f.Since, at)
	}
	return s.runs.Page(ctx, runs.Filter{
		Agent: f.Agent, Statuses: f.Statuses, Outcomes: f.Outcomes, Since: f.Since, Until: f.Until,
	}, at)
}

// described returns the runs that pass the filter, with what a list shows of them.
func (s *Store) described(rx *db.Rx, f Filter, list []runs.RunSummary) (found []Run, err error) {
	scope, _, err := s.scopeIn(rx)
	if err != nil {
		return nil, err
	}
	words := strings.ToLower(f.Words)
	for _, r := range list {
		if f.Agent != nil && r.Ref.AgentID != *f.Agent || f.Failed && !f.Until.IsZero() &&
			!r.EndedAt.Before(f.Until) {
			continue
		}
		if words != "" && !strings.Contains(strings.ToLower(r.Ref.RunID+"\n"+r.Intent+"\n"+r.Summary), words) {
			continue
		}
		run, err := describe(rx, scope, r)
		if err != nil {
			return nil, err
		}
		if f.Stalled && !run.Stalled ||
			f.CostUSD > 0 && (run.Usage.CostUSD == nil || *run.Usage.CostUSD < f.CostUSD) {
			continue
		}
		found = append(found, run)
	}
	return found, nil
}

const (
	sqlRunKey    = `SELECT key FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`
	sqlLastWrite = `SELECT recorded_at FROM run_records WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
	sqlLiveWrite = `SELECT updated_at FROM live_runs WHERE scope = ? AND run_id = ?`
	sqlIDBefore  = `SELECT run_id FROM runs WHERE scope = ? AND run_id < ? ORDER BY run_id DESC LIMIT 1`
	sqlIDBehind  = `SELECT run_id FROM runs WHERE scope = ? AND run_id > ? ORDER BY run_id LIMIT 1`
)

func describe(rx *db.Rx, scope int64, r runs.RunSummary) (run Run, err error) {
	run = Run{
		AgentID: r.Ref.AgentID, RunID: r.Ref.RunID, Intent: r.Intent, Status: r.Status, Outcome: r.Outcome,
		Why: r.Summary, StartedAt: r.StartedAt, EndedAt: r.EndedAt, LastAt: r.StartedAt, Turns: r.TurnCount,
	}
	if run.ShortID, err = shortID(rx, scope, run.RunID); err != nil {
		return run, err
	}
	used, err := usage.OfRun(rx, scope, run.RunID)
	if err != nil {
		return run, err
	}
	var sum usage.Counts
	for _, u := range used {
		sum.Add(u.Numbers)
	}
	run.Usage = sum.Usage()
	if r.EndedAt != nil {
		run.LastAt = *r.EndedAt
		return run, nil
	}
	var key int64
	if found, err := rx.Find(&key, sqlRunKey, scope, run.RunID, run.AgentID); err != nil || !found {
		return run, err
	}
	for _, last := range []struct {
		query string
		args  []any
	}{{sqlLastWrite, []any{key << 24, (key + 1) << 24}}, {sqlLiveWrite, []any{scope, run.RunID}}} {
		var nanos *int64
		if _, err := rx.Find(&nanos, last.query, last.args...); err != nil {
			return run, err
		}
		if nanos != nil && time.Unix(0, *nanos).After(run.LastAt) {
			run.LastAt = time.Unix(0, *nanos).UTC()
		}
	}
	run.Stalled = run.Status == runs.StatusInProgress && time.Since(run.LastAt) > StalledAfter
	return run, nil
}

// shortest is how long a short id is at least, in characters.
const shortest = 8

// shortID returns the beginning of an id that no other run of the scope has, or the id where another
// one begins with it.
func shortID(rx *db.Rx, scope int64, id string) (string, error) {
	length := 0 // bytes that another id has too
	for _, query := range []string{sqlIDBefore, sqlIDBehind} {
		var other string
		found, err := rx.Find(&other, query, scope, id)
		if err != nil {
			return "", err
		}
		same := 0
		for found && same < min(len(id), len(other)) && id[same] == other[same] {
			same++
		}
		length = max(length, same)
	}
	for at := range id {
		if at > length && utf8.RuneCountInString(id[:at]) >= shortest {
			return id[:at], nil
		}
	}
	return id, nil
}

// A Detail is a run with what surrounds it.
type Detail struct {
	Run
	Parent   *runs.RunRef // nil: none, or it was removed
	Children []Run        // that it started, oldest first, at most 100
	Cost     selvedge.Cost
	Live     bool // there is a live run of its id
}

const (
	sqlParent = `SELECT p.agent_id, p.run_id FROM runs AS r JOIN runs AS p ON p.key = r.parent
	WHERE r.scope = ? AND r.run_id = ? AND r.agent_id = ?`
	sqlChildren = `SELECT c.agent_id, c.run_id FROM runs AS r JOIN runs AS c ON c.parent = r.key
	WHERE r.scope = ? AND r.run_id = ? AND r.agent_id = ? ORDER BY c.key LIMIT 100`
	sqlHasLive = `SELECT 1 FROM live_runs WHERE scope = ? AND run_id = ?`
)

// Run describes one run. db.ErrNotFound: there is no such run.
func (s *Store) Run(ctx context.Context, ref runs.RunRef) (d Detail, err error) {
	err = s.db.Read(ctx, "describe run", func(rx *db.Rx) error {
		d = Detail{}
		summary, err := s.runs.GetTx(rx, ref)
		if err != nil {
			return err
		}
		scope, _, err := s.scopeIn(rx)
		if err != nil {
			return err
		}
		if d.Run, err = describe(rx, scope, summary); err != nil {
			return err
		}
		if d.Cost, err = s.front.CostTx(rx, ref); err != nil {
			return err
		}
		var parents, children []runs.RunRef
		if err := rx.Select(&parents, sqlParent, scope, ref.RunID, ref.AgentID); err != nil {
			return err
		}
		if len(parents) > 0 {
			d.Parent = &parents[0]
		}
		if err := rx.Select(&children, sqlChildren, scope, ref.RunID, ref.AgentID); err != nil {
			return err
		}
		for _, child := range children {
			summary, err := s.runs.GetTx(rx, child)
			if err != nil {
				return err
			}
			run, err := describe(rx, scope, summary)
			if err != nil {
				return err
			}
			d.Children = append(d.Children, run)
		}
		d.Live, err = rx.Find(new(int64), sqlHasLive, scope, ref.RunID)
		return err
	})
	return d, err
}

// Find returns the runs whose id begins with prefix, at most limit, as runs.Store.Find does.
func (s *Store) Find(ctx context.Context, prefix string, limit int) ([]runs.RunRef, error) {
	return s.runs.Find(ctx, prefix, limit)
}
