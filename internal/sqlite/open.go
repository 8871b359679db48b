package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
)

// Open opens the file at path. It creates a missing file, and migrates one that is older than
// config.SchemaVersion.
func Open(ctx context.Context, path string, config Config) (*Engine, error) {
	e, err := open(ctx, path, config)
	return e, openFailure(err, path)
}

func open(ctx context.Context, path string, config Config) (*Engine, error) {
	if path == memoryPath {
		// no other process can commit
		e := &Engine{path: path, memory: true, config: config, watch: engine.NewWatchers(nil)}
		return e, e.openMemory(ctx)
	}
	e, err := newEngine(path, config)
	if err != nil {
		return nil, err
	}
	for {
		err := e.openPath(ctx)
		switch {
		case err == nil:
			return e, nil
		case errors.Is(err, errNotCreated):
			err = e.create(ctx)
		case errors.Is(err, errReplaced):
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

// newEngine returns an engine for a path at which there can be a file. It opens and makes nothing
// yet.
func newEngine(path string, config Config) (*Engine, error) {
	if path == "" || path == memoryPath {
		return nil, fmt.Errorf("%w: %q names no file", engine.ErrInvalid, path)
	}
	config.file = fileKey{}
	e := &Engine{config: config}
	e.watch, e.token = engine.NewWatchers(e.observe), uuid.New()
	var err error
	if e.path, err = resolve(path); err != nil {
		return nil, err
	}
	if err := checkPath(e.path); err != nil {
		return nil, err
	}
	return e, checkFilesystem(e.path, config)
}

func (e *Engine) openMemory(ctx context.Context) error {
	pool, err := openPool(e.path, roleWriter, 1)
	if err != nil {
		return err
	}
	m := &migration{ladder: e.config.Ladder, config: e.config, target: e.config.SchemaVersion}
	if err := m.run(ctx, pool); err != nil {
		return closeAfter(pool, err)
	}
	s, err := retrySession(ctx, pool, roleWriter, e.config)
	if err != nil {
		return closeAfter(pool, err)
	}
	s.pool = pool
	have, err := readVersions(s.Get)
	if err != nil {
		return closeAfter(s, err)
	}
	e.generation = uint64(have.Generation)
	e.writer = startWriter(e, s, nil)
	return nil
}

// openPath opens the file that now lies at the path. errNotCreated: there is none yet. errReplaced:
// before the lock was ours, the file was replaced or its schema changed.
func (e *Engine) openPath(ctx context.Context) (err error) {
	var wal bool
	if e.file, wal, err = claimFile(e.path, e.config); err != nil {
		return err
	}
	e.config.file = e.file.key
	undo := []func() error{e.file.release}
	defer func() {
		if err == nil {
			return
		}
		e.config.file = fileKey{}
		for _, f := range slices.Backward(undo) {
			err = errors.Join(err, f())
		}
		if e.onReserve > 0 {
			_ = e.fillReserve(e.onReserve) // there may be no room
			e.onReserve = 0
		}
	}()
	if e.hold, err = lock.Share(ctx, e.path+lockSuffix, e.config.ReadOnly, e.config.LockTimeout); err != nil {
		return err
	}
	undo = append(undo, e.hold.Close)
	if err := e.hold.On(ctx, e.file.key.inode, e.config.LockTimeout, e.samePath); err != nil {
		return err
	}
	if err := checkWAL(e.path, e.file.look); err != nil {
		return err
	}
	if e.config.ReadOnly {
		if e.rest, err = atRest(e.path, wal); err != nil {
			return err
		}
		// another user's gate may not be opened; then reads leave no gap
		e.reads.gate, _ = lock.OpenGate(e.path + lockSuffix)
		undo = append(undo, e.reads.close)
		return e.openReaders(ctx)
	}
	s, err := e.openWriter(ctx, wal)
	if err != nil {
		return err
	}
	undo = append(undo, s.Close)
	if e.reads.gate, err = lock.OpenGate(e.path + lockSuffix); err != nil {
		return err
	}
	undo = append(undo, e.reads.close)
	turns, err := lock.OpenTurns(e.path + queueSuffix)
	if err != nil {
		return err
	}
	undo = append(undo, turns.Close)
	if err = s.settleOpening(e, turns); err != nil {
		return s.failure(err)
	}
	if err = s.mayWrite(); err != nil {
		return s.failure(err)
	}
	if isCopy(e.generation) {
		if err = s.adoptCopy(e, turns); err != nil {
			return s.failure(err)
		}
	}
	if err = e.beside.remember(e.path); err != nil {
		return err
	}
	if err = e.openReaders(ctx); err != nil {
		return err
	}
	e.writer = startWriter(e, s, turns)
	e.space = startSpace(e)
	return nil
}

// openWriter makes sure of the file's schema, and opens the writing connection. A file that isn't
// in WAL mode yet is put into it by migrate, which has the writers' turn: the first change to WAL
// ignores busy_timeout.
func (e *Engine) openWriter(ctx context.Context, wal bool) (*session, error) {
	if !wal {
		if err := e.mayConvert(ctx); err != nil {
			return nil, err
		}
		if err := e.migrate(ctx, engine.Versions{}, e.config.SchemaVersion, up); err != nil {
			return nil, err
		}
	}
	s, err := openSession(ctx, e.path, roleWriter, e.config)
	if errors.Is(openFailure(err, e.path), engine.ErrFull) { // no room for the WAL and its index
		if e.onReserve = e.emptyReserve(); e.onReserve > 0 {
			s, err = openSession(ctx, e.path, roleWriter, e.config)
		}
	}
	if errors.Is(err, engine.ErrCorrupt) { // perhaps only a text of the schema, which can be made again
		if e.mended, err = e.mend(ctx); err == nil {
			s, err = openSession(ctx, e.path, roleWriter, e.config)
		}
	}
	if err != nil {
		return nil, err
	}
	have, stale, err := e.mayOpen(s)
	if err != nil {
		return nil, closeAfter(s, s.failure(err))
	}
	if stale {
		if err := s.Close(); err != nil { // the file must be free of us while it is migrated
			return nil, err
		}
		if err := e.migrate(ctx, have, e.config.SchemaVersion, up); err != nil {
			return nil, err
		}
		if s, err = openSession(ctx, e.path, roleWriter, e.config); err != nil {
			return nil, err
		}
		have, _, err = e.mayOpen(s) // another program may have taken it on, or back, while the hold was exchanged
		if err == nil && have.Schema < e.config.Ladder.Step(e.config.SchemaVersion).Version {
			err = errReplaced
		}
		if err != nil {
			return nil, closeAfter(s, s.failure(err))
		}
	}
	e.generation = uint64(have.Generation)
	if err := s.prepareWriter(ctx); err != nil {
		return nil, closeAfter(s, s.failure(err))
	}
	return s, nil
}

// mayConvert returns an error if the file, which isn't in WAL mode, as a fresh backup, must not be
// changed because it has an older schema.
func (e *Engine) mayConvert(ctx context.Context) error {
	if !e.config.KeepSchema {
		return nil
	}
	return withSession(ctx, e.path, roleReader, e.config, func(s *session) error {
		have, err := readVersions(s.Get)
		if err == nil && have.Schema < e.config.Ladder.Step(e.config.SchemaVersion).Version {
			err = e.config.Ladder.TooOld(have)
		}
		return err
	})
}

// mayWrite returns an error if SQLite has silently opened the file read-only, for want of
// descriptors for example: every write would fail.
func (s *session) mayWrite() error {
	_, err := s.exec("DELETE FROM selvedge_file WHERE 0") // BEGIN IMMEDIATE doesn't mind
	if err != nil && !isBusy(err) {
		return fmt.Errorf("open to write: %w", err)
	}
	return nil
}

// mayOpen reports whether this program may write the file, and whether it must be migrated first.
func (e *Engine) mayOpen(s *session) (have engine.Versions, stale bool, err error) {
	if have, err = readVersions(s.Get); err != nil {
		return have, false, err
	}
	if have.Shut() && e.config.Mover && have.Schema <= e.config.Ladder.Last().Version {
		return have, false, nil
	}
	if have.Shut() {
		return have, false, engine.MovedTo(s.Get)
	}
	if err := e.config.Ladder.MayWrite(have); err != nil {
		return have, false, err
	}
	if e.config.Ladder.Current(have, e.config.SchemaVersion) {
		return have, false, nil
	}
	if !e.config.KeepSchema {
		return have, true, nil
	}
	if have.Schema < e.config.Ladder.Step(e.config.SchemaVersion).Version {
		return have, false, e.config.Ladder.TooOld(have)
	}
	return have, false, nil // only its views are another program's
}

// openReaders makes the pool of readers. A handle without a writer checks here what the file
// allows.
func (e *Engine) openReaders(ctx context.Context) error {
	pool, err := openPool(e.path, e.readRole(), e.config.Readers)
	if err != nil {
		return err
	}
	e.readers = newReaders(e, pool, e.config.Readers)
	if !e.config.ReadOnly {
		return nil
	}
	err = e.Read(ctx, "open", func(x engine.Rx) error {
		have, err := readVersions(engine.Getting(x))
		if err != nil {
			return err
		}
		e.generation = uint64(have.Generation)
		if have.ShutToReaders() {
			return engine.MovedTo(engine.Getting(x))
		}
		return e.config.Ladder.MayRead(have, e.config.AnySchema)
	}).Err
	if err != nil {
		return errors.Join(needsWriter(err), e.readers.close())
	}
	return nil
}
