package db

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/machine"
	"selvedge/internal/sqlite"
)

// Synchronous is how much of a commit must be on the disk before Write returns.
type Synchronous int

const (
	// SyncFull syncs the disk at every commit (with F_FULLFSYNC on macOS): a returned Write survives a
	// power cut. The default.
	SyncFull Synchronous = iota
	// SyncNormal syncs at checkpoints only: a power cut may lose the last commits, a killed process
	// none. On a server it is synchronous_commit=off: a crash of the server, or a failover, may lose
	// them.
	SyncNormal
)

// Options are the options of Open. The zero value is the default.
type Options struct {
	// Synchronous is SyncFull by default.
	Synchronous Synchronous
	// Readers is the largest number of reading connections, up to 1,000; 0 means the number of cores,
	// but at least 2, or 8 on a server.
	Readers int
	// Writers is the largest number of writing connections to a server, up to 1,000; 0 means 8. A file
	// has one.
	Writers int

	// Password, Dial and TLS are for a server, and replace what its address and the environment say;
	// a file has no use for them. Password is asked for each new connection, so it may return a secret
	// that is rotated, or a token that expires. Dial gets the host's name as the address has it, and
	// connects to it, or to a proxy before it.
	// With TLS, no connection over TCP goes without it; an empty ServerName means the host's name.
	// Password and Dial may be called on any goroutine. If one of them fails, panics or calls
	// runtime.Goexit, the call that needs the connection fails.
	Password func(ctx context.Context) (string, error)
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	TLS      *tls.Config

	// ReadOnly opens without migrating, creating or writing; Write returns ErrInvalid.
	ReadOnly bool
	// MustExist makes Open return ErrNotFound if there is no file, instead of creating it.
	MustExist bool
	// AnySchema, with ReadOnly, also opens a file whose schema is older than this program's; the
	// stores can't read it.
	AnySchema bool
	// KeepSchema makes Open return ErrInvalid for a file whose schema is older than this program's,
	// instead of migrating it. A missing file is still created.
	KeepSchema bool
	// SchemaVersion is where a migration stops; 0 means this program's version. A version unknown to
	// this program is ErrInvalid. A file beyond it stays as it is.
	SchemaVersion int64
	// AllowNetworkFS allows a file on NFS, SMB or 9p. WAL needs shared memory on one host: two hosts
	// on one file will corrupt it (sqlite.org/wal.html, "Overview").
	AllowNetworkFS bool
	// AllowLinks allows writing to a file that has a second name: a hard link, a mount of the file
	// alone, or another path under which a process has it open. SQLite keeps the WAL beside the name,
	// so writing under two names corrupts the file (sqlite.org/howtocorrupt.html, section 2.5). Use it
	// only if one name is ever used.
	AllowLinks bool
	// LockTimeout bounds the wait for other handles when a migration, or a replacement of the file,
	// needs it exclusively; 0 means 10 s. Writers wait as long as their own contexts allow.
	LockTimeout time.Duration
	// Now is the clock; nil means time.Now. All rows of a transaction have the same reading.
	Now func() time.Time
	// BootTime is the clock of leases; nil means the machine's for a file, and for a
	// server the server's, as this process estimates it. A transaction reads it at most once.
	BootTime func() BootTime
	// Observe, if not nil, is called for every transaction after it ended, on its caller's goroutine:
	// also for one that never began because its wait ended, and for one with a function that panicked
	// (Err is the *Panic) or called runtime.Goexit. Calls of the same handle from Observe are
	// ErrInvalid at once. If Observe panics, the observed call returns a *Panic; its changes stay.
	Observe func(Observation)

	readersUnsaid bool // Readers is the default
	forMove       bool // opened to move rows from or to it, even if the database is closed to writers

	// ladder replaces the program's schema versions; tests only.
	ladder *sqlite.Ladder
}

// A BootTime is a moment on the clock that leases use: it starts with the machine, runs while the
// machine sleeps, and can't be set.
type BootTime = machine.BootTime

// Observation is what Options.Observe receives.
type Observation struct {
	Context context.Context // the caller's, with its values: a trace, a request's id
	Why     string          // as passed to Read or Write
	Write   bool            // Write, not Read
	Wait    time.Duration   // until the function began
	Run     time.Duration   // the function and, for Write, its commit and the functions that shared it
	Group   int             // callers that shared the commit, including this one; 0 without a commit
	Commit  time.Duration   // of Run, the commit alone: the disk
	Err     error           // that the call returned; nil means success
}

// maxConnections bounds each pool. A full connection takes 5 MB.
const maxConnections = 1000

func (o Options) check(path string) error {
	switch {
	case o.ReadOnly && path == memoryPath:
		return invalid("open", "a database in memory can't be read-only")
	case o.Synchronous != SyncFull && o.Synchronous != SyncNormal:
		return invalid("open", fmt.Sprintf("synchronous %d is neither SyncFull nor SyncNormal", o.Synchronous))
	case strings.HasPrefix(path, "file:"):
		return invalid("open", "the path is a URI of SQLite; give the path alone, and settings in Options")
	case min(o.Readers, o.Writers) < 0 || max(o.Readers, o.Writers) > maxConnections:
		return invalid("open", fmt.Sprintf("readers is %d and writers is %d; at most %d are possible, and 0 is "+
			"the default", o.Readers, o.Writers, maxConnections))
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
	return sqlite.Config{
		Lazy: o.Synchronous == SyncNormal, Readers: o.Readers, ReadOnly: o.ReadOnly, MustExist: o.MustExist,
		AnySchema: o.AnySchema, KeepSchema: o.KeepSchema,
		SchemaVersion: o.SchemaVersion, AllowNetworkFS: o.AllowNetworkFS, AllowLinks: o.AllowLinks,
		LockTimeout: o.LockTimeout, Now: o.Now,
		Observed: o.Observe != nil, Ladder: o.ladder, Mover: o.forMove, Callbacks: callbacks,
	}
}

func invalid(op, why string) error {
	return &Error{Op: op, Err: fmt.Errorf("%w: %s", ErrInvalid, why)}
}
