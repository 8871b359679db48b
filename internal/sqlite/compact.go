package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
)

// GiveBack returns all free pages to the disk, in steps that hold the writer for a moment each, and
// cuts the WAL off.
func (e *Engine) GiveBack(ctx context.Context) error {
	if e.space == nil {
		return nil
	}
	if err := e.visits.begin(); err != nil {
		return err
	}
	defer e.visits.end()
	return failure(e.space.giveFreeBack(ctx))
}

// backStep is how long a step of giving back may take: the longest hold of the writer is to be 50
// ms, the commit included.
const backStep = 10 * time.Millisecond

func (s *space) giveFreeBack(ctx context.Context) error {
	left, err := s.freePages(s.ctx)
	all := left
	tell := engine.Telling(ctx)
	for pages, before := int64(leastStep), int64(-1); err == nil && left > 0 && left != before; {
		if tell != nil {
			tell(engine.Progress{Step: "give back", Done: max(all-left, 0) * pageBytes, Total: all * pageBytes})
		}
		before = left
		if s.free.Load() < littleFree {
			s.cut.Store(true) // what a step gave back is the disk's when the WAL is in the file
		}
		began := time.Now()
		left, err = s.giveBack(ctx, pages)
		switch took := time.Since(began); {
		case errors.Is(err, engine.ErrFull) && s.release():
			left, before, err = before, -1, nil
		case took < backStep/2:
			pages = min(2*pages, mostStep)
		case took > backStep:
			pages = max(pages/2, leastStep)
		}
	}
	if err != nil {
		return err
	}
	s.cut.Store(true)
	_, err = s.giveBack(ctx, 1) // the cut comes with a commit
	if s.released.Load() {
		s.lookAtDisk()
	}
	return err
}

// Compacted is what Compact did: bytes of the file before, its WAL among them, and after.
type Compacted struct {
	Path          string
	Before, After int64
}

// Compact puts a checked copy without free room into the place of the file at path, with no handle
// open on it.
func Compact(ctx context.Context, path string, config Config) (Compacted, error) {
	c, err := compact(ctx, path, config)
	return c, failure(err)
}

func compact(ctx context.Context, path string, config Config) (c Compacted, err error) {
	have, err := versionsOf(ctx, path, config)
	if err != nil {
		return c, err
	}
	if err := config.Ladder.mayWrite(have); err != nil {
		return c, err
	}
	e, err := newEngine(path, config)
	if err != nil {
		return c, err
	}
	c.Path = e.path
	hold, err := lock.Share(ctx, e.path+lockSuffix, false, config.LockTimeout)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, hold.Close()) }()
	if _, err := hold.Alone(ctx, config.LockTimeout, nil); err != nil {
		return c, fmt.Errorf("get the file alone, to put a compact copy in its place: %w", err)
	}
	file, _, err := claimFile(e.path, config) // whose is it?
	if err != nil {
		return c, err
	}
	if err := file.release(); err != nil {
		return c, err
	}
	if c.Before, err = e.bytes(); err != nil {
		return c, err
	}
	if err := e.checkpointed(ctx); err != nil {
		return c, err
	}
	whole, err := os.Stat(e.path)
	if err != nil {
		return c, err
	}
	p, err := newPart(ctx, filepath.Dir(e.path))
	if err != nil {
		return c, err
	}
	defer func() {
		if left := p.discard(); !p.named {
			err = errors.Join(err, left)
		}
	}()
	if err := e.compactInto(ctx, p); err != nil {
		return c, err
	}
	if err := e.unused(); err != nil {
		return c, err
	}
	if err := e.unchanged(whole); err != nil {
		return c, err
	}
	if err := e.removeBeside(); err != nil {
		return c, err
	}
	if err := p.replace(e.path); err != nil {
		return c, err
	}
	c.After, err = e.bytes()
	return c, err
}

// compactInto makes the part a whole, checked copy that looks like the file.
func (e *Engine) compactInto(ctx context.Context, p *part) error {
	if err := e.vacuumInto(ctx, p.path); err != nil {
		return err
	}
	if err := changeCopy(ctx, p.path, e.config, ""); err != nil {
		return fmt.Errorf("put the copy into WAL mode: %w", err)
	}
	if err := checkCopy(ctx, p.path, e.config); err != nil {
		return err
	}
	info, err := os.Lstat(e.path)
	if err != nil {
		return err
	}
	if err := likeFile(p.path, info); err != nil {
		return err
	}
	return p.complete()
}

// bytes is what the file takes, its WAL included.
func (e *Engine) bytes() (int64, error) {
	size, err := sizeOf(e.path)
	if err != nil {
		return 0, err
	}
	wal, err := sizeOf(e.path + "-wal")
	return size + wal, err
}

// unused reports, as ErrBusy, that another program has the file open, which takes no part in FILE-lock.
func (e *Engine) unused() error {
	if there, err := exists(e.path + "-shm"); err != nil || !there {
		return err
	}
	used, err := e.shmUsed()
	if err == nil && used {
		err = &engine.Failure{
			Kind: engine.ErrBusy, Hint: "close the programs that have the file open, and try again",
			Err: errors.New("another program, such as sqlite3, has the file open"),
		}
	}
	return err
}

// unchanged reports, as ErrBusy, that the file is not as it was when all its content lay in it:
// such a program came and went.
func (e *Engine) unchanged(was os.FileInfo) error {
	is, err := os.Stat(e.path)
	if err != nil {
		return err
	}
	wal, err := sizeOf(e.path + "-wal")
	if err == nil && (wal > 0 || is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime())) {
		err = &engine.Failure{
			Kind: engine.ErrBusy, Hint: "the file is as that program left it: try again when it is done",
			Err: errors.New("another program wrote the file while it was copied"),
		}
	}
	return err
}

// scrubPatience is how long Scrub waits for readers of the WAL; scrubTry is one try, while new
// readers are held back.
const (
	scrubPatience = 30 * time.Second
	scrubTry      = 2 * time.Second
)

// Scrub writes the file anew and cuts its WAL off, so that nothing of what was deleted or changed
// is left in either: no page of the old file stays as it was.
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
			f.Hint = "nothing was changed; make room for the file once more where it lies and in SQLite's " +
				"temporary folder, or name another one in SQLITE_TMPDIR"
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
				Kind: engine.ErrBusy, HeldBy: pids, Hint: "end the reads that take long, and call again: the -wal " +
					"keeps old content until then",
				Err: errors.Join(fmt.Errorf("a read keeps the WAL from being cut off %s", lock.Name(pids)),
					context.Cause(ctx)),
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
