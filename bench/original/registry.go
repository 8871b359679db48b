package original

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Registry is the original's folder of TOML entries.
type Registry struct {
	dir     string
	sync    Sync // the original syncs the file and, after the rename, the folder
	writing int  // counts temporary files
}

// NewRegistry returns the registry in the folder dir.
func NewRegistry(dir string, sync Sync) *Registry { return &Registry{dir: dir, sync: sync} }

// Save writes an entry, as every change of one does: under the lock, beside the file, and renamed over it.
func (r *Registry) Save(e Entry) error {
	return r.locked(func() error { return r.write(e) })
}

// Reserve reads every entry, as the original does to find the holder of the thread, and writes a
// new one.
func (r *Registry) Reserve(e Entry) error {
	return r.locked(func() error {
		if err := createDirAll(r.dir); err != nil {
			return err
		}
		held, err := r.held(e.Thread)
		if err != nil {
			return err
		}
		if held || exists(r.path(e.SessionID)) {
			return fmt.Errorf("thread %s is held", e.Thread)
		}
		return r.write(e)
	})
}

func (r *Registry) held(thread string) (bool, error) {
	folder, err := os.Open(r.dir)
	if err != nil {
		return false, err
	}
	names, err := folder.Readdirnames(-1)
	if err = errors.Join(err, folder.Close()); err != nil {
		return false, err
	}
	for _, name := range names {
		if filepath.Ext(name) != ".toml" {
			continue
		}
		e, err := r.load(filepath.Join(r.dir, name))
		if err != nil {
			return false, err
		}
		if e.Status == "active" && e.Thread == thread {
			return true, nil
		}
	}
	return false, nil
}

// Update reads an entry, changes it and writes it back, all under the lock.
func (r *Registry) Update(id string, change func(*Entry)) error {
	return r.locked(func() error {
		e, err := r.load(r.path(id))
		if err != nil {
			return err
		}
		change(&e)
		return r.write(e)
	})
}

func (r *Registry) path(id string) string { return filepath.Join(r.dir, id+".toml") }

func (r *Registry) load(path string) (Entry, error) {
	if !exists(path) {
		return Entry{}, fmt.Errorf("%s is not there", path)
	}
	document, err := readToString(path)
	if err != nil {
		return Entry{}, err
	}
	return DecodeEntry(document)
}

func (r *Registry) write(e Entry) error {
	if err := createDirAll(r.dir); err != nil {
		return err
	}
	r.writing++
	beside := filepath.Join(r.dir, fmt.Sprintf(".%s.toml.tmp-%d", e.SessionID, r.writing))
	if err := writeFile(beside, e.TOML(), r.sync); err != nil {
		return err
	}
	if err := unix.Rename(beside, r.path(e.SessionID)); err != nil || !bool(r.sync) {
		return err
	}
	return syncFolder(r.dir)
}

// locked runs fn under the exclusive lock of the registry, whose file is opened for each call.
func (r *Registry) locked(fn func() error) error {
	if err := createDirAll(r.dir); err != nil {
		return err
	}
	fd, err := unix.Open(filepath.Join(r.dir, ".lock"), unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC,
		0o666)
	if err != nil {
		return err
	}
	err = unix.Flock(fd, unix.LOCK_EX)
	if err == nil {
		err = fn()
	}
	return errors.Join(err, unix.Close(fd))
}
