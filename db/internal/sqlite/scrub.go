package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/lock"
)

// scrubPatience is how long Scrub waits for readers of the WAL; scrubTry is one try, while new readers are held back.
const (
	scrubPatience = 30 * time.Second
	scrubTry      = 2 * time.Second
)

// Scrub writes the file anew and cuts its WAL off, so that nothing of what was deleted or changed is left in either: no page of
// the old file stays as it was.
func (e *Engine) Scrub(ctx context.Context) error {
	if e.config.ReadOnly {
		return fmt.Errorf("%w: the file was opened read-only", engine.ErrInvalid)
	}
	if err := e.visits.begin(); err != nil {
		return err
	}
	defer e.visits.end()
	if e.memory {
		return nil // it ends with the process
	}
	return failure(e.scrub(ctx))
}

func (e *Engine) scrub(ctx context.Context) (err error) {
	turns, err := e.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, turns.Close()) }()
	if err := e.inPlace(); err != nil {
		return err
	}
	pool, err := openPool(e.path, roleWriter, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	s, err := retrySession(ctx, pool, roleWriter, e.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := setPragma(ctx, s.conn, pragma{"secure_delete", "1", "1"}); err != nil {
		return err
	}
	if err := e.writeAnew(ctx, s); err != nil {
		err = s.failure(err)
		if f, ok := errors.AsType[*engine.Failure](err); ok && f.Kind == engine.ErrFull { //nolint:errorlint // a kind is one of ours
			f.Hint = "nothing was changed; make room for the file once more where it lies and in SQLite's temporary folder, or name another one in SQLITE_TMPDIR"
		}
		return err
	}
	for began := time.Now(); ; {
		e.reads.shut()
		got, err := s.checkpointPatiently("TRUNCATE", scrubTry)
		e.reads.open()
		switch {
		case err != nil && !isBusy(err):
			return err
		case err == nil && got.Busy == 0:
			return nil
		case ctx.Err() != nil || time.Since(began) > scrubPatience:
			pids := lock.Readers(e.path + "-shm")
			return &engine.Failure{
				Kind: engine.ErrBusy, HeldBy: pids, Hint: "end the reads that take long, and call again: the -wal keeps old content until then",
				Err: errors.Join(fmt.Errorf("a read keeps the WAL from being cut off %s", lock.Name(pids)), context.Cause(ctx)),
			}
		}
	}
}

// writeAnew reads the file into a temporary one, and writes that into the WAL.
func (e *Engine) writeAnew(ctx context.Context, s *session) error {
	size, err := s.used()
	if err != nil {
		return err
	}
	var read atomic.Int64
	done := func() int64 {
		written, _ := sizeOf(e.path + "-wal")
		return min(read.Load(), size) + written
	}
	return engine.Watched(ctx, "write anew", 2*size, done, func() error {
		return s.readPages(ctx, &read, func() error {
			_, err := s.conn.ExecContext(ctx, "VACUUM")
			return err
		})
	})
}
