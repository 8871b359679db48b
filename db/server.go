//go:build !nopostgres

package db

import (
	"cmp"
	"context"
	"net"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/internal/txn"
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
		Lazy: o.Synchronous == SyncNormal, ReadOnly: o.ReadOnly,
		Writers: cmp.Or(o.Writers, serverConnections), Readers: readers,
		MustExist: o.MustExist,
		AnySchema: o.AnySchema, KeepSchema: o.KeepSchema, SchemaVersion: o.SchemaVersion,
		LockTimeout: o.LockTimeout, Locked: txn.LockedTables(), Now: o.Now,
		Callbacks: callbacks, Mover: o.forMove, Hooks: o.hooks(callbacks),
	}
}

// hooks are the options' functions for new connections, each on a goroutine of its own, which it may
// end.
func (o Options) hooks(callbacks *callback.Callbacks) postgres.Hooks {
	hooks := postgres.Hooks{TLS: o.TLS}
	hook := func(what string, fn func()) error {
		if failed := apart(callbacks, what, fn); failed != nil {
			return &callback.GoneError{Err: failed}
		}
		return nil
	}
	if o.Password != nil {
		hooks.Password = func(ctx context.Context) (password string, err error) {
			failed := hook("Options.Password", func() { password, err = o.Password(ctx) })
			return password, cmp.Or(failed, err)
		}
	}
	if o.Dial != nil {
		hooks.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			failed := hook("Options.Dial", func() { conn, err = o.Dial(ctx, network, address) })
			return conn, cmp.Or(failed, err)
		}
	}
	return hooks
}
