package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/internal/engine"
)

// A Hold is a handle's hold on FILE-lock: shared while the handle is open, exclusive for what no
// other handle may see.
type Hold struct {
	file *os.File // nil when a read-only handle can't have one
	on   int64    // the byte of the file that it is for; 0: none yet
}

// Share takes a shared hold. It waits, up to timeout, for a process with the exclusive hold.
func Share(ctx context.Context, path string, readOnly bool, timeout time.Duration) (*Hold, error) {
	file, err := OpenFile(path)
	if readOnly && err != nil {
		// Another user's file: a lock needs no right to write, and a folder without the lock file has had
		// no writer.
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

const theFile = "the file"

// Retry is the pause between two tries at a lock that a wait must be able to leave.
const Retry = 10 * time.Millisecond

func (l *Hold) wait(ctx context.Context, how int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%v passed", timeout))
	defer cancel()
	return l.poll(ctx, theFile, func() (bool, error) { return taken(flock(l.file, how|unix.LOCK_NB)) })
}

// poll tries until it is done, or ctx is. what names the contested thing for people.
func (l *Hold) poll(ctx context.Context, what string, try func() (done bool, err error)) error {
	for {
		if done, err := try(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return l.busy(what, context.Cause(ctx))
		case <-time.After(Retry/2 + rand.N(Retry)):
		}
	}
}

// taken reports whether a try at a lock got it.
func taken(err error) (bool, error) {
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EACCES) { // fcntl(2) allows either
		return false, nil
	}
	return err == nil, err
}

func (l *Hold) busy(what string, cause error) error {
	pids := Holders(l.file.Name())
	who, has := cmp.Or(Name(pids), "another process"), "has"
	if len(pids) > 1 {
		has = "have"
	}
	return &engine.Failure{
		Kind: engine.ErrBusy, HeldBy: pids,
		Err: fmt.Errorf("%s %s %s open: %w", who, has, what, cause),
	}
}

// FILE-lock has a byte for each file that may lie beside it, from filesAt on. While a process has
// a file open, no other process opens a file that replaced it: that would use the first file's
// WAL and index.
const (
	filesAt    = 1 << 41
	filesSpace = 1 << 40
)

// On ties the hold to the file with this inode, and waits, up to timeout, for processes that have
// another file open that was here before. still ends the wait with its error: if the file was
// replaced during the wait, On does not wait for the processes that have the new one open, which
// may be waiting for this one.
func (l *Hold) On(ctx context.Context, inode uint64, timeout time.Duration, still func() error) error {
	if l.file == nil {
		return still()
	}
	l.on = filesAt + int64(inode%filesSpace)
	if err := Byte(l.file, unix.F_RDLCK, l.on); err != nil {
		return fmt.Errorf("lock the byte of the file: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("it was removed or replaced, and %v passed", timeout))
	defer cancel()
	return l.poll(ctx, "the file that lay here before", func() (bool, error) {
		if err := still(); err != nil {
			return false, err
		}
		other, err := HeldBeside(l.file, filesAt, filesSpace, l.on)
		return !other, err
	})
}

// Removed reports whether the lock file was deleted, so that others hold another one.
func (l *Hold) Removed() bool { return l.file != nil && removed(l.file) }

// Retake takes the shared hold on the file that is at path now, without waiting, if the one it
// was on was deleted.
func (l *Hold) Retake(path string) error {
	file, err := OpenFile(path)
	if err != nil {
		return err
	}
	fresh := &Hold{file: file}
	if err := flock(file, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fresh.busy(theFile, errors.New("it has it for itself, since the lock file was deleted"))
		}
		return errors.Join(err, file.Close())
	}
	if l.on != 0 {
		if err := Byte(file, unix.F_RDLCK, l.on); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	old := l.file
	l.file = file
	return old.Close()
}

// aloneByte is locked by the one process that may try for the exclusive hold. It lies beside
// gateByte.
const aloneByte = gateByte + 1

// lookAgain is how often a process that waits to be alone asks whether it still needs to.
const lookAgain = 50 * time.Millisecond

// Alone exchanges the shared hold for the exclusive one. While others have the file, it calls
// enough now and then, under the shared hold, to learn whether the exclusive one is still needed:
// they may have done its work. If Alone fails, or the exclusive hold is not needed, it ends with
// the shared hold; in between it held neither.
//
// One process at a time tries and asks; all others wait for that turn and hold nothing. If they
// asked together, each would keep the file from the others, and chance would decide which of them
// ever had it alone.
func (l *Hold) Alone(ctx context.Context, timeout time.Duration, enough func() (bool, error)) (alone bool,
	err error,
) {
	if alone, err = l.alone(ctx, timeout, enough); err != nil {
		return false, errors.Join(err, l.Again(ctx, timeout))
	}
	return alone, nil
}

func (l *Hold) alone(ctx context.Context, timeout time.Duration, enough func() (bool, error)) (alone bool,
	err error,
) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%v passed", timeout))
	defer cancel()
	if err := flock(l.file, unix.LOCK_UN); err != nil {
		return false, err
	}
	if err := l.poll(ctx, theFile, func() (bool,
		error,
	) {
		return taken(Byte(l.file, unix.F_WRLCK, aloneByte))
	}); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, Byte(l.file, unix.F_UNLCK, aloneByte)) }()
	var look time.Time
	err = l.poll(ctx, theFile, func() (done bool, err error) {
		if alone, err = taken(flock(l.file, unix.LOCK_EX|unix.LOCK_NB)); alone || err != nil {
			return alone, err
		}
		if enough == nil || time.Now().Before(look) {
			return false, nil
		}
		if shared, err := taken(flock(l.file, unix.LOCK_SH|unix.LOCK_NB)); !shared || err != nil {
			return false, err
		}
		look = time.Now().Add(lookAgain)
		if done, err = enough(); done || err != nil {
			return done, err
		}
		return false, flock(l.file, unix.LOCK_UN)
	})
	return alone, err
}

// Again exchanges the exclusive hold for the shared one.
func (l *Hold) Again(ctx context.Context, timeout time.Duration) error {
	return l.wait(ctx, unix.LOCK_SH, timeout)
}

// TryAlone is Alone without a wait: it reports whether no other handle has a hold. If another one
// has, the shared hold is gone.
func (l *Hold) TryAlone() (bool, error) { return taken(flock(l.file, unix.LOCK_EX|unix.LOCK_NB)) }

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

// Close releases the hold.
func (l *Hold) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
