package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/lock"
)

// Open opens the file at path, creates it where it is missing, and migrates it to config.SchemaVersion where it is older.
func Open(ctx context.Context, path string, config Config) (*Engine, error) {
	e, err := open(ctx, path, config)
	return e, failure(err)
}

func open(ctx context.Context, path string, config Config) (*Engine, error) {
	e := &Engine{path: path, memory: path == memoryPath, config: config}
	if e.memory {
		return e, e.openMemory(ctx)
	}
	if path == "" {
		return nil, fmt.Errorf("%w: the path is empty", engine.ErrInvalid)
	}
	var err error
	if e.path, err = resolve(path); err != nil {
		return nil, err
	}
	if err := checkFilesystem(e.path, config); err != nil {
		return nil, err
	}
	for {
		again, err := e.openPath(ctx)
		if err != nil {
			return nil, err
		}
		if !again {
			return e, nil
		}
	}
}

func (e *Engine) openMemory(ctx context.Context) error {
	e.token = uuid.New()
	pool, err := openPool(e.path, roleWriter, 1)
	if err != nil {
		return err
	}
	if err := e.config.Ladder.migrate(ctx, pool, e.config.SchemaVersion, e.config); err != nil {
		return closeAfter(pool, err)
	}
	s, err := retrySession(ctx, pool, roleWriter, e.config)
	if err != nil {
		return closeAfter(pool, err)
	}
	e.writer = startWriter(e, pool, s, nil)
	return nil
}

// openPath opens the file that now lies at the path. It asks to be called again when another one took its place before
// the lock was ours.
func (e *Engine) openPath(ctx context.Context) (again bool, err error) {
	var wal bool
	if e.key, wal, err = claimFile(e.path, e.config); err != nil {
		return false, err
	}
	undo := []func() error{func() error { dropFile(e.key); return nil }}
	defer func() {
		if err == nil && !again {
			return
		}
		for _, f := range slices.Backward(undo) {
			err = errors.Join(err, f())
		}
	}()
	if e.hold, err = lock.Share(ctx, e.path+lockSuffix, e.config.ReadOnly, e.config.LockTimeout); err != nil {
		return false, err
	}
	undo = append(undo, e.hold.Close)
	info, err := os.Stat(e.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && keyOf(info) != e.key {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	e.owner = joinOwnership(e.key, e.path+ownersSuffix)
	e.token = e.owner.token
	undo = append(undo, e.owner.release)
	if e.config.ReadOnly {
		return false, e.openReaders(ctx)
	}
	pool, s, err := e.openWriter(ctx, wal)
	if err != nil {
		return false, err
	}
	undo = append(undo, pool.Close, s.Close)
	turns, err := lock.OpenTurns(e.path + queueSuffix)
	if err != nil {
		return false, err
	}
	undo = append(undo, turns.Close)
	if err = s.settleOpening(e, turns); err != nil {
		return false, err
	}
	if err = e.openReaders(ctx); err != nil {
		return false, err
	}
	e.writer = startWriter(e, pool, s, turns)
	return false, nil
}

// openWriter opens the writing connection of a file whose schema it has made sure of. A file that isn't in WAL mode yet
// is put into it by migrate, which has the writers' turn: the first change to WAL ignores busy_timeout.
func (e *Engine) openWriter(ctx context.Context, wal bool) (*sqlx.DB, *session, error) {
	target := e.config.SchemaVersion
	if !wal {
		if err := e.migrate(ctx, engine.Versions{}, target); err != nil {
			return nil, nil, err
		}
	}
	pool, err := openPool(e.path, roleWriter, 1)
	if err != nil {
		return nil, nil, err
	}
	s, err := retrySession(ctx, pool, roleWriter, e.config)
	if err != nil {
		return nil, nil, closeAfter(pool, err)
	}
	have, err := readVersions(s)
	if err == nil {
		err = e.config.Ladder.mayWrite(have)
	}
	if err == nil && have.Schema < target || err == nil && target == e.config.Ladder.Last().Version && !e.config.Ladder.current(have) {
		if err = s.Close(); err != nil { // the file must be free of us while it is migrated
			return nil, nil, closeAfter(pool, err)
		}
		if err = e.migrate(ctx, have, target); err == nil {
			s, err = retrySession(ctx, pool, roleWriter, e.config)
		}
		if err != nil {
			return nil, nil, closeAfter(pool, err)
		}
	}
	if err == nil {
		err = setPragma(ctx, s.conn, noPatience)
	}
	if err != nil {
		return nil, nil, closeAfter(pool, closeAfter(s, err))
	}
	return pool, s, nil
}

// openReaders makes the pool of readers. A handle that has no writer checks here what the file allows.
func (e *Engine) openReaders(ctx context.Context) error {
	pool, err := openPool(e.path, roleReader, e.config.Readers)
	if err != nil {
		return err
	}
	e.readers = newReaders(e, pool, e.config.Readers)
	if !e.config.ReadOnly {
		return nil
	}
	err = e.Read(ctx, "open", func(x engine.Rx) error {
		have, err := readVersions(getter{x})
		if err != nil {
			return err
		}
		return e.config.Ladder.mayRead(have, e.config.AnySchema)
	}).Err
	if err != nil {
		return errors.Join(err, e.readers.close())
	}
	return nil
}
