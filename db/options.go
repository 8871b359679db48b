package db

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/sqlite"
)

// Synchronous says how much of a commit the disk must hold before Write returns.
type Synchronous int

const (
	// SyncFull waits for the disk at every commit (with F_FULLFSYNC on macOS): a returned Write
	// survives a power cut. The default.
	SyncFull Synchronous = iota
	// SyncNormal waits at checkpoints only: a power cut may take the last commits, a killed process
	// none. On a server it is synchronous_commit=off: what a crash of the server, or a failover,
	// takes.
	SyncNormal
)

// Options are the choices of Open. The zero value is the default.
type Options struct {
	// Synchronous is SyncFull unless told otherwise.
	Synchronous Synchronous
	// Readers is the largest number of reading connections; 0 means the number of cores, and at least
	// 2, or 8 on a server.
	Readers int
	// ReadOnly opens without migrating, creating or writing; Write returns ErrInvalid.
	ReadOnly bool
	// MustExist makes Open return ErrNotFound for a path where nothing is, in place of creating the file.
	MustExist bool
	// AnySchema, with ReadOnly, also opens a file whose schema is older than this program's; the
	// stores can't read it.
	AnySchema bool
	// KeepSchema makes Open return ErrInvalid for a file whose schema is older than this program's, in
	// place of migrating it. A file that is missing is still made.
	KeepSchema bool
	// SchemaVersion is where a migration stops; 0 means this program's version, and another one than
	// this program knows is ErrInvalid. A file that is beyond it stays as it is.
	SchemaVersion int64
	// AllowNetworkFS opens a file on NFS, SMB or 9p all the same. WAL needs shared memory on one host:
	// with two hosts on one file it will be corrupted (sqlite.org/wal.html, "Overview").
	AllowNetworkFS bool
	// AllowLinks opens for writing a file that has a second name: a hard link, a mount of the file
	// alone, or another path under which a process has it open. SQLite keeps the WAL beside the name,
	// so writing under two of them corrupts the file (sqlite.org/howtocorrupt.html, section 2.5); it
	// is for who knows that only one is ever used.
	AllowLinks bool
	// LockTimeout bounds the wait for other handles when a migration, or a swap of the file, needs it
	// alone; 0 means 10 s. Writers wait as long as their own contexts let them.
	LockTimeout time.Duration
	// Now is the clock; nil means time.Now. Every row of one transaction gets the same reading.
	Now func() time.Time
	// BootTime is the clock of leases; nil means the machine's (ReadBootTime) for a file, and that of
	// a server for its databases, as this process estimates it. A transaction that needs it reads it
	// once.
	BootTime func() BootTime
	// Observe, when set, is told about every transaction after it ended, on the goroutine of its
	// caller: also of one that never began, because the wait for it ended, and of one whose function
	// panicked (Err is the *Panic) or left by runtime.Goexit. A call of the same handle from inside it
	// is ErrInvalid at once. When Observe panics, the call that it is told of returns a *Panic; what
	// that call did stays done.
	Observe func(Observation)

	readersUnsaid bool // Readers is the default
	mover         bool // it is opened to move its rows, or rows into it: one that is shut too

	// ladder replaces the program's own ladder of schema versions; tests only.
	ladder *sqlite.Ladder
}

// Observation is what Options.Observe gets.
type Observation struct {
	Context context.Context // the caller's, for what travels in it: a trace, a request's id
	Why     string          // as given to Read or Write
	Write   bool            // Write, not Read
	Wait    time.Duration   // until the function began
	Run     time.Duration   // the function and, for Write, its commit, with what those ran who shared it
	Group   int             // callers who shared the commit, this one among them; 0 where nothing was committed
	Commit  time.Duration   // of Run, the commit alone: the disk
	Err     error           // what the caller got; nil means done
}

func (o Options) check(path string) error {
	switch {
	case o.ReadOnly && path == memoryPath:
		return invalid("open", "a database in memory can't be read-only")
	case o.Synchronous != SyncFull && o.Synchronous != SyncNormal:
		return invalid("open", fmt.Sprintf("synchronous %d is neither SyncFull nor SyncNormal", o.Synchronous))
	case o.Readers < 0:
		return invalid("open", fmt.Sprintf("readers is %d; use 0 for the default", o.Readers))
	case o.SchemaVersion < 0 || o.SchemaVersion > o.known().Last().Version:
		return &Error{
			Op: "open", Hint: fmt.Sprintf("this program knows the schema versions 1 to %d; 0 is the last",
				o.known().Last().Version),
			Err: fmt.Errorf("%w: schema version %d", ErrInvalid, o.SchemaVersion),
		}
	case o.LockTimeout < 0:
		return invalid("open", fmt.Sprintf("lock timeout is %v; use 0 for the default of 10 s", o.LockTimeout))
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Readers == 0 {
		o.readersUnsaid = true
		o.Readers = max(2, runtime.GOMAXPROCS(0))
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.ladder = o.known()
	if o.SchemaVersion == 0 {
		o.SchemaVersion = o.ladder.Last().Version
	}
	return o
}

// known are the schema versions that this program knows.
func (o Options) known() *sqlite.Ladder {
	if o.ladder == nil {
		return sqlite.ProgramLadder()
	}
	return o.ladder
}

func (o Options) sqlite(callbacks *callback.Callbacks) sqlite.Config {
	synchronous := sqlite.Full
	if o.Synchronous == SyncNormal {
		synchronous = sqlite.Normal
	}
	return sqlite.Config{
		Synchronous: synchronous, Readers: o.Readers, ReadOnly: o.ReadOnly, MustExist: o.MustExist,
		AnySchema: o.AnySchema, KeepSchema: o.KeepSchema,
		SchemaVersion: o.SchemaVersion, AllowNetworkFS: o.AllowNetworkFS, AllowLinks: o.AllowLinks,
		LockTimeout: o.LockTimeout, Now: o.Now,
		Observed: o.Observe != nil, Ladder: o.ladder, Mover: o.mover, Callbacks: callbacks,
	}
}

func invalid(op, why string) error {
	return &Error{Op: op, Err: fmt.Errorf("%w: %s", ErrInvalid, why)}
}
