package sqlite

import (
	"encoding/binary"
	"hash/crc32"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/engine"
)

// After each commit, the writer notes which rows it touched: in memory for the observer of its own
// handle, and in FILE-lock for those of other processes, while any of them listens. A note holds
// the states before and after its commit. So an observer follows the notes from the last state that
// it knew to the current one. If a note is missing, it reports that anything may have been touched.
// See decision 0026.

// A walState identifies what was committed last: the end of the WAL, and the running checksum of
// all frames up to there. No other content of the file has the same state.
type walState struct {
	salt, sum [2]uint32
	frames    uint32
}

// stateOf reads the state from an index of the WAL (sqlite.org/walformat.html, section 2.1), and
// SQLite's count of commits, which starts again when the index is made again. ok is false if there
// is none, or it is being changed.
func stateOf(index uintptr) (s walState, commits uint32, ok bool) {
	if index == 0 {
		return s, 0, false
	}
	// a page of the index that is cut off from its file
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	const words = 48 / 4 // of a header; there are two copies, and the second is written first
	const change, shape, frames, sum, salt = 2, 3, 4, 6, 8
	at := *(**[2 * words]uint32)(unsafe.Pointer(&index))
	var header [words]uint32
	for i := range header {
		header[i] = atomic.LoadUint32(&at[i])
	}
	for i := range header {
		if atomic.LoadUint32(&at[words+i]) != header[i] {
			return s, 0, false
		}
	}
	s.frames = header[frames]
	copy(s.sum[:], header[sum:])
	copy(s.salt[:], header[salt:])
	return s, header[change], header[shape] != 0
}

// A note says what one commit touched.
type note struct {
	before, after walState
	commits       uint32 // SQLite's count after it
	touched       engine.Touched
}

// The notes in FILE-lock are a ring, indexed by the count of commits. A note is its checksum, the
// version, the number of rows, the rest, and the rows.
const (
	noteSize    = 1024
	notes       = 512
	noteVersion = 1
	noteRows    = 56 // where the rows begin
	mostNoted   = (noteSize - noteRows) / 8
	allNoted    = 1<<16 - 1 // for the number of rows
	noteKeyBits = 56
)

func (s *walState) fields() []*uint32 {
	return []*uint32{&s.salt[0], &s.salt[1], &s.sum[0], &s.sum[1], &s.frames}
}

// encode appends the note to b, which is empty.
func (n *note) encode(b []byte) []byte {
	rows, count := n.touched.Rows, len(n.touched.Rows)
	all := n.touched.All || count > mostNoted
	for _, row := range rows {
		all = all || row.Key < 0 || row.Key >= 1<<noteKeyBits
	}
	if all {
		rows, count = nil, allNoted
	}
	le := binary.LittleEndian
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, noteVersion)
	b = le.AppendUint16(b, uint16(count)) //nolint:gosec // at most mostNoted, or allNoted
	b = le.AppendUint32(b, n.commits)
	for _, s := range []*walState{&n.before, &n.after} {
		for _, field := range s.fields() {
			b = le.AppendUint32(b, *field)
		}
	}
	for len(b) < noteRows {
		b = append(b, 0)
	}
	for _, row := range rows {
		b = le.AppendUint64(b, uint64(row.Stream)<<noteKeyBits|uint64(row.Key)) //nolint:gosec // not negative
	}
	le.PutUint32(b, crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// decode reads a note; false if there is none, or it is not whole.
func (n *note) decode(b []byte) bool {
	le := binary.LittleEndian
	if len(b) < noteRows || le.Uint16(b[4:]) != noteVersion {
		return false
	}
	rows := int(le.Uint16(b[6:]))
	all := rows == allNoted
	if all {
		rows = 0
	}
	if len(b) < noteRows+8*rows {
		return false
	}
	b = b[:noteRows+8*rows]
	if le.Uint32(b) != crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)) {
		return false
	}
	n.commits, n.touched = le.Uint32(b[8:]), engine.Touched{All: all}
	at := b[12:]
	for _, s := range []*walState{&n.before, &n.after} {
		for _, field := range s.fields() {
			*field, at = le.Uint32(at), at[4:]
		}
	}
	for at = b[noteRows:]; len(at) > 0; at = at[8:] {
		row := le.Uint64(at)
		n.touched.Rows = append(n.touched.Rows, engine.Touch{
			Stream: engine.Stream(row >> noteKeyBits),
			Key:    int64(row & (1<<noteKeyBits - 1)), //nolint:gosec // 56 bits
		})
	}
	return true
}

// ownNotes are the last notes of the own writer, without rows: the watchers have these already.
type ownNotes struct {
	mu   sync.Mutex
	ring [notes]note
}

func (o *ownNotes) add(n note) {
	n.touched = engine.Touched{}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ring[n.commits%notes] = n
}

func (o *ownNotes) find(before walState, commits uint32) (n note, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = o.ring[commits%notes]
	return n, n.commits == commits && n.before == before
}

// A touchHook is called by SQLite before each change of a row (sqlite.org/c3ref/preupdate_count.html).
type touchHook func(tls *libc.TLS, arg, db uintptr, op int32, database, table uintptr, was, is int64)

// heardEvery is how often a writer asks whether other processes listen.
const heardEvery = 100 * time.Millisecond

// noting is the writer's part. Only the goroutine that has the writer uses it.
type noting struct {
	hook    touchHook
	on      bool // SQLite calls hook
	heard   bool // by other processes, when asked was
	asked   time.Time
	touched engine.Touched

	known   bool // before and commits are those of the transaction's beginning
	before  walState
	commits uint32
	space   []byte
}

// beginNoting begins to record the rows that the new transaction touches, if any observer listens.
func (w *writer) beginNoting() {
	n := &w.noting
	gate := w.engine.reads.gate
	if now := time.Now(); gate != nil && now.Sub(n.asked) >= heardEvery {
		n.heard, n.asked = gate.IsHeard(), now
	}
	if on := n.heard || w.engine.watch.Watched(); on != n.on {
		n.on = on
		w.setTouchHook(on)
	}
	if n.on {
		n.touched = engine.Touched{Rows: n.touched.Rows[:0]}
		n.before, n.commits, n.known = stateOf(w.session.wal.index)
	}
}

func (w *writer) setTouchHook(on bool) {
	n := &w.noting
	n.hook = w.touching
	hook := *(*uintptr)(unsafe.Pointer(&n.hook))
	if !on {
		hook = 0
	}
	w.session.handle.raw(func(tls *libc.TLS) {
		sqlite3.Xsqlite3_preupdate_hook(tls, w.session.db, hook, 0)
	})
}

func (w *writer) touching(tls *libc.TLS, _, db uintptr, op int32, _, table uintptr, was, is int64) {
	n := &w.noting
	stream, shift, byColumn := engine.StreamOf(textAt(table))
	switch {
	case stream == engine.NoStream:
	case !byColumn:
		n.touched.Add(engine.Touch{Stream: stream, Key: was >> shift})
		n.touched.Add(engine.Touch{Stream: stream, Key: is >> shift})
	default:
		for _, value := range []struct {
			not  int32
			read func(*libc.TLS, uintptr, int32, uintptr) int32
		}{
			{sqlite3.SQLITE_INSERT, sqlite3.Xsqlite3_preupdate_old},
			{sqlite3.SQLITE_DELETE, sqlite3.Xsqlite3_preupdate_new},
		} {
			if op == value.not {
				continue
			}
			size := int(unsafe.Sizeof(uintptr(0)))
			pointer := tls.Alloc(size)
			if value.read(tls, db, 0, pointer) == sqlite3.SQLITE_OK {
				key := sqlite3.Xsqlite3_value_int64(tls, **(**uintptr)(unsafe.Pointer(&pointer)))
				n.touched.Add(engine.Touch{Stream: stream, Key: key})
			} else {
				n.touched.All = true
			}
			tls.Free(size)
		}
	}
}

// textAt returns the C string at an address without copying it: it is valid until SQLite frees it.
func textAt(address uintptr) string {
	first := *(**byte)(unsafe.Pointer(&address))
	size := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(first), size)) != 0 {
		size++
	}
	return unsafe.String(first, size)
}

// noteCommit notes what the last commit touched.
func (w *writer) noteCommit() {
	n := &w.noting
	if !n.on { // a watcher that came meanwhile
		w.engine.watch.Touched(engine.Touched{All: true})
		return
	}
	n.touched.Distinct()
	w.engine.watch.Touched(n.touched)
	after, commits, ok := stateOf(w.session.wal.index)
	// Another program may have committed since: then the state is not this commit's.
	if !ok || !n.known || commits != n.commits+1 || int64(after.frames) != w.wal.log {
		return
	}
	done := note{n.before, after, commits, n.touched}
	w.engine.own.add(done)
	if n.heard {
		n.space = done.encode(n.space[:0])
		// Without the note, observers report that anything may have been touched.
		_, _ = w.engine.reads.gate.WriteAt(n.space, int64(commits%notes)*noteSize)
	}
}

// noteDelay is how long an observer waits for the note of a commit that it has seen.
const noteDelay = 10 * time.Millisecond

// reading is the observer's part.
type reading struct {
	engine  *Engine
	index   uintptr // of the observer's connection
	at      walState
	commits uint32
	known   bool      // at is explained
	owed    time.Time // since when notes are missing; zero: none is
	space   [noteSize]byte
}

// listen asks the writers of other processes for notes. Only a note of a later commit is complete.
func (r *reading) listen() {
	if r.engine.reads.gate != nil {
		r.engine.reads.gate.Listen()
	}
}

func (r *reading) unlisten() {
	if r.engine.reads.gate != nil {
		r.engine.reads.gate.Unlisten()
	}
}

// begin makes the current state the known one.
func (r *reading) begin(s *session) {
	if r.index == 0 && r.engine.rest == nil {
		r.index = s.walIndex()
	}
	r.at, r.commits, r.known = stateOf(r.index)
}

// owes reports whether a commit is still to be explained.
func (r *reading) owes() bool { return !r.owed.IsZero() }

// explain tells the watchers what commits since the known state touched, and reports whether it
// told them anything. A missing note may still come.
func (r *reading) explain(s *session, watch *engine.Watchers) (told bool) {
	now, _, ok := stateOf(r.index)
	for step := 0; ok && r.known && r.at != now && step < notes; step++ {
		n, own := r.engine.own.find(r.at, r.commits+1)
		if !own {
			if !r.read(&n) {
				break
			}
			watch.Touched(n.touched)
		}
		r.at, r.commits, told = n.after, n.commits, true
	}
	switch {
	case ok && r.known && r.at == now:
		r.owed = time.Time{}
		return told
	case r.index != 0 && (told || r.owed.IsZero()):
		r.owed = time.Now()
		return told
	case r.index != 0 && time.Since(r.owed) < noteDelay:
		return told
	}
	r.owed = time.Time{}
	r.begin(s)
	r.listen() // an observer that ended may have taken it back
	watch.Touched(engine.Touched{All: true})
	return true
}

// read reads the note of another process about the next commit.
func (r *reading) read(n *note) bool {
	if r.engine.reads.gate == nil {
		return false
	}
	got, _ := r.engine.reads.gate.ReadAt(r.space[:], int64((r.commits+1)%notes)*noteSize)
	return n.decode(r.space[:got]) && n.before == r.at && n.commits == r.commits+1
}
