package usage

import (
	"cmp"
	"math"
	"slices"

	"selvedge/db"
)

// A Row is one of the rows of v_usage for a run: a record of the finest account of a trace or of a live
// run, or of the kind [Rest], what the largest account counts beyond these, field by field.
type Row struct {
	ID         int64   `db:"id"` // of usage_records; 0: none
	UsageRun   int64   `db:"usage_run"`
	Kind       string  `db:"account"`
	AgentID    *string `db:"agent_id"`
	RecordedAt *int64  `db:"recorded_at"` // Unix nanoseconds; nil: unknown
	Counts
}

// Rest is the kind of a row with what no record of the finest account counts.
const Rest = "run"

const (
	sqlSources = `SELECT id, agent_id, session_id, recorded_at FROM usage_runs WHERE run_id = ? AND scope = ?`
	sqlRows    = `SELECT u.id, u.usage_run, u.account, w.agent_id, u.recorded_at, ` + countColumns + `
FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id WHERE w.run_id = ? AND w.scope = ?`
)

// A source is a trace or a live run whose records count.
type source struct {
	ID         int64   `db:"id"`
	AgentID    *string `db:"agent_id"`   // nil: a live run
	SessionID  *string `db:"session_id"` // nil: a trace
	RecordedAt *int64  `db:"recorded_at"`
}

// sourcesOf returns traces before live runs, as the views take the agent of the first trace.
func sourcesOf(rx *db.Rx, n Name) (list []source, err error) {
	err = rx.Select(&list, sqlSources, n.RunID, n.Scope)
	slices.SortFunc(list, func(a, b source) int {
		return cmp.Or(cmp.Compare(a.ID%2, b.ID%2), cmp.Compare(a.ID, b.ID))
	})
	return list, err
}

// OfRun returns the rows of a run, as v_usage has them. They add up: no use is counted twice.
func OfRun(rx *db.Rx, scope int64, runID string) ([]Row, error) {
	n := Name{scope, runID}
	sources, err := sourcesOf(rx, n)
	if err != nil || len(sources) == 0 {
		return nil, err
	}
	return rowsOf(rx, n, sources)
}

func rowsOf(rx *db.Rx, n Name, sources []source) (list []Row, err error) {
	var all []Row
	if err := rx.Select(&all, sqlRows, n.RunID, n.Scope); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Row) int { return cmp.Compare(a.ID, b.ID) })
	of := map[int64][]Row{}
	for _, r := range all {
		of[r.UsageRun] = append(of[r.UsageRun], r)
	}
	var traces Numbers // what these count
	agent, one := sources[0].AgentID, modelOf(all)
	for _, s := range sources {
		shown, finest, most, end := s.account(of[s.ID])
		if s.AgentID != nil {
			traces.Add(most)
		} else if agent != nil { // the traces count finer
			shown, finest = nil, traces
		}
		for _, r := range shown {
			if s.AgentID == nil {
				r.nameAs(end)
			}
			list = append(list, r)
		}
		if most.beyond(finest); most != (Numbers{}) {
			rest := Row{UsageRun: s.ID, Kind: Rest, AgentID: s.AgentID, RecordedAt: s.RecordedAt, Counts: one}
			if s.AgentID == nil {
				rest.AgentID = agent
			}
			rest.Numbers = most
			list = append(list, rest)
		}
	}
	return list, nil
}

// account returns the rows of the finest account of a trace or a live run, what they count, what the
// largest account counts, and the models of the agent_ends.
func (s *source) account(rows []Row) (shown []Row, finest, most Numbers, end Counts) {
	account := TurnEnd
	if s.AgentID != nil {
		account = Turn
		for _, finer := range []string{ModelTurn, Reply} {
			if slices.ContainsFunc(rows, func(r Row) bool { return r.Kind == finer }) {
				account = finer
			}
		}
	}
	totals := map[string]*Numbers{account: &finest}
	for _, r := range rows {
		total := totals[r.Kind]
		if total == nil {
			total = &Numbers{}
			totals[r.Kind] = total
		}
		if r.Kind == AgentEnd {
			total.atLeast(r.Numbers)
			end.nameAtLeast(r.Counts)
			continue
		}
		total.Add(r.Numbers)
		if r.Kind == account {
			shown = append(shown, r)
		}
	}
	for _, total := range totals {
		most.atLeast(*total)
	}
	return shown, finest, most, end
}

func (c *Counts) nameAtLeast(other Counts) {
	larger(&c.Provider, other.Provider)
	larger(&c.RequestModel, other.RequestModel)
	larger(&c.ResponseModel, other.ResponseModel)
}

// modelOf returns the names of the agent_ends, and else those that all rows with a name have.
func modelOf(rows []Row) (end Counts) {
	for _, r := range rows {
		if r.Kind == AgentEnd {
			end.nameAtLeast(r.Counts)
		}
	}
	end.nameAs(oneModel(rows))
	return end
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
	c.Provider = cmp.Or(c.Provider, end.Provider)
	c.RequestModel = cmp.Or(c.RequestModel, end.RequestModel)
	c.ResponseModel = cmp.Or(c.ResponseModel, end.ResponseModel)
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

// Add adds numbers, up to the most that a column holds. Unknown and a number are the number.
func (n *Numbers) Add(other Numbers) {
	n.each(other, func(n **int64, other *int64) {
		switch {
		case other == nil:
		case *n == nil:
			*n = new(*other)
		case **n > math.MaxInt64-*other:
			*n = new(int64(math.MaxInt64))
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
