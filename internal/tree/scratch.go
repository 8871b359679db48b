package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"selvedge/db"
)

// A scratch is a folder for a file that is needed for a while. Its maker holds a lock on it as
// long: one that nobody holds was left behind by a process that was killed.
type scratch struct {
	path string
	held *os.File
}

const (
	scratchInfix = "-verify-"   // between the path of a file and the digits that tell its scratch folders apart
	scratchFile  = "derived.db" // what is in one: this, and files whose names begin so
)

// besides is the path beside which scratch folders of a database are: among temporary files where
// it is on a server.
func besides(path string) string {
	if db.IsAddress(path) {
		return filepath.Join(os.TempDir(), "selvedge")
	}
	return path
}

// newScratch makes a folder beside the file at path, or where nothing may be made there, among
// temporary files. What was left beside the file it removes.
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

// hold takes a folder: nil where another process has it, or has removed it meanwhile. alone is
// false where the file system has no locks, so that nobody can know whether another has it.
func hold(folder string) (s *scratch, alone bool, err error) {
	f, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	locked, here := f.Stat()
	now, there := os.Lstat(folder)
	if errors.Is(err, syscall.EWOULDBLOCK) || here != nil || there != nil || !os.SameFile(locked, now) {
		return nil, false, f.Close()
	}
	return &scratch{folder, f}, err == nil, nil
}

func (s *scratch) file() string { return filepath.Join(s.path, scratchFile) }

// remove removes the folder.
func (s *scratch) remove() error { return errors.Join(os.RemoveAll(s.path), s.held.Close()) }

// RemoveLeft removes the scratch folders beside the file at path that processes which were killed
// have left, and gives their paths. One that a living process holds stays, and what can't be
// removed is left for the next time: it is in nobody's way.
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
		if s == nil || err != nil {
			continue
		}
		if !alone {
			_ = s.held.Close()
			continue
		}
		if s.remove() == nil {
			removed = append(removed, folder)
		}
	}
	return removed
}

// isScratch reports whether nothing is in a folder that was not made there.
func isScratch(folder string) bool {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), scratchFile) && !strings.HasPrefix(e.Name(), ".selvedge-") {
			return false
		}
	}
	return err == nil
}
