package db

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"selvedge/internal/paging"
	"selvedge/internal/txn"
)

// A Policy says which ended items Prune keeps; it removes the rest, oldest first. The zero value
// keeps everything. Open, pinned ([DB.Pin]) and held items always stay.
type Policy struct {
	// Age is how long an item is kept after its end; 0 is no limit.
	Age time.Duration
	// Count is how many of the newest items are kept per group that the store counts (the runs of an
	// agent); 0 is no limit.
	Count int
	// Bytes is how many bytes of the newest items are kept in the scope; 0 is no limit.
	Bytes int64
	// Pinned are ids that are kept in addition, whatever the limits say.
	Pinned []string
	// DryRun counts and removes nothing.
	DryRun bool
	// Each, if not nil, is called for each removed item after the commit, or for each item that would
	// be removed. It runs on the caller's goroutine: if it panics or calls runtime.Goexit, so does the
	// call, and what was removed stays removed.
	Each func(Gone)
}

// KeepNone is the limit of a Policy (Age, Count or Bytes) that keeps nothing that has ended.
const KeepNone = txn.KeepNone

// Pruned is what Prune removed, or would remove.
type Pruned struct {
	Removed   int   // things that went
	Bytes     int64 // that they held, about
	Ended     int   // runs that were open, and that nobody would have ended: they are incomplete now, and stay
	Remaining int   // things that have ended and stay
}

// Gone is an item that Prune removed, or would remove.
type Gone struct {
	Of    string // of whom a store counts it: the agent of a run, the session of a live run
	ID    string
	Bytes int64 // that it held, about
}

// Check returns ErrInvalid for a limit that is out of range.
func (p Policy) Check() error {
	if p.Age < KeepNone || p.Count < KeepNone || p.Bytes < KeepNone {
		return &Error{
			Op: "prune", Hint: "0 is no limit, and db.KeepNone keeps nothing",
			Err: fmt.Errorf("%w: a limit below 0", ErrInvalid),
		}
	}
	return nil
}

// Limited reports whether the policy has a limit. Without one it keeps everything.
func (p Policy) Limited() bool { return p.Age != 0 || p.Count != 0 || p.Bytes != 0 }

// The names of the stores in the retention tables.
const (
	StoreRuns        = "runs"
	StoreLive        = "live"
	StoreAgents      = "agents"
	StoreCheckpoints = "checkpoints"
	StoreWorkers     = "workers"
)

// Stores returns the names of the stores that have retention, in the order of the docs.
func Stores() []string {
	return slices.Clone(txn.Stores)
}

// A Retention is the policy that is set for a store of a scope.
type Retention struct {
	Policy   Policy // its limits; a limit of KeepNone where nothing is to stay
	SetAt    time.Time
	Imported bool // out of the config.toml of a tree
}

const (
	sqlRetention = `SELECT max_age, max_count, max_bytes, set_at, source FROM retention WHERE scope = ?
		AND store = ?`
)

// Retention returns the limits that are set for a store of a scope; ok is false if none are.
func (d *DB) Retention(ctx context.Context, scope, store string) (r Retention, ok bool, err error) {
	if err := txn.CheckStore(store); err != nil {
		return r, false, err
	}
	err = d.Read(ctx, "read retention", func(rx *Rx) error {
		r, ok = Retention{}, false
		id, known, err := rx.in.Scope(scope)
		if err != nil || !known {
			return err
		}
		var row struct {
			Age    *int64 `db:"max_age"`
			Count  *int64 `db:"max_count"`
			Bytes  *int64 `db:"max_bytes"`
			SetAt  int64  `db:"set_at"`
			Source *int64 `db:"source"`
		}
		ok, err = rx.Find(&row, sqlRetention, id, store)
		r = Retention{
			Policy: Policy{Age: time.Duration(limit(row.Age)), Count: int(limit(row.Count)), Bytes: limit(row.Bytes)},
			SetAt:  Time(row.SetAt), Imported: row.Source != nil,
		}
		return err
	})
	return r, ok, err
}

// limit converts a column to a Policy's limit.
func limit(column *int64) int64 {
	switch {
	case column == nil:
		return 0
	case *column == 0:
		return KeepNone
	}
	return *column
}

// SetRetention replaces the limits for a store of a scope; a policy without limits keeps
// everything. Other fields of the policy are not stored.
func (d *DB) SetRetention(ctx context.Context, scope, store string, p Policy) error {
	if err := p.Check(); err != nil {
		return err
	}
	return d.Reclaim(ctx, "set retention", func(tx *Tx) error {
		return tx.in.SetRetention(scope, store, txn.Limits{Age: p.Age, Count: p.Count, Bytes: p.Bytes}, nil)
	})
}

// ResetRetention removes the limits for a store of a scope. Runs are then kept for 30 days,
// at most 50 per agent; other stores keep everything.
func (d *DB) ResetRetention(ctx context.Context, scope, store string) error {
	return d.Reclaim(ctx, "reset retention", func(tx *Tx) error { return tx.in.ResetRetention(scope, store) })
}

// A Pinned is an item that no limit removes.
type Pinned struct {
	Store string
	ID    string
	// Owner completes an id that is not unique by itself: the agent of a run, the runtime of a worker;
	// else "".
	Owner string
}

const (
	sqlPins = `SELECT store, id, owner FROM retention_pins WHERE scope = ?
		AND (store, id, owner) > (?, ?, ?) ORDER BY store, id, owner LIMIT ?`
)

// pinsList names this list in its cursors.
const pinsList = "pins"

// Pins returns a page of the pinned items of a scope, by store and id.
func (d *DB) Pins(ctx context.Context, scope string, at At) (page Page[Pinned], err error) {
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	err = d.Read(ctx, "list pins", func(rx *Rx) error {
		page = Page[Pinned]{}
		id, ok, err := rx.in.Scope(scope)
		if err != nil {
			return err
		}
		var after Pinned
		if at.After != "" {
			of := []int64{0}
			if err := rx.in.ReadCursor(pinsList, at.After, of, &after.Store, &after.ID, &after.Owner); err != nil {
				return err
			}
			if of[0] != id {
				return txn.NotThisCursor(at.After)
			}
		}
		if !ok {
			return nil
		}
		items := rx.pins(id, after, room.Items+1)
		page.Items, page.Next, err = paging.Fill(room, items, func(p *Pinned) int {
			return 64 + len(p.Store) + len(p.ID) +
				len(p.Owner)
		}, func(p *Pinned) string {
			return rx.in.Cursor(pinsList, []int64{id}, p.Store, p.ID, p.Owner)
		})
		return err
	})
	return page, err
}

func (rx *Rx) pins(scope int64, after Pinned, most int) iter.Seq2[Pinned, error] {
	return func(yield func(Pinned, error) bool) {
		for row, err := range rx.Query(sqlPins, scope, after.Store, after.ID, after.Owner, most) {
			var p Pinned
			if err == nil {
				err = row.Scan(&p.Store, &p.ID, &p.Owner)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}
