package db

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"selvedge/internal/engine"
	"selvedge/internal/sqlite"
	"selvedge/internal/txn"
)

const memoryPath = txn.Memory

// Open opens the file at path, creates it (mode 0600, its folder 0700) if it is missing, and
// migrates it to this program's schema if it is older. path may be ":memory:". Open one handle per
// process and close it at the end.
//
// path may also be the address of a PostgreSQL server, postgres://user@host:port/database with
// libpq's settings after a ?. The tables are created there, in the schema selvedge or the one that
// search_path names; docs/postgres.md lists what is guaranteed there. An address is never used as a
// file name. A program built with the tag nopostgres returns ErrUnsupported.
//
// Each of these has its own error and leaves every byte as it was: a path that is a folder
// (ErrInvalid), a file that is no database or another program's (ErrNotADatabase), one that needs a
// newer program to write it, or to read it with Options.ReadOnly (ErrSchemaTooNew), a file beside
// another file's -wal (ErrReplaced), a network file system (ErrUnsupported), a folder that can't be
// written (fs.ErrPermission and the like), a file that another process holds exclusively (ErrBusy).
func Open(ctx context.Context, path string, options Options) (*DB, error) {
	options.forMove = engine.IsForMove(ctx)
	if err := options.check(path); err != nil {
		return nil, openError(path, err)
	}
	d := &DB{
		options: options.withDefaults(), closed: make(chan struct{}),
	}
	d.giveNumber = d.store.Callbacks.TakeNumber()
	opened, err := d.open(ctx, path)
	if err != nil {
		d.giveNumber()
		return nil, openError(path, err)
	}
	if d.options.BootTime == nil {
		d.options.BootTime = opened.Clock
	}
	d.store.Engine, d.store.Path = opened, opened.Path()
	d.store.ReadOnly = d.options.ReadOnly
	d.store.Now, d.store.BootTime = d.options.Now, d.options.BootTime
	return d, nil
}

func (d *DB) open(ctx context.Context, path string) (interface {
	engine.Engine
	Path() string
}, error,
) {
	if engine.IsAddress(path) {
		if err := engine.Readable(path); err != nil {
			return nil, err
		}
		return openServer(ctx, path, d.options, &d.store.Callbacks, d.keepers.died)
	}
	return sqlite.Open(ctx, path, d.options.sqlite(&d.store.Callbacks))
}

// openError adds a hint for people.
func openError(path string, err error) error {
	entity := "file"
	if engine.IsAddress(path) {
		entity = "database"
		path, _ = engine.WithoutSecrets(path)
	}
	e := errorOf("open", err)
	e.Entity, e.ID = entity, path
	switch {
	case e.Hint != "" || entity != "file":
	case errors.Is(err, ErrNotADatabase):
		e.Hint = "choose another path: this file belongs to another program and was left as it is"
	case errors.Is(err, ErrCorrupt):
		e.Hint = "stop the programs that use the file, and go back to a backup, or bring what is whole into a " +
			"new file: maintenance.Salvage, or migrate salvage"
	case errors.Is(err, ErrUnsupported):
		e.Hint = "keep the file on a local disk; Options.AllowNetworkFS overrides this where only one host " +
			"ever opens it"
	case errors.Is(err, ErrSchemaTooNew):
		e.Hint = "use the newer program that wrote the file"
	case errors.Is(err, ErrNotFound):
		e.Hint = "check the path; opening without MustExist and ReadOnly creates the file"
	case errors.Is(err, ErrBusy):
		e.Hint = "close the programs that have the file open, and try again"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOTDIR):
		e.Hint = "the file and its folder must be writable: SQLite keeps its WAL beside the file"
	}
	return e
}
