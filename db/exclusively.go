package db

import (
	"context"
	"errors"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/sqlite"
)

// Exclusively is for package maintenance, which has what needs a database for itself: Migrate,
// Compact, Restore. It calls file with the settings that o gives for the file at path; for an
// address of a server it calls server with a function that migrates the server's database, up only.
func Exclusively(ctx context.Context, path string, o Options, file func(sqlite.Config) error,
	server func(migrate func() (engine.Move, error)) error,
) (err error) {
	defer func() { err = Heard(ctx, err) }()
	if err := errors.Join(o.check(path), engine.Readable(path)); err != nil {
		return openError(path, err)
	}
	o = o.withDefaults()
	var callbacks callback.Callbacks
	defer callbacks.TakeNumber()()
	if engine.IsAddress(path) {
		err = server(func() (engine.Move, error) { return moveServer(ctx, path, o, &callbacks) })
	} else {
		err = file(o.sqlite(&callbacks))
	}
	if err != nil {
		return openError(path, err)
	}
	return nil
}
