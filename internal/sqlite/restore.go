package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/internal/machine"
)

// asideSuffix ends the name of a file that a restored one replaced.
const asideSuffix = ".before-restore"

// The generation of a file is odd. A copy's is even until the copy is first opened for writing, and
// gets a new one. So each time that a copy takes the place of the file, it is another file than
// before.
const (
	sqlNewGeneration  = `UPDATE selvedge_file SET generation = (random() & 0x3fffffffffffffff) | 1`
	sqlCopyGeneration = `UPDATE selvedge_file SET generation = (random() & 0x3ffffffffffffffe) | 2
		WHERE generation > 0`
)

func isCopy(generation uint64) bool { return generation != 0 && generation%2 == 0 }

// adoptCopy assigns a copy its own generation, once, when it is first opened for writing.
func (s *session) adoptCopy(e *Engine, turns *lock.Turns) error {
	return e.inTurn(turns, "give the copy a generation of its own", func(stay func() bool) error {
		return s.commit(stay, func() error {
			have, err := readVersions(s.Get)
			if err == nil && isCopy(uint64(have.Generation)) {
				if _, err = s.exec(sqlNewGeneration); err == nil {
					have, err = readVersions(s.Get)
				}
			}
			e.generation = uint64(have.Generation)
			return err
		})
	})
}

// Restore replaces the file with a checked copy of the backup.
func (f Closed) Restore(ctx context.Context, backup string) (r engine.Restored, err error) {
	defer func() { err = failure(err) }()
	e, err := newEngine(f.Path, f.Config)
	if err != nil {
		return r, err
	}
	r.Path = e.path
	from := f.Config.toRead()
	from.MustExist = true
	source, err := open(ctx, backup, from)
	if err != nil {
		return r, fmt.Errorf("open the backup: %w", err)
	}
	// The backup is only read, and an error here would make a finished restore look failed.
	defer func() { _ = closeAfter(source, nil) }()
	if source.path == e.path {
		return r, fmt.Errorf("%w: the backup is the file itself", engine.ErrInvalid)
	}
	have, err := source.Versions(ctx)
	if err != nil {
		return r, err
	}
	r.Schema = have.Schema
	if err := f.Config.Ladder.MayWrite(have); err != nil {
		return r, fmt.Errorf("the backup: %w", err)
	}
	dir := filepath.Dir(e.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, err
	}
	change := func(ctx context.Context, path string) error {
		if err := changeCopy(ctx, path, f.Config, sqlNewGeneration); err != nil {
			return fmt.Errorf("give the copy a generation of its own: %w", err)
		}
		return nil
	}
	err = source.copyTo(ctx, dir, change, func(p *part) (err error) {
		r.Kept, err = e.takePlace(ctx, p)
		if err != nil && p.named {
			if info, err := os.Lstat(e.path); err == nil {
				leaveUnsettled(keyOf(info))
			}
			err = &engine.Failure{
				Kind: engine.ErrOutcomeUnknown,
				Hint: "the restored file is there, but a power cut may bring back the one before: mend the disk, and " +
					"look which of them it is, or restore again",
				Err: err,
			}
		}
		return err
	})
	return r, err
}

// freeName returns name or the first of name-2, name-3 and so on that neither a file nor a WAL has: what an
// earlier restore kept may be the only copy.
func freeName(name string) (string, error) {
	for n, try := 2, name; ; n, try = n+1, fmt.Sprintf("%s-%d", name, n) {
		file, err := exists(try)
		wal, failed := exists(try + "-wal")
		if err = errors.Join(err, failed); err != nil || !file && !wal {
			return try, err
		}
	}
}

// changeCopy puts a copy into WAL mode, numbers it and changes it: sqlNewGeneration makes the
// cursors of the file that it was copied from expire in it. A copy of schema 7 or less gets its
// generation when it is migrated.
func changeCopy(ctx context.Context, path string, config Config, change string) error {
	return withSession(ctx, path, roleWriter, config, func(s *session) error {
		have, err := readVersions(s.Get)
		if err != nil {
			return err
		}
		err = s.commit(func() bool { return false }, func() error {
			if err := s.number(); err != nil || change == "" || have.Generation == 0 {
				return err
			}
			_, err := s.exec(change)
			return err
		})
		if err == nil {
			_, err = s.checkpoint("TRUNCATE")
		}
		return err
	})
}

// takePlace assigns the part the name of the file, with no handle open on it. The file that is
// there keeps all its content under another name. A process that dies in between leaves one of the
// two under the name, whole.
func (e *Engine) takePlace(ctx context.Context, p *part) (kept string, err error) {
	err = e.exclusively(ctx, "to put another in its place", func() (err error) {
		kept, err = e.takePlaceAlone(ctx, p)
		return err
	})
	return kept, err
}

func (e *Engine) takePlaceAlone(ctx context.Context, p *part) (kept string, err error) {
	aside, err := freeName(e.path + asideSuffix)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(e.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := e.orphanAside(aside); err != nil {
			return "", err
		}
		return "", p.give(e.path)
	}
	if err != nil {
		return "", err
	}
	created, err := e.created()
	if err != nil {
		return "", err
	}
	file, _, err := claimFile(e.path, e.config) // refuses another program's file
	var foreign error
	if err == nil {
		foreign = checkWAL(e.path, file.look)
		err = file.release()
	}
	if foreign != nil && !errors.Is(foreign, engine.ErrReplaced) {
		err = errors.Join(err, foreign)
	}
	if err != nil && created {
		return "", err
	}
	if err := likeFile(p.path, info); err != nil {
		return "", err
	}
	if !created {
		if err := e.orphanAside(aside); err != nil {
			return "", err
		}
		return "", errors.Join(emptied(ctx, e.path, e.config), p.replace(e.path))
	}
	if err := e.settleWAL(ctx, aside, foreign); err != nil {
		return "", err
	}
	return aside, p.exchange(e.path, aside)
}

// exchange gives the part the name dest, and the file that had it the name aside: in one step if
// the system can.
func (p *part) exchange(dest, aside string) error {
	if err := os.Rename(p.path, aside); err != nil {
		return err
	}
	err := machine.Exchange(aside, dest)
	if err != nil {
		if back := os.Rename(aside, p.path); back != nil || !errors.Is(err, errors.ErrUnsupported) {
			return errors.Join(err, back)
		}
		// Only here no file has the name for a moment.
		if err := os.Rename(dest, aside); err != nil {
			return err
		}
		if err := os.Rename(p.path, dest); err != nil {
			return errors.Join(err, os.Rename(aside, dest))
		}
	}
	p.named = true
	return syncFile(filepath.Dir(dest))
}

// settleWAL checkpoints the WAL into the file that is replaced: the WAL must never be applied to
// another file. If the file is too damaged for that, or the WAL is another file's, the WAL is
// renamed with it.
func (e *Engine) settleWAL(ctx context.Context, aside string, foreign error) error {
	settled := foreign
	if settled == nil {
		settled = e.checkpointed(ctx)
	}
	if err := e.unused(); err != nil {
		return err
	}
	if isBusy(settled) || errors.Is(settled, engine.ErrBusy) {
		return settled
	}
	if settled != nil {
		if err := e.walAside(aside); err != nil {
			return err
		}
	}
	return e.removeBeside()
}

// walAside renames the WAL, if there is one, to lie beside the file's new name aside.
func (e *Engine) walAside(aside string) error {
	err := os.Rename(e.path+"-wal", aside+"-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// orphanAside is walAside if no file, or an empty one, lies beside the WAL.
func (e *Engine) orphanAside(aside string) error {
	if err := e.unused(); err != nil {
		return err
	}
	return errors.Join(e.walAside(aside), syncFile(filepath.Dir(e.path)))
}

// removeBeside removes SQLite's files beside a closed file that has all its content in it.
func (e *Engine) removeBeside() error {
	if err := removeAll(e.path+"-wal", e.path+"-shm", e.path+"-journal"); err != nil {
		return err
	}
	return syncFile(filepath.Dir(e.path))
}

// removeAll removes files, and ignores missing ones.
func removeAll(paths ...string) (failed error) {
	for _, path := range paths {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// checkpointed moves all content of the WAL into the file.
func (e *Engine) checkpointed(ctx context.Context) error {
	return withConn(ctx, e.path, func(h handle) error {
		var size walSize
		err := h.failure(h.conn.GetContext(ctx, &size, "PRAGMA wal_checkpoint(TRUNCATE)"))
		if err == nil && size.Busy != 0 {
			err = fmt.Errorf("%w: another program reads or writes the file", engine.ErrBusy)
		}
		return err
	})
}
