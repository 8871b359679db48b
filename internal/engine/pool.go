package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// PoolOf returns an existing connection as the pool that sqlx and goose want.
func PoolOf(conn driver.Conn) *sql.DB {
	pool := sql.OpenDB(connector{conn})
	pool.SetMaxOpenConns(1)
	return pool
}

// A connector returns an existing connection to database/sql.
type connector struct{ conn driver.Conn }

// Connect returns the connection.
func (c connector) Connect(context.Context) (driver.Conn, error) { return c.conn, nil }

// Driver is never called.
func (c connector) Driver() driver.Driver { return nil }
