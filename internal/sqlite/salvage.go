package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/jmoiron/sqlx"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/internal/salvage"
)

// Salvage copies what can be read of the damaged file into a new one, which is made beside to,
// checked, and then renamed to it. finish gets the new file before that.
func (f Closed) Salvage(ctx context.Context, to string, keepSuspect bool,
	finish func(path string) error,
) (out engine.Salvaged, err error) {
	defer func() { err = failure(err) }()
	from, err := resolve(f.Path)
	if err != nil {
		return out, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return out, err
	}
	if there, err := exists(to); err != nil || there {
		if err == nil {
			err = engine.Failf(engine.ErrConflict, "choose a name that is not taken",
				"%s is there already", to)
		}
		return out, err
	}
	free, err := alone(ctx, from, f.Config)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, free()) }()
	if err := checkWALOf(from); err != nil {
		return out, err
	}
	source, err := salvage.Open(from)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	err = withPart(ctx, filepath.Dir(to), func(p *part) (err error) {
		if out, err = bring(ctx, source, p.path, f.Config, keepSuspect); err != nil {
			return err
		}
		if err := finish(p.path); err != nil {
			return err
		}
		if left, err := os.Stat(p.path + "-wal"); err == nil && left.Size() > 0 {
			return fmt.Errorf("the commits of %s are still in its WAL", p.path)
		}
		if err := syncFile(p.path); err != nil {
			return err
		}
		return p.give(to)
	})
	return out, err
}

// checkWALOf is checkWAL for a file that this process does not have open.
func checkWALOf(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(file, err) }()
	return checkWAL(path, file)
}

// alone keeps other programs from writing the file. If this process may make no lock beside it,
// others' locks don't count either.
func alone(ctx context.Context, path string, config Config) (free func() error, err error) {
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: there is no such file", engine.ErrNotFound)
		}
		return nil, err
	}
	if err := checkRegular(info); err != nil {
		return nil, err
	}
	sharedFiles.Lock()
	mine := sharedFiles.byKey[keyOf(info)] != nil
	sharedFiles.Unlock()
	busy := engine.Failf(engine.ErrBusy, "stop the programs that have the file open", "%s is open", path)
	if mine {
		return nil, busy
	}
	hold, err := lock.Share(ctx, path+lockSuffix, false, config.LockTimeout)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	if ok, err := hold.TryAlone(); err != nil || !ok {
		if err == nil {
			err = busy
		}
		return nil, errors.Join(err, hold.Close())
	}
	return hold.Close, nil
}

// bring fills the new file at path, which is empty.
func bring(ctx context.Context, source *salvage.Source, path string, config Config,
	keepSuspect bool,
) (out engine.Salvaged, err error) {
	l := config.Ladder
	out.Schema = l.Last().Version
	var applied int64
	for _, row := range source.Rows("goose_db_version") {
		if len(row) >= 4 {
			version, isVersion := row[2].(int64)
			done, isDone := row[3].(int64)
			if isVersion && isDone && done == 1 && l.Step(version).Version == version {
				applied = max(applied, version)
			}
		}
	}
	if applied > 0 {
		out.Schema = applied
	}
	out.Pages, out.Damaged = source.Pages(), source.Damaged()
	config.SchemaVersion = out.Schema
	e := &Engine{path: path, config: config}
	if err := e.fill(ctx, path); err != nil {
		return out, err
	}
	pool, err := openPool(path, roleMigration, 1)
	if err != nil {
		return out, err
	}
	b := &salvage.Bringing{From: source, KeepSuspect: keepSuspect}
	if err := closeAfter(pool, bringInto(ctx, pool, b, config, out.Schema)); err != nil {
		return out, err
	}
	out.Tables, out.Notes = b.Report()
	return out, nil
}

func bringInto(ctx context.Context, pool *sqlx.DB, b *salvage.Bringing, config Config,
	schema int64,
) (err error) {
	inTransaction := func(fn func() error) error {
		return onConn(ctx, pool, func(h handle) error {
			b.To = h.conn
			if _, err := h.conn.ExecContext(ctx, "PRAGMA foreign_keys = OFF"); err != nil {
				return err
			}
			return immediately(ctx, h.conn, fn)
		})
	}
	err = inTransaction(func() error {
		triggers, err := withoutTriggers(ctx, b.To)
		if err != nil {
			return err
		}
		if err := b.Bring(ctx); err != nil {
			return err
		}
		if err := b.Orphans(ctx); err != nil {
			return err
		}
		for _, t := range triggers {
			if _, err := b.To.ExecContext(ctx, t.SQL); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if last := config.Ladder.Last().Version; schema < last {
		m := &migration{ladder: config.Ladder, config: config, target: last}
		if err := m.run(ctx, pool); err != nil {
			return err
		}
	}
	return inTransaction(func() error {
		if err := b.Mend(ctx); err != nil {
			return err
		}
		return b.Guests(ctx)
	})
}

func withoutTriggers(ctx context.Context, w damage.Writer) (triggers []damage.Object, err error) {
	all, err := damage.Objects(ctx, w)
	for _, o := range all {
		if o.Type == "trigger" && err == nil {
			triggers = append(triggers, o)
			_, err = w.ExecContext(ctx, "DROP TRIGGER "+engine.Quoted(o.Name))
		}
	}
	return triggers, err
}
