package maintenance

import (
	"context"
	"errors"
	"slices"
	"time"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/runs"
)

// An Origin is the origin of the limits of a store.
type Origin string

// The origins.
const (
	// no limits were set: runs are kept as in the old program, and the other stores keep everything
	ByDefault Origin = "default"
	Imported  Origin = "imported" // from the config.toml of a tree
	Set       Origin = "set"      // a person or program has set them
)

// A StoreRetention is the retention of a store of a scope, for items that have ended.
type StoreRetention struct {
	Store  string
	Policy db.Policy // its limits
	Origin Origin
	SetAt  time.Time // zero by default
}

// The names of the stores that have retention.
const (
	StoreRuns        = txn.StoreRuns
	StoreLive        = txn.StoreLive
	StoreAgents      = txn.StoreAgents
	StoreCheckpoints = txn.StoreCheckpoints
	StoreWorkers     = txn.StoreWorkers
	StoreState       = txn.StoreState
)

// Stores returns the names of the stores that have retention, in the order of the docs.
func Stores() []string { return slices.Clone(txn.Stores) }

// Limited reports whether there is a limit. Without one the store keeps everything.
func (r StoreRetention) Limited() bool {
	return r.Policy.Age != 0 || r.Policy.Count != 0 || r.Policy.Bytes != 0
}

// Retention returns the retention in force for the stores of a scope, in the order of Stores.
func Retention(ctx context.Context, d *db.DB, scope string) (list []StoreRetention, err error) {
	for _, store := range Stores() {
		one := StoreRetention{Store: store, Origin: ByDefault}
		set, ok, err := stores.RetentionOf(ctx, d, scope, store)
		switch {
		case err != nil:
			return nil, err
		case ok:
			one.Policy, one.SetAt, one.Origin = set.Policy, set.SetAt, Set
			if set.Imported {
				one.Origin = Imported
			}
		case store == StoreRuns:
			one.Policy = db.Policy{Age: runs.DefaultMaxAgeDays * 24 * time.Hour, Count: runs.DefaultMaxRunsPerAgent}
		}
		list = append(list, one)
	}
	return list, nil
}

// SetRetention replaces the limits for a store of a scope; a policy without limits keeps
// everything. Other fields of the policy are not stored.
func SetRetention(ctx context.Context, d *db.DB, scope, store string, p db.Policy) error {
	if err := stores.CheckPolicy(p); err != nil {
		return err
	}
	return d.Reclaim(ctx, "set retention", func(tx *db.Tx) error {
		return tx.Store().SetRetention(scope, store, txn.Limits{Age: p.Age, Count: p.Count, Bytes: p.Bytes}, nil)
	})
}

// ResetRetention removes the limits for a store of a scope. Runs are then kept for 30 days,
// at most 50 per agent; other stores keep everything.
func ResetRetention(ctx context.Context, d *db.DB, scope, store string) error {
	return d.Reclaim(ctx, "reset retention", func(tx *db.Tx) error {
		return tx.Store().ResetRetention(scope, store)
	})
}

// PruneOptions are the choices of Prune. The zero value applies the retention of the default scope.
type PruneOptions struct {
	Scope string
	// which stores are pruned; none means all, with a Policy all but state, whose values don't end
	Stores []string
	// the limits for each of them; nil: those in force. Other fields of the policy are ignored
	Policy *db.Policy
	DryRun bool // counts and removes nothing
	// Each, if not nil, is called for each item that was removed, or would be.
	Each func(store string, gone db.Gone)
}

// A StorePruned is the result of Prune for one store.
type StorePruned struct {
	StoreRetention
	db.Pruned
}

// Prune removes the items of a scope that their store's retention does not keep: ended runs and
// live runs, ended workers, agents that have left the registry, claims that are over, values by
// their last write. Items that wait, live, are held or are pinned stay. Prune skips a store without
// limits. It works in short transactions. What it removed before an error stays removed; another
// call continues. An error in one store does not stop the others.
func Prune(ctx context.Context, d *db.DB, o PruneOptions) (done []StorePruned, err error) {
	defer func() { err = db.Heard(ctx, err) }()
	inForce, err := Retention(ctx, d, o.Scope)
	if err != nil {
		return nil, err
	}
	var removed *far
	// For a listener, count first what will be removed; that takes a small part of the time.
	if engine.Telling(ctx) != nil && !o.DryRun {
		removed = plan(ctx, d, o)
	}
	for _, r := range inForce {
		named := slices.Contains(o.Stores, r.Store)
		if len(o.Stores) > 0 && !named || o.Policy != nil && r.Store == StoreState && !named {
			continue
		}
		if o.Policy != nil {
			r.Policy = db.Policy{Age: o.Policy.Age, Count: o.Policy.Count, Bytes: o.Policy.Bytes}
		}
		one := StorePruned{StoreRetention: r}
		if r.Limited() {
			policy := r.Policy
			policy.DryRun = o.DryRun
			if o.Each != nil || removed != nil {
				policy.Each = func(gone db.Gone) {
					removed.more(gone.Bytes)
					if o.Each != nil {
						o.Each(r.Store, gone)
					}
				}
			}
			var failed error
			at := slices.IndexFunc(all, func(s store) bool { return s.name == r.Store })
			one.Pruned, failed = all[at].open(d, o.Scope).(pruner).Prune(ctx, policy)
			err = errors.Join(err, failed)
		}
		done = append(done, one)
		if ctx.Err() != nil {
			break
		}
	}
	return done, err
}

// plan begins the progress of a Prune. The total is what a dry run would remove now; errors are
// left to the actual run.
func plan(ctx context.Context, d *db.DB, o PruneOptions) *far {
	o.DryRun, o.Each = true, nil
	would, _ := Prune(ctx, d, o)
	f := &far{engine.Telling(ctx), engine.Progress{Step: "remove"}}
	for _, one := range would {
		f.at.Total += one.Bytes
	}
	f.more(0)
	return f
}
