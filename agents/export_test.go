package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/pelletier/go-toml/v2/unstable"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A DecodeError says why a file is none of the registry's.
type DecodeError = decodeError

// SetMember sets one field by its name in documents, null clearing it, as the harness that recorded
// the original did.
func SetMember(e *Entry, name string, raw json.RawMessage) error {
	ns := e.pidNS()
	defer e.wasRead(ns)
	for _, f := range fieldsOf(e) {
		if f.name != name {
			continue
		}
		v, err := valueOfJSON(raw)
		if err == nil && v.kind == unstable.Invalid {
			reflect.ValueOf(f.holds).Elem().SetZero()
			return nil
		}
		if err == nil {
			err = v.into(f, e.keepExact)
		}
		return err
	}
	return fmt.Errorf("%w: an entry has no member %s", db.ErrInvalid, name)
}

// Equal reports whether two entries are the same in all fields. Times are compared as instants, and
// second 60 counts.
func (e Entry) Equal(other Entry) bool { return string(e.encode()) == string(other.encode()) }

// SetIDs replaces the generator of ids.
func SetIDs(r *Registry, next func() string) { r.newID = next }

// InSmallTurns has reaping look at two agents at once and write about one, for the rest of a test.
func InSmallTurns(t interface{ Cleanup(func()) }) {
	turn, at := longestTurn, judgedAtOnce
	longestTurn, judgedAtOnce = 0, 2
	t.Cleanup(func() { longestTurn, judgedAtOnce = turn, at })
}

// LeaseOf gives the handle of a lease that nobody has looked for.
func LeaseOf(r *Registry, id, thread string, epoch int64) *Lease {
	return (&Lease{registry: r, id: id, thread: thread, epoch: epoch}).handle(new(db.Rx), txn.LeaseColumns{})
}

func (r *Registry) read(ctx context.Context, why string, fn func(rx *db.Rx, scope int64) error) error {
	return r.db.Read(ctx, why, func(rx *db.Rx) error {
		return r.readTx(rx, why, "", func(scope int64) error { return fn(rx, scope) })
	})
}

// CountAside tells how many entries of a registry were put aside.
func CountAside(ctx context.Context, r *Registry) (n int, err error) {
	err = r.read(ctx, "count", func(rx *db.Rx, scope int64) error {
		return rx.Get(&n, `SELECT count(*) FROM agents WHERE scope = ? AND put_aside_at IS NOT NULL`, scope)
	})
	return n, err
}

// Ended gives a page of what pruning looks at.
func Ended(ctx context.Context, r *Registry, after stores.Ended, limit int) (list []stores.Ended, err error) {
	err = r.read(ctx, "look", func(rx *db.Rx, scope int64) (err error) {
		list, err = endedAgents(rx, scope, after, limit)
		return err
	})
	return list, err
}

// FileOf is the file of a registry.
func FileOf(r *Registry) *db.DB { return r.db }
