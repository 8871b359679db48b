// Package engine is the interface between package db and a database: what db requires of one, and
// the types that both sides use. Everything that only one database does stays behind it.
package engine

import (
	"context"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/machine"
)

// An Engine is an open database. Its methods are safe for concurrent use.
type Engine interface {
	// Write runs fn in a write transaction, commits it, and reports how both ended. fn may run more
	// than once. A caller whose context ends before fn began returns at once; after that the
	// context has no effect. why is for people.
	Write(ctx context.Context, why string, fn func(Tx) error) callback.Outcome
	// WriteLocked is Write for a function that locks, by Tx.Lock, the rows that it reads and
	// changes, before it does so. With several concurrent writers nothing else keeps them apart.
	WriteLocked(ctx context.Context, why string, fn func(Tx) error) callback.Outcome
	// Read runs fn in a read transaction: one snapshot.
	Read(ctx context.Context, why string, fn func(Rx) error) callback.Outcome
	// ReadSingle is Read for a function of one statement: each statement may see a snapshot of its
	// own.
	ReadSingle(ctx context.Context, why string, fn func(Rx) error) callback.Outcome
	// Watch returns a feed of the commits of any process, from now on, which ends with ctx. It tells
	// which rows of the stream were touched.
	Watch(ctx context.Context, stream Stream) (*Feed, error)

	// WriteEnd is WriteLocked for a change that ends something, so that it can be removed: on a
	// full disk it may use a part of Reclaim's reserve.
	WriteEnd(ctx context.Context, why string, fn func(Tx) error) callback.Outcome
	// Reclaim is Write for a function that removes data: on a full disk it may use the reserve.
	Reclaim(ctx context.Context, why string, fn func(Tx) error) callback.Outcome

	// Catalog returns the query that lists the views for a person or, for the name of a table or a
	// view, its columns.
	Catalog(relation string) string

	// GiveBack returns the space of deleted rows to the disk, in short turns of the writer.
	GiveBack(ctx context.Context) error

	Versions(ctx context.Context) (Versions, error)
	// Generation distinguishes the databases that have had the same place: it is drawn when a
	// database is created and when it is restored from a backup. It is constant while the database
	// is open; 0 is a database without one.
	Generation() uint64
	// Clock reads the clock that leases run on, which all programs that use the database share.
	Clock() machine.BootTime
	// OneMachine reports whether all programs that use the database run on this machine.
	OneMachine() bool
	Check(ctx context.Context) (Checked, error)
	// Repair restores what differs from the program's own schema, except rows, and returns its
	// names.
	Repair(ctx context.Context) ([]string, error)
	Stats(ctx context.Context) (Stats, error)
	Health(ctx context.Context) (Health, error)
	Work() Work
	Backup(ctx context.Context, dest string) error
	// Scrub removes all deleted and changed content from the database's files.
	Scrub(ctx context.Context) error

	// Close waits for the calls in progress, refuses new ones, and closes the database.
	Close() error
	// Interrupt ends the statements of current and later reads, and returns the names of the calls
	// that have not ended.
	Interrupt() []string
}

// Closed is a database that no handle has open.
type Closed interface {
	// Migrate migrates the database to the schema version of its settings.
	Migrate(ctx context.Context) (Move, error)
}

// ClosedFile is a file that no handle has open.
type ClosedFile interface {
	Closed
	// Rehearse does to a copy what Migrate would do to the file.
	Rehearse(ctx context.Context) (Move, error)
	// Compact replaces the file with a checked copy that has no free space.
	Compact(ctx context.Context) (Compacted, error)
	// Restore replaces the file with a checked copy of the backup.
	Restore(ctx context.Context, backup string) (Restored, error)
	// Salvage copies what can be read of the file into a new one at to. It calls finish with the
	// new file before that gets its name.
	Salvage(ctx context.Context, to string, keepSuspect bool, finish func(path string) error) (Salvaged, error)
}

// Compacted is the result of Compact.
type Compacted struct {
	Path   string `json:"path"`   // the file, absolute
	Before int64  `json:"before"` // bytes of the file and its -wal before
	After  int64  `json:"after"`  // the same now
}

// Restored is the result of Restore.
type Restored struct {
	Path   string // the file, absolute
	Kept   string // the new path of the old file; "" if there was none
	Schema int64  // of the file: that of the backup
}

// Rx is a read transaction. Only one goroutine uses it, inside the function that it was passed to.
type Rx interface {
	// Get reads one row into dest, a struct with db tags or a scalar; no row is ErrNotFound.
	Get(dest any, query string, args []any) error
	// Select reads all rows into dest, a pointer to a slice.
	Select(dest any, query string, args []any) error
	// Query reads rows one by one.
	Query(query string, args []any) (Rows, error)
	// QueryContext is Query for a statement that is not kept prepared, and that the end of ctx
	// interrupts.
	QueryContext(ctx context.Context, query string, args []any) (Rows, error)

	// Prefetch announces a query. The engine may send it with the next statement and keep the
	// answer for the first caller of the same query, until Exec changes something.
	Prefetch(query string, args []any) error
	// Prefetches reports whether prefetched answers are still kept: false once Exec has dropped
	// them.
	Prefetches() bool

	// InOrder returns the ORDER BY terms for the order of a column that may hold more than MaxID
	// bytes.
	InOrder(column string) string

	// Relations returns the tables and views, views first, by name.
	Relations() ([]Relation, error)

	// Owns reports whether id is this process, and Life whether the process with that number is
	// alive.
	Owns(id int64) (bool, error)
	Life(id int64) (Life, error)
}

// Tx is a write transaction.
type Tx interface {
	Rx
	// Exec changes rows and returns their number.
	Exec(query string, args []any) (int64, error)
	// LockRows makes the transaction of a Write or Reclaim that has run no statement one of WriteLocked.
	LockRows()
	// Lock locks the rows that a query names until the transaction ends. In a function given to
	// WriteLocked, later statements read what was committed last; in one given to Write, they read
	// the snapshot.
	Lock(query string, args []any) error
	// Take is Lock that also waits for the transactions that Hold the rows.
	Take(query string, args []any) error
	// Hold keeps the rows that a query names from being removed until the transaction ends. Other
	// transactions may change columns that are not in a key.
	Hold(query string, args []any) error
	// Locking returns the query as one that locks the rows that it returns, as Lock does. The arguments
	// are those with which it is run next. free: only rows that no other transaction has locked.
	Locking(query string, args []any, free bool) string
	// DeferBegin has the next queries run before the transaction begins, until begin is called. deferred is
	// false if they would see something else there, or if no message is saved: then nothing changes.
	DeferBegin() (deferred bool, begin func())
	// LockName locks a name in a table until the transaction ends, before the next statement.
	LockName(table, name string) error
	// HoldName is LockName for transactions that need not wait for each other, but for those of LockName.
	HoldName(table, name string) error
	// Queue is Exec for a change whose count the caller does not need. It may be sent with the next
	// statement, which then returns its error, or with the commit.
	Queue(query string, args []any) error
	// Number draws the number of a new row of a table whose key is counted. Expect announces how
	// many numbers are about to be drawn.
	Number(table string) (int64, error)
	Expect(table string, rows int)
	// Drawn records that n was drawn as the number of a row of a table, or is higher than any
	// drawn: it stays drawn even if the transaction is undone. Drawing returns an SQL expression
	// for a number of a table that is not less than those of its rows, nor than any number Drawn in
	// a transaction that was undone. Concurrent transactions each get a different number. key is
	// the table's key.
	Drawn(table string, n int64)
	Drawing(table, key string) string
	// Analyze updates the planner's statistics of tables that have grown much, if the engine's
	// plans depend on them.
	Analyze() error
	// ExecAndCommit is Exec for the only change of a transaction, which may be committed with it:
	// if it changed a row, the function must return nil at once.
	ExecAndCommit(query string, args []any) (int64, error)
	// Savepoint begins a part that can be undone alone, inside the parts that are open.
	Savepoint() (Savepoint, error)
	// OnCommit runs fn after the commit, before Write returns. OnRollback runs fn when the
	// transaction, or the savepoint that it is in, is undone.
	OnCommit(fn func())
	OnRollback(fn func())

	// SingleWriter reports whether no other transaction writes while this one does. Its statements
	// then read the latest state. Otherwise a transaction that takes the next number reads first,
	// and one that collides with another runs again.
	SingleWriter() bool
	// Serializable reports whether the transaction reads one snapshot, and is undone if another such
	// transaction changed what it read.
	Serializable() bool

	// AliveSQL returns an SQL condition that is true if the owner in a column is known to be alive.
	// If the database can't tell by itself, the condition is always false.
	AliveSQL(column string) string

	// HoldsSQL returns an SQL condition that is true of a row with the columns of a lease if its time is not
	// over and its owner is alive. It is "" if the database can't tell by itself.
	HoldsSQL() string

	// Owner returns the number of this process, which the first call creates.
	Owner() (int64, error)
	// ForgetDeadOwners deletes rows of dead processes that nothing refers to. It examines some rows
	// after the number after and, at the end, wraps around to the first ones up to after. last is
	// where the next call continues. more is false at the end. If after is 0, it starts anywhere.
	ForgetDeadOwners(after int64) (last int64, more bool, err error)
}

// BeforeOwners is less than the number of any owner.
const BeforeOwners int64 = -1

// A Savepoint is ended once, by one of its methods. If it isn't the innermost, the transaction
// accepts nothing more, and fails.
type Savepoint interface {
	Release() error
	RollBack() error
}

// Rows are the rows of a query. They are closed at the end of the transaction, if not before.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	ScanStruct(dest any) error
	Columns() ([]string, error)
	// Err returns what ended the rows early.
	Err() error
	Close() error
}

// Life is what is known about whether a process still runs.
type Life int

// The values of Life.
const (
	LifeUnknown Life = iota // it can't be found out
	LifeAlive               // it runs, or is stopped
	LifeDead                // it is gone for good
)

// Versions are the versions that a database records. All are 0 if it has no schema yet.
type Versions struct {
	Schema    int64 `db:"schema"`
	MinReader int64 `db:"min_reader"` // lowest schema version of a program that may read it
	MinWriter int64 `db:"min_writer"` // lowest schema version of a program that may write it
	// Generation is the one of Engine.Generation.
	Generation int64 `db:"generation"`
	// ViewsDigest identifies the program's views in the database; "" if it has none.
	ViewsDigest string `db:"views_digest"`
}

// A Move is a change of a database's schema.
type Move struct {
	From, To int64 // schema versions; From is 0 for a new file
	// Backup is the path of the checked copy that was made before rows were removed or rewritten; ""
	// if none was made. Only the copy of the last such migration is kept.
	Backup string
	Tables []TableMove // that existed before and have more or fewer rows now
}

// TableMove is the number of rows of a table before and after a Move.
type TableMove struct {
	Name   string `json:"name"`   // of the table
	Before int64  `json:"before"` // rows before
	After  int64  `json:"after"`  // rows afterwards; -1 where the table is gone
}

// A Problem is one thing that a check found.
type Problem struct {
	Check  string
	Detail string
	Table  string // if the problem is that of one row
	Row    string // its key
}

// Checked is the result of a check.
type Checked struct {
	Problems  []Problem
	Checksums []Checksums
}

// Salvaged is the result of a salvage.
type Salvaged struct {
	Schema  int64 // its schema version
	Pages   int
	Damaged int // pages that lead to others, or hold rows, and can't be read
	Tables  []SalvagedTable
	Notes   []string
}

// SalvagedTable counts the rows of a table.
type SalvagedTable struct {
	Table   string
	Taken   int64 // rows in the new file
	Suspect int64 // rows with another checksum, or with values of other types, than they should have
	// rows that were read but don't fit into the new file: they are in its table salvage_leftovers,
	// with the reason
	Aside int64
	// rows that could not be read; nil: unknown, because a page that may have held some is damaged
	Lost *int64
}

// Checksums counts the rows of a table that have a checksum. A row has none if it was last written
// before checksums existed, or if the user set the column to NULL to declare its contents right.
type Checksums struct {
	Table   string `json:"table"`   // its name
	Rows    int64  `json:"rows"`    // all of its rows
	Without int64  `json:"without"` // those that have no checksum
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
	Callers, Commits               int64 // calls whose writes were committed, and the commits
	Checkpoints, CheckpointsFailed int64
	WALRestarts, WALRestartsFailed int64
	LongestRead                    string
	LongestReadFor                 time.Duration
}

// TableStats is the number of rows in a table.
type TableStats struct {
	Name string
	Rows int64
}

// Health is the present state of a database.
type Health struct {
	Writing        string        // the call that has this handle's writer; "" if it is idle
	Waiting        int           // calls that wait for the writer
	HeldBy         []int         // other processes that hold what these wait for, if the system reports them
	LongestRead    string        // this handle's oldest read; "" if there is none
	LongestReadFor time.Duration // how long that read has been running
	Readers        []int         // other processes that read at the moment, if the system reports them
	FileBytes      int64
	WALBytes       int64
	PageSize       int64
	Pages          int64
	FreePages      int64 // that will be returned to the disk
	DiskFree       int64 // bytes
	Full           bool  // the disk was full, and only ends and deletions are let through

	Server *Server // nil for a file
}
