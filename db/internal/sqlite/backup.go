package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"selvedge/db/internal/engine"
)

// Backup writes a copy of the file to dest.
func (e *Engine) Backup(ctx context.Context, dest string) error {
	if e.memory {
		return fmt.Errorf("%w: a database in memory has no file to copy", engine.ErrInvalid)
	}
	if err := e.visits.begin(); err != nil {
		return err
	}
	defer e.visits.end()
	err := e.backup(ctx, dest)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	if errors.Is(err, fs.ErrExist) {
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
	return e.copyTo(ctx, dest, (*part).give)
}

// copyTo makes a checked copy and gives it its name.
func (e *Engine) copyTo(ctx context.Context, dest string, name func(*part, string) error) (err error) {
	p, err := newPart(ctx, filepath.Dir(dest))
	if err != nil {
		return err
	}
	defer func() {
		// What is left of the part is the next one's to remove. It is no failure of a copy that has its name.
		if left := p.discard(); !p.named {
			err = errors.Join(err, left)
		}
	}()
	if err := e.vacuumInto(ctx, p.path); err != nil {
		return err
	}
	if err := checkCopy(ctx, p.path, e.config); err != nil {
		return err
	}
	if err := p.complete(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return name(p, dest)
}

// vacuumInto runs on a reading connection of its own: VACUUM can't run in a transaction, and the writer goes on.
func (e *Engine) vacuumInto(ctx context.Context, dest string) (err error) {
	pool, err := openPool(e.path, e.readRole(), 1)
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
		return fmt.Errorf("copy the file to %s: %w", dest, s.failure(err))
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
	checked, err := c.Check(ctx)
	if err != nil {
		return err
	}
	if problems := checked.Problems; len(problems) > 0 {
		return fmt.Errorf("%w: the copy has %d problems, the first: %s: %s", engine.ErrCorrupt, len(problems), problems[0].Check, problems[0].Detail)
	}
	return nil
}

// The copy that is kept before a migration removes or rewrites rows is FILE.schema-N.bak.
const (
	keptPrefix = ".schema-"
	keptSuffix = ".bak"
)

func (e *Engine) keptName(version int64) string {
	return e.path + keptPrefix + strconv.FormatInt(version, 10) + keptSuffix
}

// keepCopy makes the copy, in place of one that an earlier try at the same version left.
func (e *Engine) keepCopy(ctx context.Context, version int64) (string, error) {
	dest := e.keptName(version)
	if err := e.copyTo(ctx, dest, (*part).replace); err != nil {
		return "", err
	}
	return dest, nil
}

// dropOlderCopies leaves one copy, that of the last migration. One that can't be removed is in nobody's way.
func (e *Engine) dropOlderCopies(kept string) {
	dir := filepath.Dir(e.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		version, ok := strings.CutPrefix(entry.Name(), filepath.Base(e.path)+keptPrefix)
		version, bak := strings.CutSuffix(version, keptSuffix)
		if _, err := strconv.ParseInt(version, 10, 64); !ok || !bak || err != nil || entry.Name() == filepath.Base(kept) {
			continue
		}
		_ = os.Remove(filepath.Join(dir, entry.Name()))
	}
}
