// Package engine is the seam between package db and a database: what db asks of one, and the types
// that both sides use. Everything that only one database does stays behind it.
package engine

import (
	"context"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/machine"
)

// An Engine is an open database. Its methods are safe for concurrent use.
type Engine interface {
	// Write runs fn in a write transaction, commits it, and says how both ended. fn may run more than
	// once. A caller whose context ends before fn began is told so at once; later the context counts
	// no more. why is for people.
	Write(ctx context.Context, why string, fn func(Tx) error) callback.Outcome
	// WriteLocked is Write for a function that locks, by Tx.Lock, what it looks at and changes, before
	// it does. Where several write at once nothing else keeps them apart.
	WriteLocked(ctx context.Context, why string, fn func(Tx) error) callback.Outcome
	// Read runs fn in a read transaction: one snapshot.
	Read(ctx context.Context, why string, fn func(Rx) error) callback.Outcome
	// ReadSingle is Read for a function of one statement: each may see a snapshot of its own.
	ReadSingle(ctx context.Context, why string, fn func(Rx) error) callback.Outcome
	// Changes gives a channel that gets a value after every commit, by whomever; several may share one.
	Changes(ctx context.Context) (<-chan struct{}, error)

	// WriteEnd is WriteLocked for what ends something, so that it can be removed: on a full disk it
	// may use a part of what is kept back for Reclaim.
	WriteEnd(ctx context.Context, why string, fn func(Tx) error) callback.Outcome
	// Reclaim is Write for what removes data: on a full disk it may use what is kept back for it.
	Reclaim(ctx context.Context, why string, fn func(Tx) error) callback.Outcome

	// Catalog is the query that shows a person what views there are, or with the name of a table or a
	// view its columns.
	Catalog(relation string) string

	// GiveBack returns what deletions freed to the disk, in short turns of the writer.
	GiveBack(ctx context.Context) error

	Versions(ctx context.Context) (Versions, error)
	// Generation tells the databases apart that a place has had: it is drawn when one is made and when
	// one is restored from a backup. It stays while the database is open; 0 is one without.
	Generation() uint64
	// Clock reads the clock that leases run on, which all programs that use the database share.
	Clock() machine.BootTime
	// OneMachine reports whether all of them run on this machine.
	OneMachine() bool
	Check(ctx context.Context) (Checked, error)
	// Repair makes again what of the schema is not as the program makes it, rows excepted, and names it.
	Repair(ctx context.Context) ([]string, error)
	Stats(ctx context.Context) (Stats, error)
	Health(ctx context.Context) (Health, error)
	Work() Work
	Backup(ctx context.Context, dest string) error
	// Scrub leaves nothing in the files of what was deleted or changed.
	Scrub(ctx context.Context) error

	// Close waits for the calls under way, refuses new ones, and closes the database.
	Close() error
	// Interrupt ends the statements of the reads under way, and of those that come, and names the
	// calls that are not over.
	Interrupt() []string
}

// Rx is a read transaction. It is used by one goroutine, inside the function that got it.
type Rx interface {
	// Get reads one row into dest, a struct with db tags or a scalar; no row is ErrNotFound.
	Get(dest any, query string, args []any) error
	// Select reads all rows into dest, a pointer to a slice.
	Select(dest any, query string, args []any) error
	// Query reads rows one by one.
	Query(query string, args []any) (Rows, error)
	// QueryContext is Query for a statement that is not kept prepared, and is interrupted when ctx ends.
	QueryContext(ctx context.Context, query string, args []any) (Rows, error)

	// Prefetch says that a question is about to be asked. It may be asked with the next statement, and
	// its answer be kept for who asks the same first, until Exec changes something.
	Prefetch(query string, args []any) error
	// Prefetches is false where Exec dropped what was prefetched.
	Prefetches() bool

	// InOrder is what a query orders by that is to give rows in the order of a column which may hold
	// more than MaxID bytes.
	InOrder(column string) string

	// Relations are the tables and views, views first, by name.
	Relations() ([]Relation, error)

	// Owns reports whether id is this process, and Life what is known of the process of that number.
	Owns(id int64) (bool, error)
	Life(id int64) (Life, error)
}

// Tx is a write transaction.
type Tx interface {
	Rx
	// Exec changes rows and gives their number.
	Exec(query string, args []any) (int64, error)
	// Lock locks the rows that a query names until the transaction ends. What is read behind it is
	// what was committed last, in a function given to WriteLocked; in one given to Write, it is the
	// snapshot.
	Lock(query string, args []any) error
	// Hold keeps the rows that a query names from being removed until the transaction ends. Others may
	// change what is no key.
	Hold(query string, args []any) error
	// Locking is what a query ends with that locks the rows that it gives, as Lock does: "" where
	// there is one writer.
	Locking() string
	// LockName keeps others who lock the same name of a table waiting until the transaction ends,
	// before the next statement.
	LockName(table, name string) error
	// Queue is Exec for a change whose number nobody asks for. It may be sent with the next statement,
	// whose error then is its own, or with the commit.
	Queue(query string, args []any) error
	// Number gives the number of a new row of a table, which its key counts. Expect says how many are
	// about to be asked for.
	Number(table string) (int64, error)
	Expect(table string, rows int)
	// Drawn says that n was drawn as the number of a row of a table, or higher than any is: it is
	// drawn for good, also where the transaction is undone. Drawing gives an expression in SQL for a
	// number of a table that is not less than its rows' and than any that was Drawn in a transaction
	// that was undone; where several draw at once each gets another one. key is the table's.
	Drawn(table string, n int64)
	Drawing(table, key string) string
	// Analyze has the engine look at what the tables hold that have grown much since it did, where its
	// plans depend on that.
	Analyze() error
	// ExecAndCommit is Exec for the only change of a transaction, which may be committed with it: where it
	// changed something the function is to return nil at once.
	ExecAndCommit(query string, args []any) (int64, error)
	// Savepoint begins a part that can be undone alone, inside the parts that are open.
	Savepoint() (Savepoint, error)
	// OnCommit has fn run after the commit, before Write returns, and OnRollback when the transaction,
	// or the savepoint it is in, is undone.
	OnCommit(fn func())
	OnRollback(fn func())

	// SingleWriter reports whether no other transaction writes while this one does: what a statement reads
	// while it writes is the last there is then. Otherwise who takes the next of something reads
	// first, and a transaction that met another is run again.
	SingleWriter() bool

	// AliveSQL gives a condition in SQL that is true where the owner whose number a column holds is known
	// to live. Where the database can't tell by itself, it is true of none.
	AliveSQL(column string) string

	// Owner is the number of this process, which is made at the first call.
	Owner() (int64, error)
	// ForgetDeadOwners deletes rows of processes that are gone and that nothing refers to: it looks at
	// some behind the number after and, where that was the end, at those from the first up to after.
	// last is the last one, where the next call goes on. more is false where the end was reached. 0 is
	// anywhere.
	ForgetDeadOwners(after int64) (last int64, more bool, err error)
}

// BeforeOwners is less than the number of any owner.
const BeforeOwners int64 = -1

// A Savepoint is ended once, by one of these. Where it isn't the innermost the transaction takes no
// more, and fails.
type Savepoint interface {
	Release() error
	RollBack() error
}

// Rows are the rows of a query. They are closed at the latest when the transaction ends.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	ScanStruct(dest any) error
	Columns() ([]string, error)
	// Err is what ended the rows early.
	Err() error
	Close() error
}

// Life is what can be said about whether a process still runs.
type Life int

// The answers.
const (
	LifeUnknown Life = iota // it can't be asked
	LifeAlive               // it runs, or is stopped
	LifeDead                // it is gone, for ever
)

// Versions are what a database says of itself. All are 0 where there is no schema yet.
type Versions struct {
	Schema    int64 `db:"schema"`
	MinReader int64 `db:"min_reader"` // lowest schema version of a program that may read it
	MinWriter int64 `db:"min_writer"` // lowest schema version of a program that may write it
	// Generation is as Engine.Generation says.
	Generation int64 `db:"generation"`
	// ViewsDigest tells whose views the database has; "" where it has none.
	ViewsDigest string `db:"views_digest"`
}

// A Move is a change of a database's schema.
type Move struct {
	From, To int64
	Backup   string      // path of the copy made before; "" where no row was removed or rewritten
	Tables   []TableMove // whose rows became more or fewer, of those that were there before
}

// TableMove is the number of rows of a table before and after; After is -1 where it is gone.
type TableMove struct {
	Name          string
	Before, After int64
}

// A Problem is one thing that a check found.
type Problem struct {
	Check  string
	Detail string
	Table  string // where it is one row's
	Row    string // its key
}

// Checked is what a check found and looked at.
type Checked struct {
	Problems  []Problem
	Checksums []Checksums
}

// Salvaged is what became of a damaged database.
type Salvaged struct {
	Schema  int64 // its schema version
	Pages   int
	Damaged int // pages that lead to others, or hold rows, and can't be read
	Tables  []SalvagedTable
	Notes   []string
}

// SalvagedTable is what became of the rows of a table.
type SalvagedTable struct {
	Table   string
	Taken   int64
	Suspect int64  // whose checksum or types are wrong
	Aside   int64  // that were read and have no place in the new file
	Lost    *int64 // that could not be read; nil: nobody can count them
}

// Checksums counts the rows of a table that has checksums.
type Checksums struct {
	Table   string
	Rows    int64
	Without int64 // that have none
}

// Stats are the sizes of a database.
type Stats struct {
	Versions
	Engine    string // the database's own version
	CreatedAt time.Time
	FileBytes int64
	WALBytes  int64
	PageSize  int64
	Pages     int64
	FreePages int64
	Tables    []TableStats
}

// Work is what a handle has done since it was opened.
type Work struct {
	Callers, Commits               int64 // whose writes were committed, and in how many commits
	Checkpoints, CheckpointsFailed int64
	WALRestarts, WALRestartsFailed int64
	LongestRead                    string
	LongestReadFor                 time.Duration
}

// TableStats is the number of rows in one table.
type TableStats struct {
	Name string
	Rows int64
}

// Health is how a database is doing at the moment.
type Health struct {
	Writing        string        // the call that has this handle's writer; "" when it is idle
	Waiting        int           // calls that wait for it
	HeldBy         []int         // other processes that have what they wait for, where the system tells
	LongestRead    string        // the read of this handle that began first; "" when there is none
	LongestReadFor time.Duration // how long it has been going on
	Readers        []int         // other processes that read at the moment, where the system tells
	FileBytes      int64
	WALBytes       int64
	PageSize       int64
	Pages          int64
	FreePages      int64 // that go back to the disk
	DiskFree       int64 // bytes
	Full           bool  // the disk was full, and only ends and deletions are let through

	Server *Server // nil of a file
}
