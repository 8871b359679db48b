package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
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
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
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
	_, err := l.waitUnless(ctx, how, timeout, nil)
	return err
}

// lookAgain is how long a wait for the exclusive hold lasts before it looks whether it is needed at all, twice as long at
// most: those who look hold the file together for a moment, and must not meet for ever.
const lookAgain = 50 * time.Millisecond

// waitUnless waits for the lock, or until enough, asked under a shared lock now and then, says that there is no need.
func (l *Hold) waitUnless(ctx context.Context, how int, timeout time.Duration, enough func() (bool, error)) (got bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%v passed", timeout))
	defer cancel()
	var look time.Time
	for {
		err := flock(l.file, how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err == nil, err
		}
		if enough != nil && time.Now().After(look) && flock(l.file, unix.LOCK_SH|unix.LOCK_NB) == nil {
			if ok, err := enough(); ok || err != nil {
				return false, err
			}
			look = time.Now().Add(lookAgain + rand.N(lookAgain))
		}
		select {
		case <-ctx.Done():
			return false, l.busy(context.Cause(ctx))
		case <-time.After(Retry/2 + rand.N(Retry)):
		}
	}
}

func (l *Hold) busy(cause error) error {
	pids := Holders(l.file.Name())
	who := Name(pids)
	if who == "" {
		who = "another process"
	}
	return &engine.Failure{Kind: engine.ErrBusy, HeldBy: pids, Err: fmt.Errorf("%s has the file open: %w", who, cause)}
}

// Removed reports whether somebody deleted the lock file, so that others hold another one.
func (l *Hold) Removed() bool { return l.file != nil && removed(l.file) }

// Retake takes the shared hold on the file that lies at path now, without waiting, where the one it was on was deleted.
func (l *Hold) Retake(path string) error {
	file, err := OpenFile(path)
	if err != nil {
		return err
	}
	fresh := &Hold{file: file}
	if err := flock(file, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fresh.busy(errors.New("it has it for itself, since the lock file was deleted"))
		}
		return errors.Join(err, file.Close())
	}
	old := l.file
	l.file = file
	return old.Close()
}

// Alone exchanges the shared hold for the exclusive one. While others have the file, enough is asked now and then, under the
// shared hold, whether it is needed still: they may have done what it was wanted for. Where it fails, or is not needed, the
// shared hold is held again; in between neither was.
func (l *Hold) Alone(ctx context.Context, timeout time.Duration, enough func() (bool, error)) (alone bool, err error) {
	alone, err = l.waitUnless(ctx, unix.LOCK_EX, timeout, enough)
	if err != nil {
		return false, errors.Join(err, l.Again(ctx, timeout))
	}
	return alone, nil
}

// Again goes back to the shared hold.
func (l *Hold) Again(ctx context.Context, timeout time.Duration) error {
	return l.wait(ctx, unix.LOCK_SH, timeout)
}

// TryAlone is Alone without a wait: it reports whether nobody else has a hold. Where somebody has, the shared hold is gone.
func (l *Hold) TryAlone() (bool, error) {
	err := flock(l.file, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// There reports whether the file that is locked still has its name: others lock another one else.
func (l *Hold) There() (bool, error) {
	own, err := l.file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(l.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(own, named), err
}

// Close gives the hold up.
func (l *Hold) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
