package agents

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
)

// The calls of the registry that this package took over, under their names and with their
// behaviour: docs/parity.md lists them. They are thin; where the grammar of all stores has a better
// call, they name it. The other calls of the old registry, which need no other form, are ReapDead,
// the FindActive calls and ActorChainForSession.

// Save stores an entry, and replaces one with the same id. It checks neither whether another agent
// is active on the thread, nor which program wrote the entry before. An entry without a start begins
// now.
func (r *Registry) Save(ctx context.Context, e Entry) error {
	return r.db.Write(ctx, opSave, func(tx *db.Tx) error { return r.SaveTx(tx, e) })
}

// Load gives the entry with the id; ok is false when there is none. An entry that ended seven days
// ago or earlier is put aside in this call: no later one sees it. [Registry.Get] puts none aside.
func (r *Registry) Load(ctx context.Context, id string) (e Entry, ok bool, err error) {
	old := false
	err = r.db.Read(ctx, opLoad, func(rx *db.Rx) error {
		e, ok, old, err = r.load(rx, id)
		return err
	})
	if err != nil || !old {
		return e, ok, err
	}
	err = r.write(ctx, opLoad, id, func(tx *db.Tx, scope int64) error {
		n, err := tx.Exec(sqlPutAsideOne, db.Nanos(tx.Now()), staleBefore(tx.Now()), scope, id)
		ok = n == 0 // another call brought it back meanwhile, or put it aside
		return err
	})
	if err != nil || !ok {
		return Entry{}, false, err
	}
	return e, true, nil
}

const opLoad = "load agent"

func (r *Registry) load(rx *db.Rx, id string) (e Entry, ok, old bool, err error) {
	err = r.readTx(rx, opLoad, id, func(scope int64) error {
		found, err := findEntry(rx, sqlBySession, scope, id)
		if err == nil && found != nil {
			e, ok, old = found.Entry, true, stale(found, rx.Now())
		}
		return err
	})
	if err == nil {
		err = named(opLoad, id, checkID(id))
	}
	return e, ok, old, err
}

// List gives all entries, the newest start first, from one snapshot. Stale ones are put aside, as
// by Load. Lists that may be long are read in parts with [Registry.Page] and [Registry.All].
func (r *Registry) List(ctx context.Context) (list []Entry, err error) {
	return stores.Get(ctx, r.look, opList, func(rx *db.Rx) (list []Entry, err error) {
		list = []Entry{}
		err = r.readTx(rx, opList, "", func(scope int64) error {
			all, err := findEntries(rx, sqlList, scope, staleBefore(rx.Now()))
			for i := range all {
				list = append(list, all[i].Entry)
			}
			return err
		})
		return list, err
	})
}

// Delete removes the entry with the id, whatever its status, and its reservation. A missing one is
// no error, as in the old registry.
func (r *Registry) Delete(ctx context.Context, id string) error {
	return r.db.Reclaim(ctx, opDelete, func(tx *db.Tx) error { return r.DeleteTx(tx, id) })
}

// UpdateStatus sets an entry's status, and with it the time of its end: now, or none for Active. A
// missing entry is no error. It can bring back a stale entry that no call has put aside yet.
func (r *Registry) UpdateStatus(ctx context.Context, id string, status Status) error {
	write := r.db.WriteEnd
	if status == Active {
		write = r.db.WriteLocked
	}
	return write(ctx, opStatus, func(tx *db.Tx) error { return r.UpdateStatusTx(tx, id, status) })
}

// UpdateEntry gives the entry to update and stores what it makes of it; ok is false when there is
// none. If update changes the id, the entry with the old id stays as it was, and one with the new
// id is saved. update runs inside the transaction, as a Builder does. Heartbeats of programs
// without a lease are such updates, of HeartbeatAt and LastProgressAt.
func (r *Registry) UpdateEntry(ctx context.Context, id string, update func(*Entry)) (Entry, bool, error) {
	return stores.Find(ctx, r.db.WriteLocked, opUpdate, func(tx *db.Tx) (Entry, bool, error) {
		return r.UpdateEntryTx(tx, id, update)
	})
}

// LogContextQuery adds a query to an active entry. For an entry that is not active, or missing,
// nothing is done. A query without a time is of now.
func (r *Registry) LogContextQuery(ctx context.Context, id string, q ContextQuery) error {
	return r.db.WriteLocked(ctx, opLogQuery, func(tx *db.Tx) error { return r.LogContextQueryTx(tx, id, q) })
}

// TryReserveThread gives the thread to a new agent, unless one that is active on it lives, or may
// live (see LivenessFor and Lease): that one is the answer, and build is not called. Those that are
// met before it, by id, and are dead are abandoned; that stays so when build fails. An id of
// build's own that another agent has is a db.ErrConflict, and nothing is built.
//
// However many processes try at once, one gets the thread and the others learn its agent.
// [Registry.TryLeaseThread] gives a reservation that ends by itself.
func (r *Registry) TryReserveThread(ctx context.Context, thread string, build Builder) (ReserveOutcome,
	error,
) {
	a, err := r.try(ctx, opReserve, func(tx *db.Tx) (attempt, error) {
		return r.attempt(tx, opReserve, thread, nil, build)
	})
	return a.outcome, err
}

// CreateGeneratedEntryForThread is TryReserveThread with another owner as an error, a
// *ReservedError.
func (r *Registry) CreateGeneratedEntryForThread(ctx context.Context, thread string, build Builder) (Entry,
	error,
) {
	out, err := r.TryReserveThread(ctx, thread, build)
	if err == nil && out.LiveOwner != nil {
		err = &db.Error{
			Op: opReserve, Entity: "thread", ID: thread,
			Hint: "wait for agent " + out.LiveOwner.SessionID + ", or release it",
			Err:  &ReservedError{Thread: thread, Owner: *out.LiveOwner},
		}
	}
	if err != nil {
		return Entry{}, err
	}
	return *out.Reserved, nil
}

// CreateGeneratedEntry adds what build makes for a new id, whichever agent has its thread.
func (r *Registry) CreateGeneratedEntry(ctx context.Context, build Builder) (e Entry, err error) {
	return stores.Get(ctx, r.db.Write, opCreate, func(tx *db.Tx) (Entry, error) {
		return r.CreateGeneratedEntryTx(tx, build)
	})
}

// FindOrCreateActiveEntry gives update the first active entry, by id, that matches, and stores what
// it makes of it, whether the agent lives or not. If none matches, what build makes for a new
// id is added, and created is true. Stale entries are put aside, also when build fails. The three
// functions run inside the transaction, as a Builder does.
func (r *Registry) FindOrCreateActiveEntry(
	ctx context.Context, matches func(Entry) bool, update func(*Entry), build Builder,
) (e Entry, created bool, err error) {
	a, err := r.try(ctx, opFindOrCreate, func(tx *db.Tx) (attempt, error) {
		return r.findOrCreate(tx, matches, update, build)
	})
	return a.entry, a.created, err
}
