package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A fileLock is a handle's hold on FILE-lock: shared while the handle is open, exclusive for what no other handle may see.
type fileLock struct {
	file *os.File // nil when a read-only handle can't have one
}

// lockShared waits, up to timeout, for whoever has the file alone.
func lockShared(ctx context.Context, path string, o Options) (*fileLock, error) {
	file, err := openLockFile(path + lockSuffix)
	if o.ReadOnly && err != nil {
		// Another user's file: a lock needs no right to write, and a folder without the lock file has had no writer.
		file, err = os.Open(path + lockSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			return &fileLock{}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	l := &fileLock{file: file}
	if err := l.wait(ctx, unix.LOCK_SH, o.LockTimeout); err != nil {
		return nil, closeAfter(file, err)
	}
	return l, nil
}

// lockRetry is the pause between two tries at a lock that a wait must be able to leave.
const lockRetry = 10 * time.Millisecond

func (l *fileLock) wait(ctx context.Context, how int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%v passed", timeout))
	defer cancel()
	for {
		err := flock(l.file, how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s%s: %w", ErrBusy, "another process has the file open", holders(l.file), context.Cause(ctx))
		case <-time.After(lockRetry):
		}
	}
}

// alone exchanges the shared hold for the exclusive one. When it fails the shared one is held again.
func (l *fileLock) alone(ctx context.Context, timeout time.Duration) error {
	if err := l.wait(ctx, unix.LOCK_EX, timeout); err != nil {
		return errors.Join(err, l.share(ctx, timeout))
	}
	return nil
}

// share goes back to the shared hold.
func (l *fileLock) share(ctx context.Context, timeout time.Duration) error {
	return l.wait(ctx, unix.LOCK_SH, timeout)
}

func (l *fileLock) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
