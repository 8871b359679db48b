package query

import (
	"context"
	"time"

	"selvedge"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/runs"
	"selvedge/runs/live"
)

// A Store answers questions about the runs of one scope. Its methods are safe for concurrent use.
type Store struct {
	db          *db.DB
	scope       string
	front       *selvedge.Store
	runs        *runs.Store
	live        *live.Store
	checkpoints *checkpoints.Store
}

// On returns the Store of a scope over an open database, which may be read-only. "" is the default
// scope.
func On(d *db.DB, scope string) *Store {
	return &Store{
		db: d, scope: scope,
		front: selvedge.On(d, selvedge.Options{Scope: scope}), runs: runs.NewStore(d, runs.Options{Scope: scope}),
		live:        live.NewStore(d, live.Options{Scope: scope}),
		checkpoints: checkpoints.NewStore(d, checkpoints.Options{Scope: scope}),
	}
}

// An Overview is what a person looks at first. Each list is the first page: its Next is not empty if
// there is more.
type Overview struct {
	Needs   db.Page[selvedge.Step]       // what waits for a person, newest first
	Paused  db.Page[checkpoints.Summary] // paused workflows, which wait for a person as well
	Running db.Page[Run]                 // open runs, newest first; some are Stalled
	Failed  db.Page[Run]                 // that ended since the time of the call, the last first
}

const overviewItems = 50

// Overview returns what waits, what runs, and what failed since a time.
func (s *Store) Overview(ctx context.Context, since time.Time) (o Overview, err error) {
	at := db.At{Limit: overviewItems}
	if o.Needs, err = s.front.NeedsMe(ctx, selvedge.Filter{}, at); err != nil {
		return o, err
	}
	if o.Paused, err = s.checkpoints.Page(ctx, checkpoints.Filter{State: checkpoints.Paused}, at); err != nil {
		return o, err
	}
	if o.Running, err = s.Runs(ctx, Filter{Open: true}, at); err != nil {
		return o, err
	}
	o.Failed, err = s.Runs(ctx, Filter{Failed: true, Since: since}, at)
	return o, err
}

// Weeks returns what was used in the last seven days, and in the seven before. It reads the usage of these
// days.
func (s *Store) Weeks(ctx context.Context) (this, last db.Usage, err error) {
	now, week := time.Now(), 7*24*time.Hour
	if this, err = s.total(ctx, now.Add(-week), now); err == nil {
		last, err = s.total(ctx, now.Add(-2*week), now.Add(-week))
	}
	return this, last, err
}

// scopeIn returns the number of the scope; false: nothing was written to it.
func (s *Store) scopeIn(rx *db.Rx) (int64, bool, error) { return rx.Store().Scope(s.scope) }

func invalid(hint, format string, args ...any) error { return txn.Invalid(hint, format, args...) }
