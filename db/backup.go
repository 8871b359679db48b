package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Backup writes a copy of the file, as it was at one moment, to dest, which must not exist. The file stays in use
// meanwhile. The copy is compact, 0600, on the disk and checked before it gets its name; when Backup fails there is none.
func (d *DB) Backup(ctx context.Context, dest string) error {
	err := d.backup(ctx, dest)
	if errors.Is(err, unix.EEXIST) {
		return &Error{Op: "backup", Entity: "file", ID: dest, Hint: "choose a name that is not taken", Err: fmt.Errorf("%w: %w", ErrConflict, err)}
	}
	return wrap("backup", err)
}

func (d *DB) backup(ctx context.Context, dest string) (err error) {
	dest, err = filepath.Abs(dest)
	if err != nil {
		return err
	}
	if there, err := Exists(dest); err != nil || there {
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
	if err := d.vacuumInto(ctx, part.Name()); err != nil {
		return err
	}
	if err := checkCopy(ctx, part.Name(), d.options); err != nil {
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
func (d *DB) vacuumInto(ctx context.Context, dest string) (err error) {
	if d.memory {
		return fmt.Errorf("%w: a database in memory has no file to copy", ErrInvalid)
	}
	pool, err := openPool(d.path, roleReader, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	s, err := retrySession(ctx, pool, roleReader, d.options)
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
func checkCopy(ctx context.Context, path string, o Options) (err error) {
	c, err := Open(ctx, path, Options{ReadOnly: true, AnySchema: true, AllowNetworkFS: o.AllowNetworkFS, ladder: o.ladder})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	problems, err := c.Check(ctx)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: the copy has %d problems, the first: %s: %s", ErrCorrupt, len(problems), problems[0].Check, problems[0].Detail)
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
