package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"selvedge/internal/txn"
)

// A scratch is a temporary folder for a database. Its process holds a lock on it: an unlocked
// folder was left behind by a process that was killed.
type scratch struct {
	path string
	held *os.File
}

const (
	scratchInfix = "-verify-"   // between a file's path and the number of a scratch folder
	scratchFile  = "derived.db" // the database in it; other files' names begin with it
)

// besides is the path beside which a database's scratch folders are: for a server, one among the
// temporary files.
func besides(path string) string {
	if txn.OnServer(path) {
		return filepath.Join(os.TempDir(), "selvedge")
	}
	return path
}

// newScratch makes a folder beside the file at path, or if it can't, among the temporary files.
// It removes earlier ones that were left beside the file.
func newScratch(path string) (*scratch, error) {
	path = besides(path)
	RemoveLeft(path)
	for {
		folder, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+scratchInfix)
		if err != nil { // a folder that can't be written to
			folder, err = os.MkdirTemp("", "selvedge"+scratchInfix)
		}
		if err != nil {
			return nil, err
		}
		s, _, err := hold(folder)
		if s != nil || err != nil {
			return s, err
		}
	}
}

// hold locks a folder. It returns nil if another process holds it or has removed it. alone is false
// if the file system has no locks: then another process may hold it too.
func hold(folder string) (s *scratch, alone bool, err error) {
	f, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	locked, here := f.Stat()
	now, there := os.Lstat(folder)
	if errors.Is(err, syscall.EWOULDBLOCK) || here != nil || there != nil || !os.SameFile(locked, now) {
		return nil, false, f.Close()
	}
	return &scratch{folder, f}, err == nil, nil
}

// release unlocks the folder and leaves it. Nothing was written through held.
func (s *scratch) release() { _ = s.held.Close() }

// remove removes the folder.
func (s *scratch) remove() error { return errors.Join(os.RemoveAll(s.path), s.held.Close()) }

// RemoveLeft removes the scratch folders beside the file at path that killed processes left, and
// returns their paths. A folder that a live process holds stays. One that can't be removed is left
// for the next time.
func RemoveLeft(path string) (removed []string) {
	path = besides(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+scratchInfix)
		folder := filepath.Join(filepath.Dir(path), e.Name())
		if !ok || !e.IsDir() || digits == "" || strings.Trim(digits, "0123456789") != "" || !isScratch(folder) {
			continue
		}
		s, alone, err := hold(folder)
		switch {
		case s == nil || err != nil:
		case !alone:
			_ = s.held.Close()
		case s.remove() == nil:
			removed = append(removed, folder)
		}
	}
	return removed
}

// isScratch reports whether a folder holds nothing but a scratch folder's files.
func isScratch(folder string) bool {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), scratchFile) && !strings.HasPrefix(e.Name(), ".selvedge-") {
			return false
		}
	}
	return err == nil
}
