package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// processToken identifies this process among the rows of owners: pids are reused, tokens are not.
var processToken = uuid.New()

// An ownership is this process's place in FILE-owners, shared by all its handles on the file. A process is alive while it
// holds the byte with its number locked; the kernel gives the byte back when it dies, however it dies, and keeps it while
// it is stopped.
type ownership struct {
	key  fileKey
	path string

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
		o = &ownership{key: key, path: path}
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
		file, err := openLockFile(o.path)
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
	return ofdLock(file, unix.F_WRLCK, id)
}

func (o *ownership) unlock(id int64) error {
	file, err := o.open()
	if err != nil {
		return err
	}
	return ofdLock(file, unix.F_UNLCK, id)
}

// held reports whether some other process holds the byte id.
func (o *ownership) held(id int64) (bool, error) {
	file, err := o.open()
	if err != nil {
		return false, err
	}
	return ofdHeld(file, id)
}

const (
	sqlFindOwner = `SELECT id FROM owners WHERE token = ?`
	sqlAddOwner  = `INSERT INTO owners (token, pid, boot_id, program, registered_at) VALUES (?, ?, ?, ?, ?) RETURNING id`
	sqlAllOwners = `SELECT id FROM owners`
	sqlDropOwner = `DELETE FROM owners WHERE id = ?`
)

// Owner gives the number under which this process owns claims in the file; its row and its lock are made at the first
// call.
func (tx *Tx) Owner() (int64, error) {
	o := tx.db.owner
	if o != nil {
		if id := o.known(); id != 0 {
			return id, nil
		}
	}
	var id int64
	ok, err := tx.Find(&id, sqlFindOwner, processToken[:])
	switch {
	case err != nil:
		return 0, err
	case ok && o == nil:
		return id, nil
	case ok:
		// Made by an earlier caller of this very transaction, whose lock is ours too, or before the last handle was closed
		// and the file opened again, when the lock was given up.
		if err := o.lock(id); err != nil {
			return 0, fmt.Errorf("lock this process's byte of %s: %w", o.path, err)
		}
		tx.AfterCommit(func() { o.set(id) })
		return id, nil
	}
	err = tx.Get(&id, sqlAddOwner, processToken[:], os.Getpid(), BootID(), filepath.Base(os.Args[0]), Nanos(tx.now))
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
	tx.afterRollback(func() { _ = o.unlock(id) }) // the number is given to somebody else then
	tx.AfterCommit(func() { o.set(id) })
	return id, nil
}

// Owns reports whether id is this process.
func (rx *Rx) Owns(id int64) (bool, error) {
	if o := rx.db.owner; o != nil && o.known() != 0 {
		return o.known() == id, nil
	}
	var own int64 // of a row that this very transaction made, or of a database in memory
	ok, err := rx.Find(&own, sqlFindOwner, processToken[:])
	return ok && own == id, err
}

// OwnerAlive reports whether the process with this number still runs. A stopped process is alive.
func (rx *Rx) OwnerAlive(id int64) (bool, error) {
	if own, err := rx.Owns(id); own || err != nil {
		return own, err
	}
	if rx.db.owner == nil {
		return false, nil
	}
	return rx.db.owner.held(id)
}

// ForgetDeadOwners deletes the rows of processes that are gone and that nothing refers to any more.
func (tx *Tx) ForgetDeadOwners() error {
	var ids []int64
	if err := tx.Select(&ids, sqlAllOwners); err != nil {
		return err
	}
	for _, id := range ids {
		if alive, err := tx.OwnerAlive(id); err != nil {
			return err
		} else if alive {
			continue
		}
		if err := tx.forgetOwner(id); err != nil {
			return err
		}
	}
	return nil
}

// forgetOwner deletes a row unless something refers to it. The foreign keys know what does.
func (tx *Tx) forgetOwner(id int64) error {
	err := tx.Savepoint(func() error {
		_, err := tx.Exec(sqlDropOwner, id)
		return err
	})
	if IsConstraint(err) {
		return nil
	}
	return err
}

// resign deletes this process's own row when its last handle closes and it owns nothing.
func (d *DB) resign() error {
	if d.owner == nil || d.owner.known() == 0 || !d.owner.last() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := d.Write(ctx, "close", func(tx *Tx) error { return tx.forgetOwner(d.owner.known()) })
	if errors.Is(err, ErrFull) || errors.Is(err, ErrBusy) {
		return nil // the row is in nobody's way: ForgetDeadOwners finds it
	}
	return err
}

// BootID identifies the machine's current start, or is nil where the system doesn't say. On Linux it is
// /proc/sys/kernel/random/boot_id.
func BootID() *string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		return nil
	}
	return &id
}
