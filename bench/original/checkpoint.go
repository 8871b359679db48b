package original

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A CheckpointStore is the original's folder of paused workflows.
type CheckpointStore struct{ dir string }

// OpenCheckpointStore makes the folder.
func OpenCheckpointStore(dir string) (*CheckpointStore, error) {
	return &CheckpointStore{dir: dir}, createDirAll(dir)
}

// Save writes a document beside its place and renames it there.
func (s *CheckpointStore) Save(runID string, document []byte) error {
	beside := filepath.Join(s.dir, "."+runID+".tmp")
	if err := writeFile(beside, document, NoSync); err != nil {
		return err
	}
	return unix.Rename(beside, filepath.Join(s.dir, runID+".json"))
}

// Claim renames the document and reads it; nil if there is no such run. The original then parses
// it, which is left to the caller. WithSync makes the claim durable, which the original does not:
// it syncs the folder, which the rename changed.
func (s *CheckpointStore) Claim(runID string, sync Sync) ([]byte, error) {
	from, to := filepath.Join(s.dir, runID+".json"), filepath.Join(s.dir, runID+".inflight")
	if exists(from) {
		if err := unix.Unlink(to); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
	if err := unix.Rename(from, to); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		return nil, err
	}
	if sync {
		if err := syncFolder(s.dir); err != nil {
			return nil, err
		}
	}
	return readToString(to)
}

func syncFolder(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fsync(fd), unix.Close(fd))
}
