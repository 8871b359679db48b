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
	"time"

	"golang.org/x/sys/unix"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/internal/machine"
)

// Backup writes a copy of the file to dest. A dest that exists is ErrConflict.
func (e *Engine) Backup(ctx context.Context, dest string) error {
	if e.memory {
		return fmt.Errorf("%w: a database in memory has no file to copy", engine.ErrInvalid)
	}
	return e.visits.during(func() error {
		err := e.backup(ctx, dest)
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		if errors.Is(err, fs.ErrExist) {
			err = &engine.Failure{Kind: engine.ErrConflict, Hint: "choose a name that is not taken", Err: err}
		}
		return err
	})
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
	return e.copyTo(ctx, filepath.Dir(dest), markCopy, func(p *part) error { return p.give(dest) })
}

// copyTo makes a copy in dir and checks it. change makes it a separate file, as markCopy does, and
// name renames it; with a nil name, the copy is removed.
func (e *Engine) copyTo(ctx context.Context, dir string, change func(ctx context.Context, path string) error,
	name func(*part) error,
) error {
	return withPart(ctx, dir, func(p *part) error {
		if err := e.vacuumInto(ctx, p.path); err != nil {
			return err
		}
		if err := change(ctx, p.path); err != nil {
			return err
		}
		if err := checkCopy(ctx, p.path, e.config); err != nil || name == nil {
			return err
		}
		if err := syncFile(p.path); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return name(p)
	})
}

// vacuumInto runs on a separate reading connection: VACUUM can't run in a transaction, and the
// writer continues.
func (e *Engine) vacuumInto(ctx context.Context, dest string) error {
	return withSession(ctx, e.path, e.readRole(), e.config, func(s *session) error {
		size, err := s.used()
		if err != nil {
			return err
		}
		copied := func() int64 {
			n, _ := sizeOf(dest)
			return n
		}
		return engine.Watched(ctx, "copy", size, copied, func() error {
			if _, err := s.conn.ExecContext(ctx, "VACUUM INTO ?", dest); err != nil {
				return fmt.Errorf("copy the file to %s: %w", dest, s.failure(err))
			}
			return nil
		})
	})
}

// markCopy gives a copy its own number, so that a WAL of the original is never applied to it, and
// its own generation, so that the original's cursors expire in it. Files of schema 7 or less have
// no generation. No other process uses the copy yet, and it is synced later.
func markCopy(ctx context.Context, path string) error {
	return withConn(ctx, path, func(h handle) error {
		old := false
		err := h.conn.GetContext(ctx, &old, "SELECT count(*) = 0 FROM pragma_table_info('selvedge_file') "+
			"WHERE name = 'generation'")
		if err != nil {
			return err
		}
		texts := []string{"PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", sqlNumber(newNumber())}
		if !old {
			texts = append(texts, sqlCopyGeneration)
		}
		for _, text := range texts {
			if _, err := h.conn.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("give the copy a number and a generation of its own: %w", err)
			}
		}
		return nil
	})
}

// checkCopy opens the copy as a user would and runs every check on it.
func checkCopy(ctx context.Context, path string, o Config) (err error) {
	c, err := Open(ctx, path, o.toRead())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	checked, err := c.Check(ctx)
	if err != nil {
		return err
	}
	if problems := checked.Problems; len(problems) > 0 {
		return fmt.Errorf("%w: the copy has %d problems, the first: %s: %s", engine.ErrCorrupt, len(problems),
			problems[0].Check, problems[0].Detail)
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

// keepCopy makes the copy. It replaces one that an earlier try at the same version left.
func (e *Engine) keepCopy(ctx context.Context, version int64) (string, error) {
	dest := e.keptName(version)
	if err := e.copyTo(ctx, filepath.Dir(dest), markCopy,
		func(p *part) error { return p.replace(dest) }); err != nil {
		return "", err
	}
	return dest, nil
}

// dropOlderCopies keeps one copy, that of the last migration. It ignores a copy that it can't
// remove.
func (e *Engine) dropOlderCopies(kept string) {
	dir := filepath.Dir(e.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		version, ok := strings.CutPrefix(entry.Name(), filepath.Base(e.path)+keptPrefix)
		version, bak := strings.CutSuffix(version, keptSuffix)
		if _, err := strconv.ParseInt(version, 10, 64); !ok || !bak || err != nil ||
			entry.Name() == filepath.Base(kept) {
			continue
		}
		_ = os.Remove(filepath.Join(dir, entry.Name()))
	}
}

// A part is a database under construction. It has a temporary name until it is whole and synced.
// The process that makes it locks the lock file beside it, so that the next one in the folder
// recognises and removes the parts of a killed process.
type part struct {
	path  string
	hold  *lock.Hold
	named bool // it has its final name
}

const (
	partPrefix = ".selvedge-"
	partSuffix = ".part"
	// partName is how long the name of a part is: os.CreateTemp draws up to ten digits.
	partName = len(partPrefix) + 10 + len(partSuffix)
)

// beside are the ends of the names of files that can lie beside a database.
var beside = []string{"-journal", "-wal", "-shm", reserveSuffix, queueSuffix, lockSuffix}

// newPart makes an empty file, 0600, in dir.
func newPart(ctx context.Context, dir string) (*part, error) {
	clearParts(ctx, dir)
	for {
		name, err := os.CreateTemp(dir, partPrefix+"*"+partSuffix+lockSuffix)
		if err != nil {
			return nil, err
		}
		if err := name.Close(); err != nil {
			return nil, err
		}
		hold, err := lock.Share(ctx, name.Name(), false, time.Minute)
		if err != nil {
			return nil, errors.Join(err, os.Remove(name.Name()))
		}
		p := &part{path: strings.TrimSuffix(name.Name(), lockSuffix), hold: hold}
		if there, err := hold.There(); err != nil || !there { // another maker cleared it away before it was locked
			if err = errors.Join(err, hold.Close()); err != nil {
				return nil, err
			}
			continue
		}
		file, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, errors.Join(err, p.discard())
		}
		return p, closeAfter(file, nil)
	}
}

// withPart makes a part in dir for fn, and discards it unless fn renames it.
func withPart(ctx context.Context, dir string, fn func(*part) error) (err error) {
	p, err := newPart(ctx, dir)
	if err != nil {
		return err
	}
	defer func() {
		// The next part in the folder removes the rest of this one. A file that already has its
		// name does not fail for that.
		if left := p.discard(); !p.named {
			err = errors.Join(err, left)
		}
	}()
	return fn(p)
}

// clearParts removes the parts of killed processes from dir. It ignores those that it can't
// remove.
func clearParts(ctx context.Context, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, rest, ok := strings.Cut(e.Name(), partSuffix)
		if !ok || !strings.HasPrefix(name, partPrefix) || rest != "" && !strings.HasPrefix(rest, "-") {
			continue
		}
		abandoned := &part{path: filepath.Join(dir, name+partSuffix)}
		if abandoned.hold, err = lock.Share(ctx, abandoned.path+lockSuffix, false, 0); err != nil {
			continue
		}
		if alone, err := abandoned.hold.TryAlone(); err != nil || !alone {
			_ = abandoned.hold.Close() // its maker is at work
			continue
		}
		_ = abandoned.discard()
	}
}

// give renames the part to its final name, which must be free, and syncs the name to the disk. If
// it fails, the name is free: a name that may not be durable is removed again.
func (p *part) give(dest string) (err error) {
	dir, err := os.Open(filepath.Dir(dest))
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	if err := machine.RenameNew(p.path, dest); err != nil {
		return err
	}
	if err := dir.Sync(); err != nil {
		err = fmt.Errorf("put the name %s on the disk: %w", dest, err)
		if back := os.Rename(dest, p.path); back != nil {
			p.named = true
			return engine.Failf(engine.ErrOutcomeUnknown, "the copy is there, whole, but a power cut "+
				"may take its name: mend the disk, and look for it", "%w, and take it away again: %w",
				err, back)
		}
		return err
	}
	p.named = true
	return nil
}

// replace renames the part to dest, and removes a file that has that name.
func (p *part) replace(dest string) error {
	if err := os.Rename(p.path, dest); err != nil {
		return err
	}
	p.named = true
	return syncFile(filepath.Dir(dest))
}

// discard removes the part if it still has its temporary name, and the files that opening it left
// beside it. The lock goes last: a part without a lock has no maker.
func (p *part) discard() error {
	var names []string
	if !p.named {
		names = append(names, p.path)
	}
	for _, suffix := range beside {
		names = append(names, p.path+suffix)
	}
	return errors.Join(removeAll(names...), p.hold.Close())
}

// syncFile puts a file's, or a folder's, content on the disk.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return closeAfter(file, file.Sync())
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
