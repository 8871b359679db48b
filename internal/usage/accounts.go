package usage

import (
	"cmp"
	"slices"

	"selvedge/db"
)

// A Row is one of the rows of v_usage for a run: a record of its finest account, or of the kind
// [Rest], what the largest account counts beyond these, field by field.
type Row struct {
	ID         int64   `db:"id"` // of usage_records; 0: none
	Kind       string  `db:"account"`
	AgentID    *string `db:"agent_id"`
	SessionID  *string `db:"session_id"`
	RecordedAt *int64  `db:"recorded_at"` // Unix nanoseconds; nil: unknown
	Counts
}

// Rest is the kind of a row with what no record of the finest account counts.
const Rest = "run"

const (
	sqlRows = `SELECT u.id, u.account, coalesce(u.agent_id, w.agent_id) AS agent_id, w.session_id, u.recorded_at,
	u.provider, u.request_model, u.response_model, u.input_tokens, u.cache_read_input_tokens,
	u.cache_write_input_tokens, u.output_tokens, u.reasoning_output_tokens, u.cost_nanos
FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.id = ?`
	sqlRun = `SELECT id, scope, run_id, agent_id, session_id, recorded_at FROM usage_runs WHERE `
)

type usageRun struct {
	ID         int64   `db:"id"`
	Scope      int64   `db:"scope"`
	RunID      string  `db:"run_id"`
	AgentID    *string `db:"agent_id"`
	SessionID  *string `db:"session_id"`
	RecordedAt *int64  `db:"recorded_at"`
}

// OfRun returns the rows of a run, as v_usage has them. They add up: no use is counted twice.
func OfRun(rx *db.Rx, scope int64, runID string) ([]Row, error) {
	var run usageRun
	found, err := rx.Find(&run, sqlRun+`run_id = ? AND scope = ?`, runID, scope)
	if err != nil || !found {
		return nil, err
	}
	return run.rows(rx)
}

func (w *usageRun) rows(rx *db.Rx) (list []Row, err error) {
	var all []Row
	if err := rx.Select(&all, sqlRows, w.ID); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Row) int { return cmp.Compare(a.ID, b.ID) })
	finest := ""
	for _, account := range []string{Reply, ModelTurn, Turn, TurnEnd} {
		if slices.ContainsFunc(all, func(r Row) bool { return r.Kind == account }) {
			finest = account
			break
		}
	}
	totals := map[string]*Numbers{}
	var end Counts // the models of the agent_ends
	for i := range all {
		r := &all[i]
		total := totals[r.Kind]
		if total == nil {
			total = &Numbers{}
			totals[r.Kind] = total
		}
		if r.Kind == AgentEnd {
			total.atLeast(r.Numbers)
			larger(&end.Provider, r.Provider)
			larger(&end.RequestModel, r.RequestModel)
			larger(&end.ResponseModel, r.ResponseModel)
		} else {
			total.Add(r.Numbers)
		}
	}
	rest := Row{Kind: Rest, AgentID: w.AgentID, SessionID: w.SessionID, RecordedAt: w.RecordedAt}
	rest.Counts = end
	one := oneModel(all)
	for _, name := range []struct{ to, other **string }{
		{&rest.Provider, &one.Provider},
		{&rest.RequestModel, &one.RequestModel},
		{&rest.ResponseModel, &one.ResponseModel},
	} {
		if *name.to == nil {
			*name.to = *name.other
		}
	}
	for i := range all {
		if r := all[i]; r.Kind == finest {
			if finest == TurnEnd {
				r.nameAs(end)
			}
			list = append(list, r)
		}
	}
	for _, total := range totals {
		rest.atLeast(*total)
	}
	if counted := totals[finest]; counted != nil {
		rest.beyond(*counted)
	}
	if rest.Numbers != (Numbers{}) {
		list = append(list, rest)
	}
	return list, nil
}

// oneModel returns the names that all rows with a name have.
func oneModel(rows []Row) (one Counts) {
	for _, field := range []func(c *Counts) **string{
		func(c *Counts) **string { return &c.Provider },
		func(c *Counts) **string { return &c.RequestModel },
		func(c *Counts) **string { return &c.ResponseModel },
	} {
		var name *string
		same := true
		for i := range rows {
			if said := *field(&rows[i].Counts); said != nil {
				same = same && (name == nil || *name == *said)
				name = said
			}
		}
		if same {
			*field(&one) = name
		}
	}
	return one
}

// nameAs adds the names that the record leaves out.
func (c *Counts) nameAs(end Counts) {
	if c.Provider == nil {
		c.Provider = end.Provider
	}
	if c.RequestModel == nil {
		c.RequestModel = end.RequestModel
	}
	if c.ResponseModel == nil {
		c.ResponseModel = end.ResponseModel
	}
}

func larger(to **string, name *string) {
	if *to == nil || name != nil && *name > **to {
		*to = name
	}
}

func (n *Numbers) each(other Numbers, change func(n **int64, other *int64)) {
	change(&n.Input, other.Input)
	change(&n.CacheRead, other.CacheRead)
	change(&n.CacheWrite, other.CacheWrite)
	change(&n.Output, other.Output)
	change(&n.Reasoning, other.Reasoning)
	change(&n.CostNanos, other.CostNanos)
}

// Add adds numbers. Unknown and a number are the number.
func (n *Numbers) Add(other Numbers) {
	n.each(other, func(n **int64, other *int64) {
		switch {
		case other == nil:
		case *n == nil:
			*n = new(*other)
		default:
			*n = new(**n + *other)
		}
	})
}

// atLeast makes each number at least the other one.
func (n *Numbers) atLeast(other Numbers) {
	n.each(other, func(n **int64, other *int64) {
		if other != nil && (*n == nil || **n < *other) {
			*n = other
		}
	})
}

// beyond makes each number what it is more than the other one.
func (n *Numbers) beyond(other Numbers) {
	n.each(other, func(n **int64, other *int64) {
		switch {
		case *n == nil || other == nil:
		case **n > *other:
			*n = new(**n - *other)
		default:
			*n = nil
		}
	})
}
