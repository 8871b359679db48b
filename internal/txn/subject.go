package txn

import (
	"fmt"
	"strings"
)

// A Kind is a kind of thing that calls change. It decides what keeps a call apart from the others on a
// server: row locks, or a serialisable transaction. In a file, one transaction writes at a time.
//
// A call L of a kind with row locks runs READ COMMITTED and locks its row before it reads. It waits for
// other such calls, and reads what they left. PostgreSQL checks serialisable transactions only against
// each other: a T that waits for a row that L only locked goes on with its old snapshot. So L changes
// the row that it locked, or adds one under a unique key that T needs, and T fails and runs again. The
// comments of the kinds say what T meets, with the error code; docs/decisions/0020 has the rules.
type Kind int

const (
	// The kinds with row locks are in the order in which one transaction locks their rows.

	// Runs: creating, beginning and taking a run add a row under a unique key (23505) or change it
	// (40001); taking also locks the name, so that two agents do not both add the run. An end, a release,
	// a resumption and a write after a lease is over change the row (40001). An append of turns only locks
	// it: T takes the same id for a record (23505). A T that removes the run notes it in run_leavings, and
	// the next transaction drops what L added. Steps, answers and usage lock the row, then the
	// reservation, then the live run: T changes them together with one of these rows (40001).
	Runs Kind = iota
	// LiveRuns: an event, a mark, an end and a release change the row (40001). A creation, a replacement
	// and a cap add or remove a row under a unique key (23505 or 40001).
	LiveRuns
	// Runtimes: an input, a worker that is created or ended, and the runtime's end change the row (40001).
	Runtimes
	// Checkpoints: a claim, its renewal, end and release change the row (40001). A pause adds a row under
	// a unique key (23505), and locks the name. An import that marks a conflict locks the run's rows. Of a
	// run, the pause is locked first. A claim locks that alone: one that comes too late holds nothing.
	Checkpoints
	// Agents: a change of an entry, also under a lease, and its release change the row (40001). A query
	// that is added rewrites the row for this.
	Agents
	// AgentReservations: a reservation locks the name of the thread, which is one of Agents, and the dead
	// agents that it ends, and adds a row under a unique key. A T that makes an agent active on the thread
	// by another call locks the name too, and adds such a row for a moment (40001). A heartbeat changes the
	// row, which T deletes (40001).
	AgentReservations
	// Leases: a reservation locks the name, and adds a row under a unique key or removes one (40001). A
	// renewal, a release and a removal by hand change the row (40001).
	Leases
	// Leavings are removed runs whose records are still there. Each remover takes one that no other has.
	Leavings
	// UsageDays: the usage of removed runs is settled after an empty change of the rows of usage_runs of
	// that name (40001).
	UsageDays

	// Values: a write locks the row, and changes it or adds one under a unique key (40001). So T also meets
	// a removal before it adds the value again.
	Values
	// Pins: a pin locks its thing first, and rewrites its row for a T that removes it (40001). Then it locks
	// the pin, which T adds or removes (40001). The name of an agent or of a paused run stands for what
	// retention removes there: entries that were put aside, and a history.
	Pins

	// The other kinds are serialisable.

	// FoundAgents: a call that finds an active agent, or creates one, reads all of them. Such calls lock the
	// row of the scope, so that they wait for each other before they have a snapshot.
	FoundAgents
	// Parts: removals of a thing in many transactions, and of what a dead owner left.
	Parts
	// NewRuntimes: there is no row to lock for a runtime that is opened first.
	NewRuntimes
	// Forks: a fork copies rows of a run that others change.
	Forks
	// Recoveries: a recovery changes several runs, which it finds by their owners.
	Recoveries
	// LiveScopes: all live runs of a scope are replaced at once.
	LiveScopes
)

// tables are the tables whose rows are announced, by kind.
var tables = [...]string{
	Runs: "runs", LiveRuns: "live_runs", Runtimes: "worker_runtimes", Checkpoints: "checkpoints",
	Agents: "agents", AgentReservations: "agent_reservations", Leases: "leases", Leavings: "run_leavings",
	UsageDays: "usage_days", Values: "state_values", Pins: "retention_pins", FoundAgents: "scopes",
}

// LockedTables are the tables of the kinds with row locks, in the order in which one transaction locks
// their rows. While a transaction has these tables alone, no call of those kinds runs.
func LockedTables() []string { return tables[:FoundAgents] }

// Serializable reports whether calls that change things of the kind run in serialisable transactions.
func (k Kind) Serializable() bool { return k > Pins }

// A Subject is what a call changes: rows of a kind, or a name that a row of the kind may get.
type Subject struct {
	kind  Kind
	query string // for a name, its format
	name  bool
	added bool
	free  bool
}

// Rows returns the rows of the kind's table that the query selects, as it stands without a FOR clause.
// They are locked in the order of the result. A query of another table panics.
func (k Kind) Rows(query string) Subject {
	_, from, _ := strings.Cut(query, "FROM ")
	if rest, is := strings.CutPrefix(from, tables[k]); !is || rest != "" && rest[0] != ' ' && rest[0] != '\n' {
		panic(fmt.Sprintf("the query selects no rows of %s: %s", tables[k], query))
	}
	return Subject{kind: k, query: query}
}

// Name returns a name, formatted with the arguments, for check-then-insert, when there is no row to lock
// yet. All programs that use a database must format it alike.
func (k Kind) Name(format string) Subject { return Subject{kind: k, query: format, name: true} }

// OrAdded returns the rows for a caller of FindToChange that adds one if there is none. If another
// transaction adds it meanwhile, a unique key fails, and the function runs again.
func (s Subject) OrAdded() Subject {
	s.added = true
	return s
}

// Free returns those of the rows that no other transaction has locked, for calls that share out work.
func (s Subject) Free() Subject {
	s.free = true
	return s
}

// LockRows makes a transaction that has run no statement one of a kind with row locks.
func (tx *Tx) LockRows() error {
	return tx.do(nil, func() error { tx.engine.LockRows(); return nil })
}

// WillChange announces a change of the subject, or of what belongs to it. Others that announce the same
// wait until the transaction ends. In a kind with row locks, later reads see the latest committed state.
func (tx *Tx) WillChange(s Subject, args ...any) error {
	return tx.do(args, func() error {
		if s.name {
			return tx.engine.LockName(tables[s.kind], fmt.Sprintf(s.query, args...))
		}
		return tx.engine.Lock(s.query, args)
	})
}

// WillTake is WillChange for a call that takes the rows from their holder and does not remove them: it also
// waits for the transactions that Keep them.
func (tx *Tx) WillTake(s Subject, args ...any) error {
	return tx.do(args, func() error { return tx.engine.Take(s.query, args) })
}

// DeferBegin is for a call that most often finds nothing to do. If deferred is true, its queries run before
// the transaction begins, until begin is called. They lock nothing and change nothing. The call locks what
// they found afterwards, and its change repeats it.
func (tx *Tx) DeferBegin() (deferred bool, begin func()) {
	begin = func() {}
	_ = tx.do(nil, func() error { deferred, begin = tx.engine.DeferBegin(); return nil })
	return deferred, begin
}

// Touch sends a change of a row to what it is. For a row that was only locked: a serialisable transaction
// that removes or changes it fails, and runs again. In a file it does nothing.
func (tx *Tx) Touch(query string, args ...any) error {
	if tx.SingleWriter() {
		return nil
	}
	return tx.Queue(query, args...)
}

// Keep keeps the rows from being removed, and from WillTake, until the transaction ends: the holder of a
// lease does its work after it. Renewals pass: others may change columns that are not in a key.
//
// Of a name, it keeps others from announcing a change until the transaction ends.
func (tx *Tx) Keep(s Subject, args ...any) error {
	return tx.do(args, func() error {
		if s.name {
			return tx.engine.HoldName(tables[s.kind], fmt.Sprintf(s.query, args...))
		}
		return tx.engine.Hold(s.query, args)
	})
}

// mostReplaced is how often a row may be replaced while its lock is awaited, before the row counts
// as readable but not lockable.
const mostReplaced = 100

// FindToChange is Find for a row that is announced as by WillChange: the row is the latest committed
// one, and stays so. If another row replaced it during the wait, that one is found. A row that a
// policy of the server lets this user read but not change is engine.ErrInvalid.
func (tx *Tx) FindToChange(dest any, s Subject, args ...any) (bool, error) {
	for range mostReplaced {
		found, err := tx.Find(dest, tx.engine.Locking(s.query, args, s.free), args...)
		if found || err != nil || s.added || s.free || tx.SingleWriter() {
			return found, err
		}
		// The row may be gone, and its replacement newer than the query.
		if found, err := tx.Find(dest, s.query, args...); !found || err != nil {
			return false, err
		}
	}
	return false, Invalid("let the user change what it may read: see the policies for row security of "+
		"the table", "a row is there that can't be locked")
}

// SelectToChange is Select for rows that are announced as by WillChange.
func (tx *Tx) SelectToChange(dest any, s Subject, args ...any) error {
	return tx.Select(dest, tx.engine.Locking(s.query, args, s.free), args...)
}

// SingleWriter reports whether this is the only writing transaction, so that one statement may read the
// last value and write the next. Otherwise those are two statements, and db.Write runs the
// transaction again if it conflicts with another.
func (tx *Tx) SingleWriter() bool { return tx.engine.SingleWriter() }

// Serializable reports whether the transaction is serialisable. So is one that runs alone.
func (tx *Tx) Serializable() bool { return tx.engine.Serializable() }
