package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/lock"
	"selvedge/db/internal/machine"
)

// An ownership is this process's place in FILE-owners, shared by all its handles on the file. A process is alive while it
// holds the byte with its number locked; the kernel gives the byte back when it dies, however it dies, and keeps it while
// it is stopped.
type ownership struct {
	key  fileKey
	path string
	// token identifies this process among the rows of owners: pids are reused, tokens are not. When the last handle is closed
	// the process's claims are anybody's, for ever: whoever opens the file again is somebody else.
	token uuid.UUID

	mu      sync.Mutex
	handles int
	file    *os.File // opened at the first use
	id      int64    // of this process's committed row; 0 before its first claim
}

// ownerships are the places of this process, one a file.
var ownerships = struct {
	sync.Mutex
	byFile map[fileKey]*ownership
}{byFile: map[fileKey]*ownership{}}

func joinOwnership(key fileKey, path string) *ownership {
	ownerships.Lock()
	defer ownerships.Unlock()
	o := ownerships.byFile[key]
	if o == nil {
		o = &ownership{key: key, path: path, token: uuid.New()}
		ownerships.byFile[key] = o
	}
	o.handles++
	return o
}

// release takes one handle out; with the last one the byte is unlocked, and this process's claims are anybody's.
func (o *ownership) release() error {
	ownerships.Lock()
	defer ownerships.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handles--
	if o.handles > 0 {
		return nil
	}
	delete(ownerships.byFile, o.key)
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

func (o *ownership) last() bool {
	ownerships.Lock()
	defer ownerships.Unlock()
	return o.handles == 1
}

func (o *ownership) known() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.id
}

func (o *ownership) set(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.id = id
}

func (o *ownership) open() (*os.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		file, err := lock.OpenFile(o.path)
		if err != nil {
			return nil, err
		}
		o.file = file
	}
	return o.file, nil
}

func (o *ownership) lock(id int64) error {
	file, err := o.open()
	if err != nil {
		return err
	}
	return lock.Byte(file, unix.F_WRLCK, id)
}

func (o *ownership) unlock(id int64) error {
	file, err := o.open()
	if err != nil {
		return err
	}
	return lock.Byte(file, unix.F_UNLCK, id)
}

// life asks whether some other process holds the byte id.
func (o *ownership) life(id int64) (engine.Life, error) {
	file, err := o.open()
	if errors.Is(err, fs.ErrPermission) {
		return engine.LifeUnknown, nil
	}
	if err != nil {
		return engine.LifeUnknown, err
	}
	held, err := lock.ByteHeld(file, id)
	switch {
	case err != nil:
		return engine.LifeUnknown, err
	case held:
		return engine.LifeAlive, nil
	}
	return engine.LifeDead, nil
}

const (
	sqlFindOwner = `SELECT id FROM owners WHERE token = ?`
	sqlAddOwner  = `INSERT INTO owners (token, pid, pid_ns, boot_id, program, registered_at) VALUES (?, ?, ?, ?, ?, ?) RETURNING id`
	sqlAllOwners = `SELECT id FROM owners`
	sqlDropOwner = `DELETE FROM owners WHERE id = ?`
)

// Owner gives the number under which this process owns claims in the file; its row and its lock are made at the first
// call.
func (t *tx) Owner() (int64, error) {
	o := t.engine.owner
	if o != nil {
		if id := o.known(); id != 0 {
			return id, nil
		}
	}
	var id int64
	ok, err := t.find(&id, sqlFindOwner, t.engine.token[:])
	switch {
	case err != nil:
		return 0, err
	case ok && o == nil:
		return id, nil
	case ok:
		// Made by an earlier caller of this very transaction, whose lock is ours too.
		if err := o.lock(id); err != nil {
			return 0, fmt.Errorf("lock this process's byte of %s: %w", o.path, err)
		}
		t.OnCommit(func() { o.set(id) })
		return id, nil
	}
	err = t.Get(&id, sqlAddOwner, []any{
		t.engine.token[:], os.Getpid(), nullable(machine.PIDNamespace()), machine.BootID(), filepath.Base(os.Args[0]), t.engine.config.Now().UnixNano(),
	})
	if err != nil {
		return 0, fmt.Errorf("register this process as an owner: %w", err)
	}
	if o == nil {
		return id, nil // in memory: there are no other processes
	}
	// Locked before the commit: nobody may see the row of a living process without its lock.
	if err := o.lock(id); err != nil {
		return 0, fmt.Errorf("lock this process's byte of %s: %w", o.path, err)
	}
	t.OnRollback(func() { _ = o.unlock(id) }) // the number is given to somebody else then
	t.OnCommit(func() { o.set(id) })
	return id, nil
}

// Owns reports whether id is this process.
func (x *rx) Owns(id int64) (bool, error) {
	if o := x.engine.owner; o != nil && o.known() != 0 {
		return o.known() == id, nil
	}
	var own int64 // of a row that this very transaction made, or of a database in memory
	ok, err := x.find(&own, sqlFindOwner, x.engine.token[:])
	return ok && own == id, err
}

// Life says whether the process with this number still runs. A stopped process is alive.
func (x *rx) Life(id int64) (engine.Life, error) {
	own, err := x.Owns(id)
	switch {
	case err != nil:
		return engine.LifeUnknown, err
	case own:
		return engine.LifeAlive, nil
	case x.engine.owner == nil:
		return engine.LifeDead, nil
	}
	return x.engine.owner.life(id)
}

// ForgetDeadOwners deletes the rows of processes that are gone and that nothing refers to any more.
func (t *tx) ForgetDeadOwners() error {
	var ids []int64
	if err := t.Select(&ids, sqlAllOwners, nil); err != nil {
		return err
	}
	for _, id := range ids {
		if life, err := t.Life(id); err != nil {
			return err
		} else if life != engine.LifeDead {
			continue
		}
		if err := t.forgetOwner(id); err != nil {
			return err
		}
	}
	return nil
}

// forgetOwner deletes a row unless something refers to it. The foreign keys know what does.
func (t *tx) forgetOwner(id int64) error {
	err := t.Savepoint(func() error {
		_, err := t.Exec(sqlDropOwner, []any{id})
		return err
	})
	if primary(err) == sqlite3.SQLITE_CONSTRAINT {
		return nil
	}
	return err
}

// resign deletes this process's own row when its last handle closes and it owns nothing.
func (e *Engine) resign() error {
	if e.owner == nil || e.owner.known() == 0 || !e.owner.last() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := e.Write(ctx, "close", func(x engine.Tx) error { return x.(*tx).forgetOwner(e.owner.known()) }).Err
	if errors.Is(err, engine.ErrFull) || errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrOutcomeUnknown) {
		return nil // the row is in nobody's way: ForgetDeadOwners finds it
	}
	return err
}

// find is Get for a row that may be missing.
func (x *rx) find(dest any, query string, args ...any) (bool, error) {
	err := x.Get(dest, query, args)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// nullable is NULL for what the system doesn't have.
func nullable(id int64) *int64 {
	if id == 0 {
		return nil
	}
	return &id
}
