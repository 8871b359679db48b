package agents

import (
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// The calls of the old registry, under their names and with their behaviour: docs/parity.md lists
// them. They are thin; if the grammar of all stores has a better call, they name it. The other
// calls of the old registry, which need no other form, are ReapDead, the FindActive calls and
// ActorChainForSession.

// Save stores an entry, and replaces one with the same id. It checks neither whether another agent
// is active on the thread, nor which program wrote the entry before. An entry without a start
// begins now.
func (r *Registry) Save(ctx context.Context, e Entry) error {
	return stores.On(r.db, txn.Agents).Write(ctx, opSave, func(tx *db.Tx) error { return r.SaveTx(tx, e) })
}

// Load returns the entry with the id; ok is false if there is none. An entry that ended seven days
// ago or earlier is put aside by this call: no later call sees it. [Registry.Get] puts none aside.
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

// List returns all entries, the newest start first, from one snapshot. It puts stale ones aside, as
// Load does. Read lists that may be long in parts, with [Registry.Page] or [Registry.All].
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
	return stores.On(r.db, txn.Agents).Remove(ctx, opDelete, stores.With(r.DeleteTx, id))
}

// UpdateStatus sets an entry's status and the time of its end: now, or none for Active. A missing
// entry is no error. UpdateStatus can bring back a stale entry that no call has put aside yet.
func (r *Registry) UpdateStatus(ctx context.Context, id string, status Status) error {
	to := stores.On(r.db, txn.Agents)
	write := to.End
	if status == Active {
		write = to.Write
	}
	return write(ctx, opStatus, func(tx *db.Tx) error { return r.UpdateStatusTx(tx, id, status) })
}

// UpdateEntry calls update with the entry and stores the result; ok is false if there is no entry.
// If update changes the id, the entry with the old id stays as it was, and one with the new id is
// saved. update runs inside the transaction, as a Builder does. Programs without a lease use
// UpdateEntry for heartbeats, to set HeartbeatAt and LastProgressAt.
func (r *Registry) UpdateEntry(ctx context.Context, id string, update func(*Entry)) (Entry, bool, error) {
	return stores.Find(ctx, stores.On(r.db, txn.Agents).Write, opUpdate, func(tx *db.Tx) (Entry, bool, error) {
		return r.UpdateEntryTx(tx, id, update)
	})
}

// LogContextQuery adds a query to an active entry. If the entry is missing or not active, it does
// nothing. The time of a query defaults to now.
func (r *Registry) LogContextQuery(ctx context.Context, id string, q ContextQuery) error {
	return stores.On(r.db, txn.Agents).Write(ctx, opLogQuery,
		func(tx *db.Tx) error { return r.LogContextQueryTx(tx, id, q) })
}

// TryReserveThread reserves the thread for a new agent, which build makes. If an agent that is
// active on the thread is alive, or may be (see LivenessFor and Lease), that agent is the result,
// and build is not called. Dead agents that come before it in the order of ids are abandoned; they
// stay so even if build fails. If build chooses an id that another agent has, the error is
// db.ErrConflict, and nothing is added.
//
// However many processes try at once, one gets the thread and the others receive its agent's entry.
// [Registry.TryLeaseThread] makes a reservation that ends by itself.
func (r *Registry) TryReserveThread(ctx context.Context, thread string, build Builder) (ReserveOutcome,
	error,
) {
	a, err := r.try(ctx, txn.AgentReservations, opReserve, func(tx *db.Tx) (attempt, error) {
		return r.attempt(tx, opReserve, thread, nil, build)
	})
	return a.outcome, err
}

// CreateGeneratedEntryForThread is TryReserveThread, but another owner is db.ErrConflict, which names
// its agent.
func (r *Registry) CreateGeneratedEntryForThread(ctx context.Context, thread string, build Builder) (Entry,
	error,
) {
	out, err := r.TryReserveThread(ctx, thread, build)
	if err == nil && out.LiveOwner != nil {
		owner := out.LiveOwner.SessionID
		err = &db.Error{
			Op: opReserve, Entity: "thread", ID: thread, Hint: "wait for agent " + owner + ", or release it",
			Err: &configError{Is: db.ErrConflict, Text: fmt.Sprintf("thread '%[1]s' already has active reservation "+
				"%[2]s. Use `heddle thread show %[1]s` to inspect it, or release the session before starting another "+
				"writer.", thread, owner)},
		}
	}
	if err != nil {
		return Entry{}, err
	}
	return *out.Reserved, nil
}

// CreateGeneratedEntry adds the entry that build makes for a new id, even if another agent has its
// thread.
func (r *Registry) CreateGeneratedEntry(ctx context.Context, build Builder) (e Entry, err error) {
	return stores.Get(ctx, stores.On(r.db, txn.Agents).Write, opCreate,
		stores.Bind(r.CreateGeneratedEntryTx, build))
}

// FindOrCreateActiveEntry calls update with the first active entry, in the order of ids, that
// matches, and stores the result, whether the agent is alive or not. If none matches, it adds the
// entry that build makes for a new id, and created is true. Stale entries are put aside, even if
// build fails. The three functions run inside the transaction, as a Builder does.
func (r *Registry) FindOrCreateActiveEntry(
	ctx context.Context, matches func(Entry) bool, update func(*Entry), build Builder,
) (e Entry, created bool, err error) {
	a, err := r.try(ctx, txn.FoundAgents, opFindOrCreate, func(tx *db.Tx) (attempt, error) {
		return r.findOrCreate(tx, matches, update, build)
	})
	return a.entry, a.created, err
}
