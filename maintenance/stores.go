package maintenance

import (
	"context"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// A store is what goes over all stores asks of one.
type store struct {
	name   string   // see db.Stores
	tables []string // how the names of its tables begin
	prune  func(ctx context.Context, d *db.DB, scope string, policy db.Policy) (db.Pruned, error)
	// recover gives back what only the dead held, and recovered is where it is counted; nil: nothing
	// there dies with a process.
	recover   func(ctx context.Context, d *db.DB, scope string) (int, error)
	recovered func(*Recovery) *int
	// read reads all that it keeps.
	read func(c *deep, scope string)
}

// stores are all that there are, in the order in which they are recovered.
var stores = []store{
	{
		name: db.StoreCheckpoints, tables: []string{"checkpoint"}, read: (*deep).checkpoints,
		prune: func(ctx context.Context, d *db.DB, scope string, policy db.Policy) (db.Pruned, error) {
			return checkpoints.NewStore(d, checkpoints.Options{Scope: scope}).Prune(ctx, policy)
		},
		recover: func(ctx context.Context, d *db.DB, scope string) (int, error) {
			return checkpoints.NewStore(d, checkpoints.Options{Scope: scope}).Recover(ctx)
		},
		recovered: func(r *Recovery) *int { return &r.Checkpoints },
	},
	{
		name: db.StoreRuns, tables: []string{"run_", "runs"}, read: (*deep).runs,
		prune: func(ctx context.Context, d *db.DB, scope string, policy db.Policy) (db.Pruned, error) {
			return runs.NewStore(d, runs.Options{Scope: scope}).Prune(ctx, policy)
		},
		recover: func(ctx context.Context, d *db.DB, scope string) (int, error) {
			return runs.NewStore(d, runs.Options{Scope: scope}).Recover(ctx)
		},
		recovered: func(r *Recovery) *int { return &r.Runs },
	},
	{
		name: db.StoreLive, tables: []string{"live_"}, read: (*deep).live,
		prune: func(ctx context.Context, d *db.DB, scope string, policy db.Policy) (db.Pruned, error) {
			return live.NewStore(d, live.Options{Scope: scope}).Prune(ctx, policy)
		},
		recover: func(ctx context.Context, d *db.DB, scope string) (int, error) {
			return live.NewStore(d, live.Options{Scope: scope}).Recover(ctx)
		},
		recovered: func(r *Recovery) *int { return &r.Live },
	},
	{
		name: db.StoreAgents, tables: []string{"agent"}, read: (*deep).agents,
		prune: func(ctx context.Context, d *db.DB, scope string, policy db.Policy) (db.Pruned, error) {
			return agents.NewRegistry(d, agents.Options{Scope: scope}).Prune(ctx, policy)
		},
		recover: func(ctx context.Context, d *db.DB, scope string) (int, error) {
			return agents.NewRegistry(d, agents.Options{Scope: scope}).Recover(ctx)
		},
		recovered: func(r *Recovery) *int { return &r.Agents },
	},
	{
		name: db.StoreWorkers, tables: []string{"worker"}, read: (*deep).workers,
		prune: func(ctx context.Context, d *db.DB, scope string, policy db.Policy) (db.Pruned, error) {
			return workers.NewRuntimes(d, scope).Prune(ctx, policy)
		},
	},
}

// others are the tables that are no store's.
var others = []store{
	{name: "imports", tables: []string{"import", "quarantine"}},
	{
		name: "reservations", tables: []string{"leases"},
		recovered: func(r *Recovery) *int { return &r.Reservations },
		recover: func(ctx context.Context, d *db.DB, scope string) (int, error) {
			return d.RecoverReservations(ctx, db.ReservationFilter{Scope: scope})
		},
	},
	{name: "file", tables: []string{"retention", "scopes", "owners", "moves"}},
}
