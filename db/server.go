//go:build !nopostgres

package db

import (
	"cmp"
	"context"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/postgres"
)

// serverConnections is the largest number of connections of a handle to a server, each for writing
// and, unless Options.Readers says otherwise, for reading.
const serverConnections = 8

func openServer(ctx context.Context, address string, o Options, callbacks *callback.Callbacks,
	died func(),
) (*postgres.Engine, error) {
	config := o.server(callbacks)
	config.Died = died
	return postgres.Open(ctx, address, config)
}

func closedServer(address string, o Options, callbacks *callback.Callbacks) (engine.Closed, error) {
	return postgres.Closed{Address: address, Config: o.server(callbacks)}, nil
}

func (o Options) server(callbacks *callback.Callbacks) postgres.Config {
	readers := o.Readers
	if o.readersUnsaid {
		readers = serverConnections
	}
	return postgres.Config{
		Lazy: o.Synchronous == SyncNormal, Writers: cmp.Or(o.Writers, serverConnections), Readers: readers, ReadOnly: o.ReadOnly,
		MustExist: o.MustExist,
		AnySchema: o.AnySchema, KeepSchema: o.KeepSchema, SchemaVersion: o.SchemaVersion,
		LockTimeout: o.LockTimeout, Now: o.Now,
		Callbacks: callbacks, Mover: o.forMove,
	}
}
