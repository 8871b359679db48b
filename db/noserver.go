//go:build nopostgres

package db

import (
	"context"
	"errors"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/sqlite"
)

// errNoServers is the error for a server's address in a program built without that engine.
var errNoServers = &engine.Failure{
	Kind: ErrUnsupported, Hint: "name a file, or use a program that was built without the tag nopostgres",
	Err: errors.New("this program was built without PostgreSQL, for files only"),
}

func openServer(context.Context, string, Options, *callback.Callbacks, func()) (*sqlite.Engine, error) {
	return nil, errNoServers
}

func closedServer(string, Options, *callback.Callbacks) (engine.Closed, error) {
	return nil, errNoServers
}
