package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
)

// An owner is a handle of a process, so that closing it frees what it holds. It is alive while its byte
// of the file is locked, far beyond the last page. The kernel releases the byte when the process dies,
// however it dies, and keeps it while the process is stopped. The byte follows from the handle's token
// alone, so the lock exists before the row does and stays when the row is undone.

// ownersAt is the offset of the owners' bytes. SQLite's own end at 2^48.
const ownersAt = 1 << 61

// ownerByte is the byte of the owner with this token.
func ownerByte(token uuid.UUID) int64 {
	return ownersAt + int64(binary.BigEndian.Uint64(token[:8])>>8^binary.BigEndian.Uint64(token[8:])>>8)
}

// live locks this handle's byte, once.
func (e *Engine) live() error {
	f := e.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.locked {
		return nil
	}
	if err := lock.Byte(f.hold, unix.F_WRLCK, ownerByte(e.token)); err != nil {
		return fmt.Errorf("lock this handle's byte of the file: %w", err)
	}
	e.locked = true
	return nil
}

// die unlocks this handle's byte, and so frees what it holds. Its calls are over.
func (e *Engine) die() error {
	f := e.file
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.owners, e.owner.Load())
	if !e.locked {
		return nil
	}
	e.locked = false
	return lock.Byte(f.hold, unix.F_UNLCK, ownerByte(e.token))
}

// life asks whether the owner with this number holds its byte.
func (x *rx) life(id int64) (engine.Life, error) {
	f := x.engine.file
	f.mu.Lock()
	at, ok := f.places[id]
	f.mu.Unlock()
	if !ok {
		var token uuid.UUID
		if ok, err := x.find(&token, sqlOwnerToken, id); err != nil || !ok {
			return engine.LifeDead, err
		}
		at = ownerByte(token)
		f.mu.Lock()
		if len(f.places) >= placesKept {
			clear(f.places)
		}
		f.places[id] = at
		f.mu.Unlock()
	}
	held, err := lock.ByteHeld(f.look, at)
	switch {
	case err != nil:
		return engine.LifeUnknown, err
	case held:
		return engine.LifeAlive, nil
	}
	return engine.LifeDead, nil
}

// placesKept bounds the cache of other owners' bytes.
const placesKept = 1024

const (
	sqlOwnerToken = `SELECT token FROM owners WHERE id = ?`
	sqlFindOwner  = `SELECT id FROM owners WHERE token = ?`
	sqlAddOwner   = `INSERT INTO owners (token, pid, boot_id, program, registered_at, pid_ns, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`
	sqlDropOwner = `DELETE FROM owners WHERE id = ?`
)

// Owner returns the number under which this handle owns claims in the file; its lock and its row
// are made at the first call.
func (t *tx) Owner() (int64, error) {
	e := t.engine
	if id := e.owner.Load(); id != 0 {
		return id, nil
	}
	if e.file != nil {
		// Locked before the commit: no process may see the row of a living owner without its lock.
		if err := e.live(); err != nil {
			return 0, err
		}
	}
	var id int64
	ok, err := t.find(&id, sqlFindOwner, e.token[:])
	if err == nil && !ok {
		err = t.Get(&id, sqlAddOwner, engine.OwnerRow(e.token, e.config.Now()))
	}
	if err != nil {
		return 0, fmt.Errorf("register this process as an owner: %w", err)
	}
	if e.file != nil {
		t.OnCommit(func() {
			e.file.mu.Lock()
			defer e.file.mu.Unlock()
			e.file.owners[id] = struct{}{}
			e.owner.Store(id)
		})
	}
	return id, nil
}

// Owns reports whether id is a handle of this process.
func (x *rx) Owns(id int64) (bool, error) {
	own := x.engine.owner.Load()
	if own != 0 && own == id {
		return true, nil
	}
	if f := x.engine.file; f != nil {
		f.mu.Lock()
		_, ours := f.owners[id]
		f.mu.Unlock()
		if ours || own != 0 {
			return ours, nil
		}
	}
	// of a row that this very transaction made, or of a database in memory
	ok, err := x.find(&own, sqlFindOwner, x.engine.token[:])
	return ok && own == id, err
}

// Life reports whether the owner with this number still lives. A stopped process is alive.
func (x *rx) Life(id int64) (engine.Life, error) {
	own, err := x.Owns(id)
	switch {
	case err != nil:
		return engine.LifeUnknown, err
	case own:
		return engine.LifeAlive, nil
	case x.engine.file == nil:
		return engine.LifeDead, nil
	}
	return x.life(id)
}

// OwnersAtOnce is how many owners one transaction examines. The next one continues after them. It
// is a variable so that a test need not make as many.
var OwnersAtOnce = 256

// ForgetDeadOwners deletes rows of processes that are gone and that nothing refers to any more.
func (t *tx) ForgetDeadOwners(after int64) (last int64, more bool, err error) {
	return engine.ForgetDead(t, after, OwnersAtOnce, func(ids []int64) error {
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
	})
}

// forgetOwner deletes a row unless something refers to it. The foreign keys know what does.
func (t *tx) forgetOwner(id int64) error {
	_, err := t.Exec(sqlDropOwner, []any{id})
	if primary(err) == sqlite3.SQLITE_CONSTRAINT {
		return nil // only the statement is undone
	}
	return err
}

// resign deletes this handle's row when it closes and owns nothing.
func (e *Engine) resign() error {
	if e.file == nil || e.owner.Load() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := e.writer.submit(ctx, &request{why: "close", last: true, write: func(x engine.Tx) error {
		return x.(*tx).forgetOwner(e.owner.Load())
	}}).Err
	if errors.Is(err, engine.ErrFull) || errors.Is(err, engine.ErrBusy) ||
		errors.Is(err, engine.ErrOutcomeUnknown) || errors.Is(err, engine.ErrReplaced) {
		return nil // the row does no harm: ForgetDeadOwners finds it
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
