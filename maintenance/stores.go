package maintenance

import (
	"context"
	"maps"
	"slices"
	"strings"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/workers"
)

// A store is one store, as the work across all stores needs it.
type store struct {
	name   string   // see Stores
	tables []string // how the names of its tables begin
	open   func(d *db.DB, scope string) any
	// recovered returns the counter for what Recover freed; nil: nothing in the store dies with a
	// process.
	recovered func(*Recovery) *int
	// read reads all data of a scope.
	read func(c *deep, scope string)
}

// A pruner is the value that open returns for a store. Stores with recovered also have Recover.
type pruner interface {
	Prune(context.Context, db.Policy) (db.Pruned, error)
}

// all are the stores, in the order in which they are recovered.
var all = []store{
	{
		name: StoreCheckpoints, tables: []string{"checkpoint"}, read: (*deep).checkpoints,
		open:      func(d *db.DB, s string) any { return checkpoints.NewStore(d, checkpoints.Options{Scope: s}) },
		recovered: func(r *Recovery) *int { return &r.Checkpoints },
	},
	{
		name: StoreRuns, tables: []string{"run_", "runs"}, read: (*deep).runs,
		open:      func(d *db.DB, scope string) any { return runs.NewStore(d, runs.Options{Scope: scope}) },
		recovered: func(r *Recovery) *int { return &r.Runs },
	},
	{
		name: StoreLive, tables: []string{"live_"}, read: (*deep).live,
		open:      func(d *db.DB, scope string) any { return live.NewStore(d, live.Options{Scope: scope}) },
		recovered: func(r *Recovery) *int { return &r.Live },
	},
	{
		name: StoreAgents, tables: []string{"agent"}, read: (*deep).agents,
		open:      func(d *db.DB, scope string) any { return agents.NewRegistry(d, agents.Options{Scope: scope}) },
		recovered: func(r *Recovery) *int { return &r.Agents },
	},
	{
		name: StoreWorkers, tables: []string{"worker"}, read: (*deep).workers,
		open: func(d *db.DB, scope string) any { return workers.NewRuntimes(d, scope) },
	},
	{
		name: StoreState, tables: []string{"state_"}, read: (*deep).state,
		open: func(d *db.DB, scope string) any { return state.NewStore(d, state.Options{Scope: scope}) },
	},
}

// others are the tables that belong to no store.
var others = []store{
	{name: "imports", tables: []string{"import", "quarantine"}},
	{name: "usage", tables: []string{"usage_"}},
	{
		name: "reservations", tables: []string{"leases"},
		open:      func(d *db.DB, scope string) any { return reservations{d, scope} },
		recovered: func(r *Recovery) *int { return &r.Reservations },
	},
	{name: "file", tables: []string{"retention", "scopes", "owners", "moves"}},
}

// reservations are the reservations of a scope.
type reservations struct {
	d     *db.DB
	scope string
}

func (r reservations) Recover(ctx context.Context) (int, error) {
	return r.d.RecoverReservations(ctx, db.ReservationFilter{Scope: r.scope})
}

// storeOf returns the store that a table belongs to, or user for a user's own table.
func storeOf(table string) string {
	name := "user"
	for _, s := range slices.Concat(all, others) {
		if slices.ContainsFunc(s.tables, func(begin string) bool { return strings.HasPrefix(table, begin) }) {
			name = s.name
		}
	}
	return name
}

// byStore sums tables up store by store, by name.
func byStore[T, S any](tables []T, table func(T) string, add func(*S, string, T)) []S {
	sums := map[string]*S{}
	for _, t := range tables {
		name := storeOf(table(t))
		if sums[name] == nil {
			sums[name] = new(S)
		}
		add(sums[name], name, t)
	}
	var list []S
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		list = append(list, *sums[name])
	}
	return list
}
