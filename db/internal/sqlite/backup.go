package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"selvedge/db/internal/engine"
)

// Backup writes a copy of the file to dest.
func (e *Engine) Backup(ctx context.Context, dest string) error {
	err := e.backup(ctx, dest)
	if errors.Is(err, unix.EEXIST) {
		return &engine.Failure{Kind: engine.ErrConflict, Hint: "choose a name that is not taken", Err: err}
	}
	return failure(err)
}

func (e *Engine) backup(ctx context.Context, dest string) (err error) {
	dest, err = filepath.Abs(dest)
	if err != nil {
		return err
	}
	if there, err := exists(dest); err != nil || there {
		if err == nil {
			err = fmt.Errorf("%s: %w", dest, unix.EEXIST)
		}
		return err
	}
	// An empty file of mode 0600 first: VACUUM INTO would make one with the usual mode.
	part, err := os.CreateTemp(filepath.Dir(dest), "."+filepath.Base(dest)+".*.part")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(part.Name())) }()
	if err := part.Close(); err != nil {
		return err
	}
	if err := e.vacuumInto(ctx, part.Name()); err != nil {
		return err
	}
	if err := checkCopy(ctx, part.Name(), e.config); err != nil {
		return err
	}
	if err := syncFile(part.Name()); err != nil {
		return err
	}
	if err := os.Link(part.Name(), dest); err != nil { // unlike a rename it never replaces
		return err
	}
	return syncFile(filepath.Dir(dest))
}

// vacuumInto runs on a reading connection of its own: VACUUM can't run in a transaction, and the writer goes on.
func (e *Engine) vacuumInto(ctx context.Context, dest string) (err error) {
	if e.memory {
		return fmt.Errorf("%w: a database in memory has no file to copy", engine.ErrInvalid)
	}
	pool, err := openPool(e.path, roleReader, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	s, err := retrySession(ctx, pool, roleReader, e.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.conn.ExecContext(ctx, "VACUUM INTO ?", dest); err != nil {
		return fmt.Errorf("copy the file to %s: %w", dest, err)
	}
	return nil
}

// checkCopy opens the copy as a user would and runs every check on it.
func checkCopy(ctx context.Context, path string, o Config) (err error) {
	o.ReadOnly, o.AnySchema, o.Readers = true, true, 1
	c, err := Open(ctx, path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	problems, err := c.Check(ctx)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: the copy has %d problems, the first: %s: %s", engine.ErrCorrupt, len(problems), problems[0].Check, problems[0].Detail)
	}
	return nil
}

// syncFile puts a file's, or a folder's, content on the disk.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return closeAfter(file, file.Sync())
}

// removeAll removes a copy under its first name and what opening it left beside it.
func removeAll(path string) error {
	var failed error
	for _, suffix := range []string{"", "-wal", "-shm", lockSuffix, queueSuffix, ownersSuffix} {
		if err := os.Remove(path + suffix); !errors.Is(err, os.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
