package db

import (
	"context"
	"sync/atomic"
	"time"

	"selvedge/internal/engine"
)

// Stats are the contents and sizes of a file. In memory, FileBytes is 0.
type Stats struct {
	Path      string `json:"path"`       // the file, absolute
	Schema    int64  `json:"schema"`     // schema version of the file
	MinReader int64  `json:"min_reader"` // lowest schema version of a program that may read the file
	MinWriter int64  `json:"min_writer"` // lowest schema version of a program that may write it
	// what keeps it, with its version: the SQLite in this program, or the PostgreSQL of the server
	Engine    string    `json:"engine"`
	CreatedAt time.Time `json:"created_at"` // when the file was made, RFC 3339, UTC
	// size of the file; on a server of its tables with their indexes
	FileBytes int64 `json:"file_bytes"`
	// size of its -wal, which stays allocated while the file is in use; 0 on a server, where it is that of
	// all databases
	WALBytes  int64        `json:"wal_bytes"`
	PageSize  int64        `json:"page_size"`  // bytes
	Pages     int64        `json:"pages"`      // pages of the file
	FreePages int64        `json:"free_pages"` // pages that hold nothing; 0 on a server
	Tables    []TableStats `json:"tables"`     // every table, by name
}

// Work is what a handle has done since it was opened, and its current state: the source of a
// program's metrics.
type Work struct {
	Writes      int64         // committed calls of Write and Reclaim
	Commits     int64         // commits of these calls
	Waited      time.Duration // total wait of the functions passed to Write, until they began
	LongestWait time.Duration

	// Checkpoints counts how often a commit that found 16 MB in the WAL moved it into the file, as far
	// as readers allowed; CheckpointsFailed counts how often the disk, or another process's
	// checkpoint, prevented that. The commit does not wait for most of it, and is not affected.
	Checkpoints       int64
	CheckpointsFailed int64
	// WALRestarts counts how often the WAL was restarted from its beginning at the writer's request;
	// WALRestartsFailed counts how often a reader prevented that.
	WALRestarts       int64
	WALRestartsFailed int64

	OldestRead    string        // why of the longest read in progress; "" if there is none
	OldestReadFor time.Duration // how long it has been in progress

	Followers int // streams that are followed, and lists of them
	// followers, inside their loops, with unread items
	CatchingUp int
	// how long the follower furthest behind has had unread items; 0 if none has any
	LongestBehind time.Duration

	PrunedBytes int64 // removed by Prune of all stores, about; GC of runs is not counted
}

// Work returns the counters without touching the file: cheap enough for every scrape.
func (d *DB) Work() Work {
	if d.store.Engine == nil {
		return Work{}
	}
	e := d.store.Engine.Work()
	w := Work{
		Writes: e.Callers, Commits: e.Commits, Checkpoints: e.Checkpoints, CheckpointsFailed: e.CheckpointsFailed,
		WALRestarts: e.WALRestarts, WALRestartsFailed: e.WALRestartsFailed,
		OldestRead: e.LongestRead, OldestReadFor: e.LongestReadFor,
		Waited: time.Duration(d.work.wait.Load()), LongestWait: time.Duration(d.work.longest.Load()),
		PrunedBytes: d.store.Pruned.Load(),
	}
	if f := d.store.Followers(nil); f != nil {
		w.Followers, w.CatchingUp, w.LongestBehind = f.Count()
	}
	return w
}

// work is what package db itself counts.
type work struct{ wait, longest atomic.Int64 }

func (w *work) waited(d time.Duration) {
	w.wait.Add(int64(d))
	for old := w.longest.Load(); int64(d) > old &&
		!w.longest.CompareAndSwap(old, int64(d)); old = w.longest.Load() {
		continue
	}
}

// TableStats is the number of rows of a table.
type TableStats struct {
	Name string `json:"name"` // of the table
	Rows int64  `json:"rows"` // how many it has, in all scopes
}

// Schema is the schema version of a file, and the programs it admits.
type Schema struct {
	Version   int64 // 0 in a file without a schema
	MinReader int64 // lowest schema version of a program that may read it
	MinWriter int64 // lowest schema version of a program that may write it; math.MaxInt64 if Moved
	Moved     bool  // its rows were moved, or a move is in progress: it can't be written
	// MovedTo is the path or the address of the other database, without secrets; "" if not Moved.
	MovedTo string
}

// Schema reads the schema version of the file.
func (d *DB) Schema(ctx context.Context) (Schema, error) {
	if err := d.ready("read the schema version"); err != nil {
		return Schema{}, err
	}
	have, err := d.store.Engine.Versions(ctx)
	s := Schema{have.Schema, have.MinReader, have.MinWriter, have.Shut(), ""}
	if err == nil && s.Moved {
		err = d.Read(ctx, "read the last move", func(rx *Rx) error {
			_, err := rx.Find(&s.MovedTo, sqlMovedTo)
			return err
		})
	}
	return s, wrap("read the schema version", err)
}

const sqlMovedTo = `SELECT place FROM moves ORDER BY id DESC LIMIT 1`

// Stats reads the sizes and counts the rows of every table.
func (d *DB) Stats(ctx context.Context) (Stats, error) {
	if err := d.ready("stats"); err != nil {
		return Stats{}, err
	}
	got, err := d.store.Engine.Stats(ctx)
	s := Stats{
		Path: d.store.Path, Schema: got.Schema, MinReader: got.MinReader, MinWriter: got.MinWriter,
		Engine: got.Engine, CreatedAt: got.CreatedAt,
		FileBytes: got.FileBytes, WALBytes: got.WALBytes, PageSize: got.PageSize, Pages: got.Pages,
		FreePages: got.FreePages,
	}
	for _, t := range got.Tables {
		s.Tables = append(s.Tables, TableStats(t))
	}
	return s, wrap("stats", err)
}

// Health is the current state of the file, with the calls that block others.
type Health struct {
	Writing string // why of the call that has this handle's writer; "" if it is idle
	Waiting int    // calls of this handle that wait for the writer
	// process ids of the others that hold it; nil if no call waits, or the system doesn't report them
	HeldBy []int

	// why of this handle's oldest read; "" if there is none. The WAL grows while it runs
	LongestRead    string
	LongestReadFor time.Duration // how long it has been in progress
	// process ids of others that are reading; nil if the system doesn't report them
	Readers []int

	FileBytes int64
	WALBytes  int64 // size of the -wal file: at most 64 MB unless a read takes longer than 5 s
	PageSize  int64 // bytes
	Pages     int64
	FreePages int64 // freed by deletions; returned to the disk within a minute
	DiskFree  int64 // bytes
	// Full: a deletion had to use the reserve of the full disk. Until there is room again, Write
	// returns ErrFull, and only Reclaim works.
	Full bool

	// Server is nil for a file. A server does not report the room on the disk, free pages and readers.
	Server *ServerHealth
}

// ServerHealth is the state of a PostgreSQL server, as far as the handle's user may see it.
type ServerHealth struct {
	// SeesAll: the user may see the sessions of others, as members of pg_monitor may. Otherwise
	// Oldest, State and For cover the user's own sessions only, and AwaitedThere, CommitsWaiting and
	// all of Standbys but the names are empty.
	SeesAll bool `json:"-"`
	// sessions of this database that wait for a lock, the longest wait first, at most 100
	Waits []LockWait `json:"-"`
	// the session whose transaction in this database has been open for longest; Program is "" if there
	// is none
	Oldest      ServerSession `json:"-"`
	Connections int           `json:"connections"` // to all databases of the server
	// the limit, without those reserved for administrators
	MostConnections int `json:"most_connections"`
	// synchronous_standby_names: the standbys that a commit waits for; empty: none
	Awaited string `json:"awaited"`
	// one of those standbys streams; if none does, every commit waits
	AwaitedThere bool `json:"awaited_there"`
	// commits that wait for a standby now
	CommitsWaiting int       `json:"commits_waiting"`
	Standbys       []Standby `json:"standbys"` // that are connected
	// transactions since the oldest row that is not frozen: at 2^31 the server refuses to write
	IDsSpent int64 `json:"ids_spent"`
	// unused replication slots: they keep WAL until they are dropped
	Slots []Slot `json:"slots"`
	// the WAL file on which archive_command failed last and still fails; empty: none
	ArchiveFails string `json:"archive_fails"`
}

// A ServerSession is a connection of any program to a server.
type ServerSession struct {
	PID     int    `json:"pid"`     // of the server's process; 0: a prepared transaction
	Program string `json:"program"` // application_name; of a prepared transaction its name
	User    string `json:"user"`    // role of the server
	// active, idle in transaction and the like; empty: not visible
	State string        `json:"state"`
	For   time.Duration `json:"-"` // how long its transaction has been open; 0 if not visible
}

// A LockWait is a session that waits for a lock.
type LockWait struct {
	ServerSession
	Waited time.Duration
	HeldBy []ServerSession // that hold the lock, or are ahead in its queue
}

// A Standby is a standby of a server.
type Standby struct {
	Name   string `json:"name"`         // as it calls itself
	State  string `json:"state"`        // streaming, catchup and the like
	Sync   string `json:"sync"`         // sync, quorum, potential or async
	Behind int64  `json:"behind_bytes"` // of WAL that it has not replayed
}

// A Slot is a replication slot.
type Slot struct {
	Name string `json:"name"`       // of the replication slot
	Kept int64  `json:"kept_bytes"` // of WAL that it keeps
}

// Health examines the file and the calls in progress. It takes a reading connection for a moment.
func (d *DB) Health(ctx context.Context) (Health, error) {
	if err := d.ready("health"); err != nil {
		return Health{}, err
	}
	h, err := d.store.Engine.Health(ctx)
	return Health{
		Writing: h.Writing, Waiting: h.Waiting, HeldBy: h.HeldBy, LongestRead: h.LongestRead,
		LongestReadFor: h.LongestReadFor, Readers: h.Readers,
		FileBytes: h.FileBytes, WALBytes: h.WALBytes, PageSize: h.PageSize, Pages: h.Pages, FreePages: h.FreePages,
		DiskFree: h.DiskFree, Full: h.Full,
		Server: serverHealth(h.Server),
	}, wrap("health", err)
}

func serverHealth(s *engine.Server) *ServerHealth {
	if s == nil {
		return nil
	}
	h := &ServerHealth{
		SeesAll: s.SeesAll, Oldest: ServerSession(s.Oldest), Connections: int(s.Connections),
		MostConnections: int(s.MostConnections),
		Awaited:         s.Awaited, AwaitedThere: s.AwaitedThere, CommitsWaiting: int(s.CommitsWaiting),
		IDsSpent: s.IDsSpent, ArchiveFails: s.ArchiveFails,
	}
	for _, w := range s.Waits {
		h.Waits = append(h.Waits, LockWait{ServerSession(w.Session), w.Waited, serverSessions(w.HeldBy)})
	}
	for _, standby := range s.Standbys {
		h.Standbys = append(h.Standbys, Standby(standby))
	}
	for _, slot := range s.Slots {
		h.Slots = append(h.Slots, Slot(slot))
	}
	return h
}

func serverSessions(sessions []engine.Session) (list []ServerSession) {
	for _, s := range sessions {
		list = append(list, ServerSession(s))
	}
	return list
}
