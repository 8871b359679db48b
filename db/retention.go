package db

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// A Policy says what Prune keeps, of what has ended: the rest goes, the oldest first. The zero
// value keeps everything. What has not ended always stays, and so does what is pinned (see
// [DB.Pin]) or held.
type Policy struct {
	// Age is how long a thing is kept behind its end; 0 is no limit.
	Age time.Duration
	// Count is how many are kept, the newest, of each of those that a store counts apart (the runs of
	// an agent); 0 is no limit.
	Count int
	// Bytes is how much is kept in the scope, the newest; 0 is no limit.
	Bytes int64
	// Pinned are the ids of what is kept besides, whatever the limits say.
	Pinned []string
	// DryRun counts and removes nothing.
	DryRun bool
	// Each is called for each thing that went, after the commit, or that would go; nil is nobody. It
	// runs on the caller's goroutine: when it panics or leaves by runtime.Goexit, so does the call,
	// and what went stays gone.
	Each func(Gone)
}

// KeepNone is the limit of a Policy, Age, Count or Bytes, under which nothing stays that has ended.
const KeepNone = -1

// Pruned is what Prune did, or would do.
type Pruned struct {
	Removed   int   // things that went
	Bytes     int64 // that they held, about
	Ended     int   // runs that were open, and that nobody would have ended: they are incomplete now, and stay
	Remaining int   // things that have ended and stay
}

// Gone is a thing that Prune removed, or would remove.
type Gone struct {
	Of    string // of whom a store counts it: the agent of a run, the session of a live run
	ID    string
	Bytes int64 // that it held, about
}

// Check reports, as ErrInvalid, a limit that is none.
func (p Policy) Check() error {
	if p.Age < KeepNone || p.Count < KeepNone || p.Bytes < KeepNone {
		return &Error{Op: "prune", Hint: "0 is no limit, and db.KeepNone keeps nothing",
			Err: fmt.Errorf("%w: a limit below 0", ErrInvalid)}
	}
	return nil
}

// Limited reports whether the policy has a limit: without one it keeps everything.
func (p Policy) Limited() bool { return p.Age != 0 || p.Count != 0 || p.Bytes != 0 }

// The stores, as the tables of retention name them.
const (
	StoreRuns        = "runs"
	StoreLive        = "live"
	StoreAgents      = "agents"
	StoreCheckpoints = "checkpoints"
	StoreWorkers     = "workers"
)

// Stores are those that have a retention, in the order of the docs.
func Stores() []string {
	return []string{StoreRuns, StoreLive, StoreAgents, StoreCheckpoints, StoreWorkers}
}

func checkStore(store string) error {
	if slices.Contains(Stores(), store) {
		return nil
	}
	return &Error{
		Op: "retention", Hint: "the stores are runs, live, agents, checkpoints and workers",
		Err: fmt.Errorf("%w: %q is no store", ErrInvalid, store),
	}
}

// A Retention is what is set for a store of a scope.
type Retention struct {
	Policy   Policy // its limits; a limit of KeepNone where nothing is to stay
	SetAt    time.Time
	Imported bool // out of the config.toml of a tree
}

const (
	sqlRetention = `SELECT max_age, max_count, max_bytes, set_at, source FROM retention WHERE scope = ?
		AND store = ?`
	sqlPutLimits = `INSERT INTO retention (scope, store, max_age, max_count, max_bytes, source, set_at,
	checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, store) DO UPDATE
	SET max_age = excluded.max_age, max_count = excluded.max_count, max_bytes = excluded.max_bytes,
    source = excluded.source, set_at = excluded.set_at, checksum = excluded.checksum`
	sqlDropLimits = `DELETE FROM retention WHERE scope = ? AND store = ?`
)

// Retention gives the limits that are set for a store of a scope; ok is false where none are.
func (d *DB) Retention(ctx context.Context, scope, store string) (r Retention, ok bool, err error) {
	if err := checkStore(store); err != nil {
		return r, false, err
	}
	err = d.Read(ctx, "read retention", func(rx *Rx) error {
		r, ok = Retention{}, false
		id, known, err := rx.Scope(scope)
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

// limit is a column as a Policy has it, and column the other way.
func limit(column *int64) int64 {
	switch {
	case column == nil:
		return 0
	case *column == 0:
		return KeepNone
	}
	return *column
}

func column(limit int64) any {
	switch limit {
	case 0:
		return nil
	case KeepNone:
		return int64(0)
	}
	return limit
}

// SetRetention sets the limits for a store of a scope, in place of those that were: a policy
// without any keeps everything. What a policy says besides its limits is not kept.
func (d *DB) SetRetention(ctx context.Context, scope, store string, p Policy) error {
	return d.Reclaim(ctx, "set retention", func(tx *Tx) error { return tx.SetRetention(scope, store, p, nil) })
}

// ResetRetention takes the limits for a store of a scope away. Then runs are kept as the old
// program did, 50 of an agent and 30 days, and of other stores everything.
func (d *DB) ResetRetention(ctx context.Context, scope, store string) error {
	return d.Reclaim(ctx, "reset retention", func(tx *Tx) error { return tx.ResetRetention(scope, store) })
}

// ResetRetention is [DB.ResetRetention] inside a transaction.
func (tx *Tx) ResetRetention(scope, store string) error {
	if err := checkStore(store); err != nil {
		return err
	}
	id, ok, err := tx.Rx.Scope(scope)
	if err == nil && ok {
		_, err = tx.Exec(sqlDropLimits, id, store)
	}
	return err
}

// SetRetention is [DB.SetRetention] inside a transaction. source is the number of the imported tree
// that says so; nil is nobody's.
func (tx *Tx) SetRetention(scope, store string, p Policy, source *int64) error {
	if err := checkStore(store); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	id, err := tx.Scope(scope)
	if err != nil {
		return err
	}
	columns := []any{id, store, column(int64(p.Age)), column(int64(p.Count)), column(p.Bytes), nil,
		Nanos(tx.Now())}
	if source != nil {
		columns[5] = *source
	}
	_, err = tx.Exec(sqlPutLimits, append(columns, Checksum(columns...))...)
	return err
}

// A Pinned is a thing that no limit takes.
type Pinned struct {
	Store string
	ID    string
	// Owner says whose it is where its id alone does not name it: the agent of a run, the runtime of a
	// worker; else "".
	Owner string
}

const (
	sqlPin = `INSERT INTO retention_pins (scope, store, id, owner, pinned_at, checksum) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, store, id, owner) DO NOTHING`
	sqlUnpin    = `DELETE FROM retention_pins WHERE scope = ? AND store = ? AND id = ? AND owner = ?`
	sqlIsPinned = `SELECT 1 FROM retention_pins WHERE scope = ? AND store = ? AND id = ? AND owner = ?`
	sqlPins     = `SELECT store, id, owner FROM retention_pins WHERE scope = ?
		AND (store, id, owner) > (?, ?, ?) ORDER BY store, id, owner LIMIT ?`
)

// Pin keeps a thing of a scope whatever the limits of retention say, until Unpin. Whether it is
// there the stores look: see their Pin. What is pinned already stays so.
func (tx *Tx) Pin(scope string, p Pinned) error {
	err := checkStore(p.Store)
	if err == nil {
		err = CheckID("pinned", p.ID)
	}
	if err == nil {
		err = CheckID("pinned owner", p.Owner)
	}
	if err != nil {
		return err
	}
	id, err := tx.Scope(scope)
	if err != nil {
		return err
	}
	columns := []any{id, p.Store, p.ID, p.Owner, Nanos(tx.Now())}
	_, err = tx.Exec(sqlPin, append(columns, Checksum(columns...))...)
	return err
}

// Unpin takes a pin away; one that is not there is fine.
func (tx *Tx) Unpin(scope string, p Pinned) error {
	id, ok, err := tx.Rx.Scope(scope)
	if err != nil || !ok {
		return err
	}
	return tx.unpin(id, p)
}

func (tx *Tx) unpin(scope int64, p Pinned) error {
	_, err := tx.Exec(sqlUnpin, scope, p.Store, p.ID, p.Owner)
	return err
}

// IsPinned reports whether a thing of the scope with this number is pinned.
func (rx *Rx) IsPinned(scope int64, p Pinned) (bool, error) {
	return rx.Find(new(int64), sqlIsPinned, scope, p.Store, p.ID, p.Owner)
}

// pinsList is the list in its cursors.
const pinsList = "pins"

// Pins gives a page of what is pinned in a scope, by store and id.
func (d *DB) Pins(ctx context.Context, scope string, at At) (page Page[Pinned], err error) {
	room, err := at.Room()
	if err != nil {
		return page, err
	}
	err = d.Read(ctx, "list pins", func(rx *Rx) error {
		page = Page[Pinned]{}
		id, ok, err := rx.Scope(scope)
		if err != nil {
			return err
		}
		var after Pinned
		if at.After != "" {
			of := []int64{0}
			if err := rx.ReadCursor(pinsList, at.After, of, &after.Store, &after.ID, &after.Owner); err != nil {
				return err
			}
			if of[0] != id {
				return NotThisCursor(at.After)
			}
		}
		if !ok {
			return nil
		}
		items := rx.pins(id, after, room.Items+1)
		page, err = FillPage(room, items, func(p *Pinned) int {
			return 64 + len(p.Store) + len(p.ID) +
				len(p.Owner)
		}, func(p *Pinned) string {
			return rx.Cursor(pinsList, []int64{id}, p.Store, p.ID, p.Owner)
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
