package db

import (
	"context"
	"errors"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/sqlite"
)

// Exclusively calls fn with the database at path, which no handle may have open, with the settings
// of o. It is for the calls of package maintenance that need a database exclusively: Migrate,
// Compact, Restore.
func Exclusively(ctx context.Context, path string, o Options, fn func(engine.Closed) error) (err error) {
	defer func() { err = Heard(ctx, err) }()
	if err := errors.Join(o.check(path), engine.Readable(path)); err != nil {
		return openError(path, err)
	}
	o = o.withDefaults()
	var callbacks callback.Callbacks
	defer callbacks.TakeNumber()()
	var closed engine.Closed = sqlite.Closed{Path: path, Config: o.sqlite(&callbacks)}
	if engine.IsAddress(path) {
		closed, err = closedServer(path, o, &callbacks)
	}
	if err == nil {
		err = fn(closed)
	}
	if err != nil {
		return openError(path, err)
	}
	return nil
}
