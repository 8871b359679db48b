package selvedge

import (
	"cmp"
	"context"
	"slices"

	"selvedge/db"
	"selvedge/internal/usage"
)

// A Cost is what a run used. No use is counted twice: where several accounts of the same work were
// recorded, such as the trace and the live run, the largest counts, field by field. Money is summed
// in billionths of a dollar. Nil is unknown.
type Cost struct {
	Own  Usage // of the run
	Tree Usage // of the run and all runs below it that are here
	Runs int   // runs in the tree, itself included
	// ByModel is Tree by provider and model, the most expensive first. A run that does not say which
	// model it used is in a usage without names.
	ByModel []Usage
	// OwnByModel is Own in the same way.
	OwnByModel []Usage
}

const sqlTreeOf = `WITH RECURSIVE below (key) AS (SELECT key FROM runs WHERE key = ?
	UNION SELECT r.key FROM below AS b JOIN runs AS r ON r.parent = b.key)
SELECT r.scope, r.run_id FROM below AS b JOIN runs AS r ON r.key = b.key`

// Cost returns what a run and the runs below it used. It reads these runs only. db.ErrNotFound:
// there is no such run. The usage of runs that were removed since is in the view v_usage, by day.
func (s *Store) Cost(ctx context.Context, ref Ref) (cost Cost, err error) {
	err = s.db.Read(ctx, opCost, func(rx *db.Rx) (err error) {
		cost, err = s.CostTx(rx, ref)
		return err
	})
	return cost, err
}

const opCost = "read cost"

// CostTx is Cost inside a transaction.
func (s *Store) CostTx(rx *db.Rx, ref Ref) (cost Cost, err error) {
	ref = s.ref(ref)
	row, err := s.get(rx, ref)
	if err == nil {
		cost, err = costOf(rx, row, ref.RunID)
	}
	return cost, named(opCost, ref, err)
}

func costOf(rx *db.Rx, row runRow, runID string) (cost Cost, err error) {
	type name struct {
		Scope int64  `db:"scope"`
		RunID string `db:"run_id"`
	}
	var names []name
	if err := rx.Select(&names, sqlTreeOf, row.Key); err != nil {
		return cost, err
	}
	var own, tree usage.Counts
	all, mine := models{}, models{}
	seen := map[name]bool{} // traces of several agents may have one name
	for _, n := range names {
		cost.Runs++
		if seen[n] {
			continue
		}
		seen[n] = true
		rows, err := usage.OfRun(rx, n.Scope, n.RunID)
		if err != nil {
			return cost, err
		}
		for _, r := range rows {
			tree.Add(r.Numbers)
			all.add(r.Counts)
			if n == (name{row.Scope, runID}) {
				own.Add(r.Numbers)
				mine.add(r.Counts)
			}
		}
	}
	cost.Own, cost.Tree = own.Usage(), tree.Usage()
	cost.ByModel, cost.OwnByModel = all.list(), mine.list()
	return cost, nil
}

// models are counts by provider and model.
type models map[[3]string]*usage.Counts

func (m models) add(c usage.Counts) {
	key := [3]string{or(c.Provider), or(c.RequestModel), or(c.ResponseModel)}
	if m[key] == nil {
		m[key] = &usage.Counts{Provider: c.Provider, RequestModel: c.RequestModel, ResponseModel: c.ResponseModel}
	}
	m[key].Add(c.Numbers)
}

func (m models) list() (list []Usage) {
	for _, c := range m {
		list = append(list, c.Usage())
	}
	slices.SortFunc(list, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(dollars(b), dollars(a)), cmp.Compare(or(a.Provider), or(b.Provider)),
			cmp.Compare(or(a.RequestModel), or(b.RequestModel)),
			cmp.Compare(or(a.ResponseModel), or(b.ResponseModel)))
	})
	return list
}

// dollars is the cost for sorting: unknown comes last.
func dollars(u Usage) float64 {
	if u.CostUSD == nil {
		return -1
	}
	return *u.CostUSD
}
