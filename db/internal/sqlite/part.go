package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"selvedge/db/internal/lock"
	"selvedge/db/internal/machine"
)

// A part is a database that is being made: nobody looks for the name that it has, and it gets its own when it is whole and
// on the disk. Its maker has the lock file beside it locked, so that what a killed one left can be told, and is removed when
// the next part is made in the folder.
type part struct {
	path  string
	hold  *lock.Hold
	named bool // it has its own name
}

const (
	partPrefix = ".selvedge-"
	partSuffix = ".part"
	// partName is how long the name of a part is: os.CreateTemp draws up to ten digits.
	partName = len(partPrefix) + 10 + len(partSuffix)
)

// beside are the ends of the names of files that can lie beside a database.
var beside = []string{"-journal", "-wal", "-shm", queueSuffix, lockSuffix}

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
		if there, err := hold.There(); err != nil || !there { // somebody cleared it away before it was locked
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

// clearParts removes what killed processes left in dir. What can't be removed stays for the next one: it is in nobody's way.
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

// complete puts the part's content on the disk.
func (p *part) complete() error { return syncFile(p.path) }

// give gives the part its own name, where nothing may be yet, and puts the name on the disk. When it fails the name is free:
// a name that may not last is taken away again.
func (p *part) give(dest string) (err error) {
	dir, err := os.Open(filepath.Dir(dest))
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // nothing was written through it
	if err := machine.RenameNew(p.path, dest); err != nil {
		return err
	}
	if err := dir.Sync(); err != nil {
		err = fmt.Errorf("put the name %s on the disk: %w", dest, err)
		if back := os.Rename(dest, p.path); back != nil {
			p.named = true
			return fmt.Errorf("%w; the copy is there, whole, but a power cut may take its name: %w", err, back)
		}
		return err
	}
	p.named = true
	return nil
}

// replace gives the part a name that another file may have, which is gone then.
func (p *part) replace(dest string) error {
	if err := os.Rename(p.path, dest); err != nil {
		return err
	}
	p.named = true
	return syncFile(filepath.Dir(dest))
}

// discard removes what still has the part's first name, and what opening it left beside it. The lock goes last: a part
// without one is nobody's.
func (p *part) discard() error {
	var failed error
	names := []string{p.path}
	if p.named {
		names = nil
	}
	for _, suffix := range beside {
		names = append(names, p.path+suffix)
	}
	for _, name := range names {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return errors.Join(failed, p.hold.Close())
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
