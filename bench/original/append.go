package original

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A RunStore is the original's folder of JSONL traces.
type RunStore struct{ root string }

// NewRunStore returns the store in the folder root, which is made at the first append.
func NewRunStore(root string) *RunStore { return &RunStore{root: root} }

// Sync is whether an append waits for the disk. The original never does.
type Sync bool

// The two ways to append.
const (
	NoSync   Sync = false
	WithSync Sync = true
)

// Append appends lines, which end in line feeds, to the run's file.
func (s *RunStore) Append(agentID, runID string, lines []byte, sync Sync) error {
	dir := filepath.Join(s.root, sanitize(agentID))
	if err := s.ensureAgentDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, sanitize(runID)+".jsonl")
	existed := exists(path)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	err = appendTo(fd, path, existed, lines)
	if err == nil && bool(sync) {
		err = unix.Fsync(fd)
	}
	return errors.Join(err, unix.Close(fd))
}

func appendTo(fd int, path string, existed bool, lines []byte) error {
	if !existed {
		if err := unix.Chmod(path, 0o600); err != nil {
			return err
		}
	} else {
		torn, err := lastByteIsNotNewline(path)
		if err != nil {
			return err
		}
		if torn {
			lines = append([]byte{'\n'}, lines...)
		}
	}
	return writeAll(fd, lines)
}

func (s *RunStore) ensureAgentDir(dir string) error {
	created := !exists(s.root)
	if err := createDirAll(s.root); err != nil {
		return err
	}
	if err := unix.Chmod(s.root, 0o700); err != nil {
		return err
	}
	if created {
		if err := os.WriteFile(filepath.Join(s.root, ".nobackup"),
			[]byte("car run traces - excluded from backup\n"), 0o666); err != nil {
			return err
		}
	}
	if err := createDirAll(dir); err != nil {
		return err
	}
	return unix.Chmod(dir, 0o700)
}

// createDirAll makes the folder first and looks only when that fails, as Rust's does.
func createDirAll(dir string) error {
	err := unix.Mkdir(dir, 0o777)
	var stat unix.Stat_t
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		return os.MkdirAll(dir, 0o777)
	case unix.Stat(dir, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil
	}
	return err
}

func exists(path string) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil
}

func lastByteIsNotNewline(path string) (bool, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	torn, err := lastByteDiffers(fd)
	return torn, errors.Join(err, unix.Close(fd))
}

func lastByteDiffers(fd int) (bool, error) {
	size, err := unix.Seek(fd, 0, unix.SEEK_END)
	if err != nil || size == 0 {
		return false, err
	}
	if _, err := unix.Seek(fd, -1, unix.SEEK_END); err != nil {
		return false, err
	}
	var last [1]byte
	if _, err := unix.Read(fd, last[:]); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

var forbidden = strings.NewReplacer("/", "_", `\`, "_", "\x00", "_")

func sanitize(id string) string {
	trimmed := strings.Trim(forbidden.Replace(id), ".")
	if trimmed == "" {
		return "_"
	}
	return trimmed
}
