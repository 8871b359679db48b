package db

import (
	"context"
	"errors"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/sqlite"
)

// Exclusively is for package maintenance, which has what needs a database for itself: Migrate,
// Compact, Restore. It calls fn with the database at path, which no handle may have open, with the
// settings of o.
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
