package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/engine"
)

// A rest is how a file lay there when it was opened to be read, in a folder in which this process can make nothing. SQLite
// can't make the -shm there through which readers and writers know of each other, so it is told that the file does not
// change (immutable=1), and whether that is so is looked at before and after each read.
type rest struct {
	path string
	size int64
	at   time.Time
	key  fileKey
}

// atRest gives nil for a file that SQLite can read as usual. One with content in its WAL is never read without it.
func atRest(path string, wal bool) (*rest, error) {
	if !wal || unix.Access(filepath.Dir(path), unix.W_OK) == nil {
		return nil, nil
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if there, err := exists(path + suffix); there || err != nil {
			return nil, err // in use
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &rest{path, info.Size(), info.ModTime(), keyOf(info)}, nil
}

// unchanged is an error once somebody writes the file.
func (r *rest) unchanged() error {
	now, err := atRest(r.path, true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if now != nil && *now == *r {
		return nil
	}
	return &engine.Failure{
		Kind: engine.ErrBusy, Hint: "open it again",
		Err: errors.New("the file, which was opened where it can only be read as it lies there, is being written or was replaced"),
	}
}

// readAtRest is a read that must not have been written under.
func (e *Engine) readAtRest(ctx context.Context, why string, fn func(engine.Rx) error) callback.Outcome {
	if err := e.rest.unchanged(); err != nil {
		return callback.Outcome{Err: err}
	}
	out := e.readers.read(ctx, why, fn)
	if err := e.rest.unchanged(); err != nil && !out.Gone() {
		out.Err = err
	}
	return out
}

func (e *Engine) readRole() role {
	if e.rest != nil {
		return roleAtRest
	}
	return roleReader
}

// needsWriter says what can be done about a file that SQLite can't read without writing something first: the -shm, or what
// its last writer, who was killed, left undone.
func needsWriter(err error) error {
	switch primary(err) {
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return &engine.Failure{
			Code: code(err), Hint: "open it once for writing (migrate up does), as a user who may write the file and its folder",
			Err: fmt.Errorf("its last writer did not close it, and a reader may not finish what it left: %w: %w", fs.ErrPermission, err),
		}
	}
	return err
}
