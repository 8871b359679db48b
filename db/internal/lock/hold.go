package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/db/internal/engine"
)

// A Hold is a handle's hold on FILE-lock: shared while the handle is open, exclusive for what no other handle may see.
type Hold struct {
	file *os.File // nil when a read-only handle can't have one
}

// Share takes a shared hold, and waits, up to timeout, for whoever has the file alone.
func Share(ctx context.Context, path string, readOnly bool, timeout time.Duration) (*Hold, error) {
	file, err := OpenFile(path)
	if readOnly && err != nil {
		// Another user's file: a lock needs no right to write, and a folder without the lock file has had no writer.
		file, err = os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return &Hold{}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	l := &Hold{file: file}
	if err := l.wait(ctx, unix.LOCK_SH, timeout); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// Retry is the pause between two tries at a lock that a wait must be able to leave.
const Retry = 10 * time.Millisecond

func (l *Hold) wait(ctx context.Context, how int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%v passed", timeout))
	defer cancel()
	for {
		err := flock(l.file, how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s%s: %w", engine.ErrBusy, "another process has the file open", holders(l.file), context.Cause(ctx))
		case <-time.After(Retry):
		}
	}
}

// Alone exchanges the shared hold for the exclusive one. When it fails the shared one is held again.
func (l *Hold) Alone(ctx context.Context, timeout time.Duration) error {
	if err := l.wait(ctx, unix.LOCK_EX, timeout); err != nil {
		return errors.Join(err, l.Again(ctx, timeout))
	}
	return nil
}

// Again goes back to the shared hold.
func (l *Hold) Again(ctx context.Context, timeout time.Duration) error {
	return l.wait(ctx, unix.LOCK_SH, timeout)
}

// Close gives the hold up.
func (l *Hold) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
