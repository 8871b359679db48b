package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
)

// Pruning is a store's part in [Prune]: it lists what has ended, newest first, and removes one
// item.
type Pruning struct {
	Op    string   // names the call in errors
	Store string   // see txn.Stores
	Kind  txn.Kind // of what Lock locks
	Scope string

	// Ended returns at most limit items that have ended, newest first, that come after the
	// position after: they ended earlier, or at the same time with a lower key. The first call
	// passes a position before all items.
	Ended func(rx *db.Rx, scope int64, after Ended, limit int) ([]Ended, error)
	// Weigh returns the Bytes of an item if Ended leaves them out; nil if Ended sets them.
	Weigh func(rx *db.Rx, thing Ended) (int64, error)
	// Lock locks the items, so that they are neither pinned nor changed before they are removed. It
	// returns the keys of those that may be removed; nil: all of them. See [LockFree] and
	// [LockNames].
	Lock func(tx *db.Tx, scope int64, things []Ended) (map[int64]bool, error)
	// Remove removes an item that ended and still is ended, or a part of one that is larger than
	// share. It reports what it did and how much of the share it used. A transaction starts with
	// Share. An item that a foreign key holds stays: its error joins that of Prune, which goes on.
	Remove func(tx *db.Tx, thing Ended, share int64) (Removal, int64, error)
	Share  int64

	// Excess, unless it is nil, holds the items beyond the limits by age and by count. The store
	// found them by its indexes, in any order; an item may occur twice. Prune then calls Ended only
	// for a limit by bytes.
	Excess []Ended
	Total  int // with Excess: how many items have ended
}

// SelectEnded is the Ended of a store with a statement of four parameters: the scope, the time and the
// key of the position, and the limit.
func SelectEnded(query string) func(*db.Rx, int64, Ended, int) ([]Ended, error) {
	return func(rx *db.Rx, scope int64, after Ended, limit int) (list []Ended, err error) {
		err = rx.Select(&list, query, scope, after.At, after.Key, limit)
		return list, err
	}
}

// An Ended is an item that has ended, as retention sees it.
type Ended struct {
	Key   int64  `db:"key"`      // number of its row
	ID    string `db:"id"`       // its id
	Owner string `db:"owner"`    // see maintenance.Pinned
	Of    string `db:"of"`       // the group in which it is counted
	At    int64  `db:"ended_at"` // Unix nanoseconds of its end
	Bytes int64  `db:"bytes"`    // that it takes, about
	Held  bool   `db:"held"`     // it has a holder or is needed, so it stays

	// Progress is for Remove, which may store there what it needs to continue after Partial. It
	// points to nil in the first transaction. What a transaction stored there is lost if it is
	// undone.
	Progress *any `db:"-"`
}

// A Removal is the outcome of one removal.
type Removal int

// The outcomes.
const (
	Kept    Removal = iota // it was removed before, has not ended, or is held
	Removed                // it was removed
	Partial                // a part of it was removed; the next transaction continues
)

// LockFree returns a [Pruning.Lock] for items that are rows of a kind with row locks. The query finds
// the rows by a list of keys, for which it has %s. It leaves out those that are gone, and those that
// another transaction has: a wait for one while others are locked could be a deadlock.
func LockFree(kind txn.Kind, query string) func(*db.Tx, int64, []Ended) (map[int64]bool, error) {
	rows := kind.Rows(fmt.Sprintf(query, "?"+strings.Repeat(", ?", lockedAtOnce-1))).Free()
	return func(tx *db.Tx, _ int64, things []Ended) (map[int64]bool, error) {
		if tx.Store().SingleWriter() {
			return nil, nil
		}
		var args [lockedAtOnce]any
		for i := range args {
			args[i] = things[min(i, len(things)-1)].Key
		}
		var keys []int64
		if err := tx.Store().SelectToChange(&keys, rows, args[:]...); err != nil {
			return nil, err
		}
		locked := map[int64]bool{}
		for _, key := range keys {
			locked[key] = true
		}
		return locked, nil
	}
}

// LockNames returns a [Pruning.Lock] that locks a name for each item, of its scope and its id.
func LockNames(name txn.Subject) func(*db.Tx, int64, []Ended) (map[int64]bool, error) {
	return func(tx *db.Tx, scope int64, things []Ended) (map[int64]bool, error) {
		for _, thing := range things {
			if err := tx.Store().WillChange(name, scope, thing.ID); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// RemovedRow is what Remove returns for an item that is one row, from a DELETE that leaves an item
// that has not ended, or was written since.
func RemovedRow(rows int64, err error) (Removal, int64, error) {
	if err != nil || rows == 0 {
		return Kept, 0, err
	}
	return Removed, 0, nil
}

const (
	// endedAtOnce is how many items one read lists, since a long read keeps the WAL from
	// restarting.
	endedAtOnce = 2000
	// pruneTurn is the time after which a transaction ends to let other writers in. A transaction
	// should hold the writer for 50 ms at most, including the commit.
	pruneTurn = 5 * time.Millisecond
	// lockedAtOnce is how many items are locked in one statement.
	lockedAtOnce = 16
)

// Prune removes what a policy does not retain, oldest first, in short transactions. After an error,
// what was removed before stays removed, and the next call continues. On a server, an item that
// another transaction is changing may stay until the next call.
func Prune(ctx context.Context, d *db.DB, p Pruning, policy db.Policy) (done db.Pruned, err error) {
	if err := CheckPolicy(policy); err != nil {
		return done, err
	}
	planned, ended, err := plan(ctx, d, p, policy)
	if err != nil {
		return done, err
	}
	slices.Reverse(planned)
	gone := func(thing Ended) {
		done.Removed++
		done.Bytes += thing.Bytes
		if !policy.DryRun {
			d.Store().Pruned.Add(thing.Bytes)
		}
		if policy.Each != nil {
			policy.Each(db.Gone{Of: thing.Of, ID: thing.ID, Bytes: thing.Bytes})
		}
	}
	if policy.DryRun {
		for _, thing := range planned {
			gone(thing)
		}
		planned = nil
	}
	var refused error
	var progress any // progress of the first planned item
	for len(planned) > 0 && err == nil {
		var went []Ended
		var looked int
		var next any
		err = On(d, p.Kind).Remove(ctx, p.Op, func(tx *db.Tx) (err error) {
			next = progress
			went, looked, err = p.removeSome(tx, planned, &next)
			return err
		})
		if stuck, ok := errors.AsType[*referenceError](err); ok {
			refused = errors.Join(refused, stuck.error)
			planned, progress, err = slices.Delete(planned, stuck.at, stuck.at+1), nil, nil
			continue
		}
		if err == nil {
			planned, progress = planned[looked:], next
			for _, thing := range went {
				gone(thing)
			}
		}
	}
	done.Remaining = ended - done.Removed
	if refused != nil {
		err = errors.Join(refused, err)
	}
	return done, err
}

// A referenceError is the error for an item that a foreign key holds.
type referenceError struct {
	error
	at int // its index among the planned items
}

func (e *referenceError) Unwrap() error { return e.error }

// plan lists what has ended, in short reads, and returns what the policy does not retain, newest
// first.
func plan(
	ctx context.Context, d *db.DB, p Pruning, policy db.Policy,
) (planned []Ended, ended int, err error) {
	counts := map[string]int{}
	known := map[int64]bool{} // keys in Excess
	for _, thing := range p.Excess {
		if stays := thing.Held || slices.Contains(policy.Pinned, thing.ID); !stays && !known[thing.Key] {
			known[thing.Key] = true
			planned = append(planned, thing)
		}
	}
	slices.SortFunc(planned, NewestFirst)
	if err := weighAll(ctx, d, p, planned); err != nil {
		return nil, 0, err
	}
	ranked := p.Excess == nil
	var bytes int64
	early := p.Weigh != nil && policy.Bytes > 0 // otherwise only what is removed is weighed
	after, more := Ended{Key: math.MaxInt64, At: math.MaxInt64}, ranked || policy.Bytes > 0
	for more {
		var page []Ended
		var pinned []bool
		var now time.Time
		err := d.Read(ctx, p.Op, func(rx *db.Rx) error {
			scope, there, err := rx.Store().Scope(p.Scope)
			if err != nil || !there {
				return err
			}
			now = rx.Now()
			if page, err = p.Ended(rx, scope, after, endedAtOnce); err != nil {
				return err
			}
			pinned = make([]bool, len(page))
			for i, thing := range page {
				if pinned[i], err = rx.Store().IsPinned(scope, p.pin(thing)); err != nil {
					return err
				}
			}
			if early {
				return p.weigh(rx, page)
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		first := len(planned)
		for i, thing := range page {
			ended++
			counts[thing.Of]++
			if known[thing.Key] {
				continue
			}
			stays := pinned[i] || thing.Held || slices.Contains(policy.Pinned, thing.ID)
			over := ranked && (beyondCount(policy, counts[thing.Of]) || beyondAge(policy, now, thing.At))
			if !over || stays { // what another limit removes does not count towards the bytes
				bytes += thing.Bytes
				over = over || beyondBytes(policy, bytes)
			}
			if over && !stays {
				planned = append(planned, thing)
			}
		}
		if !early {
			if err := weighAll(ctx, d, p, planned[first:]); err != nil {
				return nil, 0, err
			}
		}
		if more = len(page) == endedAtOnce; more {
			after = page[len(page)-1]
		}
	}
	if !ranked {
		ended = p.Total
		slices.SortFunc(planned, NewestFirst)
	}
	return planned, ended, nil
}

// NewestFirst orders what has ended as [Pruning.Ended] lists it.
func NewestFirst(a, b Ended) int {
	return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Key, a.Key))
}

// weighAll sets the bytes of the items, in short reads.
func weighAll(ctx context.Context, d *db.DB, p Pruning, things []Ended) error {
	for part := range slices.Chunk(things, endedAtOnce) {
		if err := d.Read(ctx, p.Op, func(rx *db.Rx) error { return p.weigh(rx, part) }); err != nil {
			return err
		}
	}
	return nil
}

func (p Pruning) weigh(rx *db.Rx, things []Ended) (err error) {
	if p.Weigh == nil {
		return nil
	}
	for i := range things {
		if things[i].Bytes, err = p.Weigh(rx, things[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p Pruning) pin(thing Ended) txn.Pinned {
	return txn.Pinned{Store: p.Store, ID: thing.ID, Owner: thing.Owner}
}

// beyondCount, beyondBytes and beyondAge report whether a limit excludes the nth item of its group,
// the item that brings the retained bytes to held, and the item that ended at that time.
func beyondCount(p db.Policy, nth int) bool { return p.Count != 0 && nth > max(p.Count, 0) }

func beyondBytes(p db.Policy, held int64) bool {
	return p.Bytes == db.KeepNone || p.Bytes > 0 && held > p.Bytes
}

func beyondAge(p db.Policy, now time.Time, ended int64) bool {
	return p.Age == db.KeepNone || p.Age > 0 && ended < db.Nanos(now.Add(-p.Age))
}

// removing has one transaction at a time remove things of a scope on a server. Several would change rows
// that belong to many things, such as the usage of a day, in different orders.
var removing = txn.Runs.Name("retention %d")

// removeSome removes the first planned items, within the share of a transaction. looked is how many
// are done, and progress the progress of the next one.
func (p Pruning) removeSome(tx *db.Tx, planned []Ended, progress *any) (went []Ended, looked int, err error) {
	scope, _, err := tx.Store().Rx.Scope(p.Scope)
	if err == nil {
		err = tx.Store().WillChange(removing, scope)
	}
	if err != nil {
		return nil, 0, err
	}
	var locked map[int64]bool
	lockedTo := 0
	began := time.Now()
	for share := p.Share; looked < len(planned) && share > 0 && (looked == 0 || time.Since(began) < pruneTurn); {
		thing := planned[looked]
		if looked == lockedTo {
			lockedTo = min(looked+lockedAtOnce, len(planned))
			if locked, err = p.Lock(tx, scope, planned[looked:lockedTo]); err != nil {
				return nil, 0, err
			}
			if looked == 0 { // it may have waited
				began = time.Now()
			}
		}
		stays := locked != nil && !locked[thing.Key]
		if !stays { // it may have been pinned since it was planned
			if stays, err = tx.Store().IsPinned(scope, p.pin(thing)); err != nil {
				return nil, 0, err
			}
		}
		if stays {
			*progress = nil // a part of it may have been removed
			looked++
			continue
		}
		thing.Progress = progress
		did, took, err := p.Remove(tx, thing, share)
		if txn.IsConstraint(err) {
			err = &referenceError{db.About(err, p.Op, "", "", nil), looked}
		}
		if err != nil {
			return nil, 0, err
		}
		if did == Partial {
			return went, looked, nil
		}
		if did == Removed {
			went = append(went, thing)
		}
		*progress = nil
		share -= took + 1
		looked++
	}
	return went, looked, nil
}
