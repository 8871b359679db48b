package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
)

// GiveBack returns all free pages to the disk, in steps that hold the writer for a moment each,
// and truncates the WAL. It waits a second for a read that blocks the WAL's truncation; after a
// longer one, the file shrinks once the read has ended.
func (e *Engine) GiveBack(ctx context.Context) error {
	if e.space == nil {
		return nil
	}
	return e.visits.during(func() error { return e.space.giveFreeBack(ctx) })
}

// backStep is how long a step may hold the writer: the longest hold should be 50 ms, the commit
// included.
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
			s.cut.Store(true) // the pages are returned to the disk once the WAL is in the file
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
	// The WAL is truncated with a commit. If a read was in the way, the writer still wants a gap
	// after the commit; look tries for it too.
	for began, again := time.Now(), true; err == nil && again; {
		s.cut.Store(true)
		_, err = s.giveBack(ctx, 1)
		again = s.engine.reads.asked.Load() && time.Since(began) < spaceLook
	}
	if s.released.Load() {
		s.lookAtDisk()
	}
	return err
}

// Compact replaces the file with a checked copy that has no free room, while no handle is
// open on it.
func (f Closed) Compact(ctx context.Context) (c engine.Compacted, err error) {
	defer func() { err = failure(err) }()
	have, err := versionsOf(ctx, f.Path, f.Config)
	if err != nil {
		return c, err
	}
	if err := f.Config.Ladder.MayWrite(have); err != nil {
		return c, err
	}
	e, err := newEngine(f.Path, f.Config)
	if err != nil {
		return c, err
	}
	c.Path = e.path
	err = e.exclusively(ctx, "to put a compact copy in its place", func() error {
		file, _, err := claimFile(e.path, f.Config) // refuses another program's file
		if err != nil {
			return err
		}
		if err := file.release(); err != nil {
			return err
		}
		if c.Before, err = e.bytes(); err != nil {
			return err
		}
		if err := e.checkpointed(ctx); err != nil {
			return err
		}
		whole, err := os.Stat(e.path)
		if err != nil {
			return err
		}
		like := func(ctx context.Context, path string) error {
			if err := changeCopy(ctx, path, f.Config, ""); err != nil {
				return fmt.Errorf("put the copy into WAL mode: %w", err)
			}
			info, err := os.Lstat(e.path)
			if err != nil {
				return err
			}
			return likeFile(path, info)
		}
		err = e.copyTo(ctx, filepath.Dir(e.path), like, func(p *part) error {
			if err := e.unused(); err != nil {
				return err
			}
			if err := e.unchanged(whole); err != nil {
				return err
			}
			if err := e.removeBeside(); err != nil {
				return err
			}
			return p.replace(e.path)
		})
		if err == nil {
			c.After, err = e.bytes()
		}
		return err
	})
	return c, err
}

// exclusively runs fn while no handle is open on the file.
func (e *Engine) exclusively(ctx context.Context, why string, fn func() error) (err error) {
	hold, err := lock.Share(ctx, e.path+lockSuffix, false, e.config.LockTimeout)
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(hold, err) }()
	if _, err := hold.Alone(ctx, e.config.LockTimeout, nil); err != nil {
		return fmt.Errorf("get the file alone, %s: %w", why, err)
	}
	return fn()
}

// bytes returns the size of the file, its WAL included.
func (e *Engine) bytes() (int64, error) {
	file, wal, err := e.sizes()
	return file + wal, err
}

// shmInUse is the byte of a -shm file that every connection of whatever program holds locked
// (sqlite.org/walformat.html, "WAL locks": the deadman switch).
const shmInUse = 128

// unused returns ErrBusy if a program that does not use FILE-lock, such as sqlite3, has the file
// open.
func (e *Engine) unused() (err error) {
	file, err := os.OpenFile(e.path+"-shm", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(file, err) }()
	used, err := lock.ByteHeld(file, shmInUse)
	if err == nil && used {
		err = engine.Failf(engine.ErrBusy, "close the programs that have the file open, and try again",
			"another program, such as sqlite3, has the file open")
	}
	return err
}

// unchanged returns ErrBusy if the file is not as it was after its last checkpoint: another program
// has written to it since.
func (e *Engine) unchanged(was os.FileInfo) error {
	is, err := os.Stat(e.path)
	if err != nil {
		return err
	}
	wal, err := sizeOf(e.path + "-wal")
	if err == nil && (wal > 0 || is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime())) {
		err = engine.Failf(engine.ErrBusy,
			"the file is as that program left it: try again when it is done",
			"another program wrote the file while it was copied")
	}
	return err
}

// scrubPatience is how long Scrub waits for readers of the WAL; scrubTry is one try, while new
// readers are held back.
const (
	scrubPatience = 30 * time.Second
	scrubTry      = 2 * time.Second
)

// Scrub rewrites the file and truncates its WAL, so that neither keeps anything that was deleted or
// changed: no page of the old file stays as it was.
func (e *Engine) Scrub(ctx context.Context) error {
	if e.config.ReadOnly {
		return fmt.Errorf("%w: the file was opened read-only", engine.ErrInvalid)
	}
	return e.visits.during(func() error {
		if e.memory {
			return nil // it ends with the process
		}
		return e.scrub(ctx)
	})
}

func (e *Engine) scrub(ctx context.Context) (err error) {
	turns, err := e.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(turns, err) }()
	if err := e.inPlace(); err != nil {
		return err
	}
	return withSession(ctx, e.path, roleWriter, e.config, func(s *session) error {
		if err := setPragma(ctx, s.conn, pragma{"secure_delete", "1", "1"}); err != nil {
			return err
		}
		err := s.failure(e.rewrite(ctx, s))
		if f, ok := errors.AsType[*engine.Failure](err); ok && errors.Is(f.Kind, engine.ErrFull) {
			f.Hint = "nothing was changed; make room for the file once more where it lies and in SQLite's " +
				"temporary folder, or name another one in SQLITE_TMPDIR"
		}
		if err != nil {
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
	})
}

// rewrite reads the file into a temporary one, and writes that into the WAL.
func (e *Engine) rewrite(ctx context.Context, s *session) error {
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
