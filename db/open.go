package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sys/unix"
)

// Open opens the file at path, creates it (0600, its folder 0700) where it is missing, and migrates it to this program's
// schema where it is older. path may be ":memory:". The handle is used by the whole process and closed at its end.
//
// Each of these is an error of its own, and leaves every byte as it was: a path that is a folder (ErrInvalid), a file that
// is no database or another program's (ErrNotADatabase), one that needs a newer program to write it, or to read it with
// Options.ReadOnly (ErrSchemaTooNew), a network file system (ErrUnsupported), a folder that can't be written
// (fs.ErrPermission and the like), a file that another process has for itself (ErrBusy).
func Open(ctx context.Context, path string, options Options) (*DB, error) {
	d, err := open(ctx, path, options)
	if err != nil {
		return nil, openError(path, err)
	}
	d.callbacks.takeLane()
	return d, nil
}

func open(ctx context.Context, path string, options Options) (*DB, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	d := &DB{path: path, memory: path == memoryPath, options: options.withDefaults(), ladder: options.ladder}
	if d.ladder == nil {
		d.ladder = programLadder()
	}
	if d.options.SchemaVersion == 0 {
		d.options.SchemaVersion = d.ladder.last().Version
	}
	if d.memory {
		return d, d.openMemory(ctx)
	}
	if path == "" {
		return nil, fmt.Errorf("%w: the path is empty", ErrInvalid)
	}
	var err error
	if d.path, err = resolve(path); err != nil {
		return nil, err
	}
	if err := checkFilesystem(d.path, d.options); err != nil {
		return nil, err
	}
	for {
		again, err := d.openPath(ctx)
		if err != nil {
			return nil, err
		}
		if !again {
			return d, nil
		}
	}
}

func (d *DB) openMemory(ctx context.Context) error {
	if d.options.ReadOnly {
		return fmt.Errorf("%w: a database in memory can't be read-only", ErrInvalid)
	}
	pool, err := openPool(d.path, roleWriter, 1)
	if err != nil {
		return err
	}
	if err := d.ladder.migrate(ctx, pool, d.options.SchemaVersion, d.options); err != nil {
		return closeAfter(pool, err)
	}
	s, err := retrySession(ctx, pool, roleWriter, d.options)
	if err != nil {
		return closeAfter(pool, err)
	}
	d.writer = startWriter(d, pool, s, nil)
	return nil
}

// openPath opens the file that now lies at the path. It asks to be called again when another one took its place before
// the lock was ours.
func (d *DB) openPath(ctx context.Context) (again bool, err error) {
	var wal bool
	if d.key, wal, err = claimFile(d.path, d.options); err != nil {
		return false, err
	}
	undo := []func() error{func() error { dropFile(d.key); return nil }}
	defer func() {
		if err == nil && !again {
			return
		}
		for _, f := range slices.Backward(undo) {
			err = errors.Join(err, f())
		}
	}()
	if d.file, err = lockShared(ctx, d.path, d.options); err != nil {
		return false, err
	}
	undo = append(undo, d.file.close)
	info, err := os.Stat(d.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && keyOf(info) != d.key {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	d.owner = joinOwnership(d.key, d.path+ownersSuffix)
	undo = append(undo, d.owner.release)
	if d.options.ReadOnly {
		return false, d.openReaders(ctx)
	}
	pool, s, err := d.openWriter(ctx, wal)
	if err != nil {
		return false, err
	}
	undo = append(undo, pool.Close, s.Close)
	queue, err := openQueue(d.path + queueSuffix)
	if err != nil {
		return false, err
	}
	undo = append(undo, queue.close)
	if err = d.openReaders(ctx); err != nil {
		return false, err
	}
	d.writer = startWriter(d, pool, s, queue)
	return false, nil
}

// openWriter opens the writing connection of a file whose schema it has made sure of. A file that isn't in WAL mode yet
// is put into it by migrate, which has the writers' turn: the first change to WAL ignores busy_timeout.
func (d *DB) openWriter(ctx context.Context, wal bool) (*sqlx.DB, *session, error) {
	target := d.options.SchemaVersion
	if !wal {
		if err := d.migrate(ctx, versions{}, target); err != nil {
			return nil, nil, err
		}
	}
	pool, err := openPool(d.path, roleWriter, 1)
	if err != nil {
		return nil, nil, err
	}
	s, err := retrySession(ctx, pool, roleWriter, d.options)
	if err != nil {
		return nil, nil, closeAfter(pool, err)
	}
	have, err := readVersions(s)
	if err == nil {
		err = d.ladder.mayWrite(have)
	}
	if err == nil && have.Schema < target || err == nil && target == d.ladder.last().Version && !d.ladder.current(have) {
		if err = s.Close(); err != nil { // the file must be free of us while it is migrated
			return nil, nil, closeAfter(pool, err)
		}
		if err = d.migrate(ctx, have, target); err == nil {
			s, err = retrySession(ctx, pool, roleWriter, d.options)
		}
		if err != nil {
			return nil, nil, closeAfter(pool, err)
		}
	}
	if err == nil {
		err = setPragma(ctx, s.conn, noPatience)
	}
	if err != nil {
		return nil, nil, closeAfter(pool, closeAfter(s, err))
	}
	return pool, s, nil
}

// openReaders makes the pool of readers. A handle that has no writer checks here what the file allows.
func (d *DB) openReaders(ctx context.Context) error {
	pool, err := openPool(d.path, roleReader, d.options.Readers)
	if err != nil {
		return err
	}
	d.readers = newReaders(d, pool, d.options.Readers)
	if !d.options.ReadOnly {
		return nil
	}
	err = d.Read(ctx, "open", func(rx *Rx) error {
		have, err := readVersions(rx)
		if err != nil {
			return err
		}
		return d.ladder.mayRead(have, d.options.AnySchema)
	})
	if err != nil {
		return errors.Join(err, d.readers.close())
	}
	return nil
}

// openError adds what a person can do.
func openError(path string, err error) error {
	e := &Error{Op: "open", Entity: "file", ID: path, Code: code(err), Err: err}
	if inner := new(Error); errors.As(err, &inner) {
		e.Hint, e.Code = inner.Hint, inner.Code
	}
	if s := sentinel(err); s != nil && !errors.Is(err, s) {
		e.Err = fmt.Errorf("%w: %w", s, err)
	}
	switch {
	case e.Hint != "":
	case errors.Is(err, ErrNotADatabase):
		e.Hint = "choose another path: this file belongs to another program and was left as it is"
	case errors.Is(err, ErrUnsupported):
		e.Hint = "keep the file on a local disk; Options.AllowNetworkFS overrides this where only one host ever opens it"
	case errors.Is(err, ErrSchemaTooNew):
		e.Hint = "use the newer program that wrote the file"
	case errors.Is(err, ErrNotFound):
		e.Hint = "check the path; opening without MustExist and ReadOnly creates the file"
	case errors.Is(err, ErrBusy):
		e.Hint = "close the programs that have the file open, and try again"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOTDIR):
		e.Hint = "the file and its folder must be writable: SQLite keeps its WAL beside the file"
	}
	return e
}

// Exists reports whether something lies at path.
func Exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
