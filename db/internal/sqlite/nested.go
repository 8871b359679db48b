package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
)

// A nestedPool is a session's own connection as goose wants it, a *sql.DB. goose begins and commits a transaction for each
// migration; here each is a savepoint of the transaction that the session has begun, so that all of them take effect
// together or not at all.
type nestedPool struct{ *sql.DB }

// nested runs fn with the session's connection as a pool. ctx interrupts the statements that run in it.
func (s *session) nested(ctx context.Context, fn func(*nestedPool) error) error {
	return s.conn.Raw(func(raw any) (err error) {
		c, ok := raw.(nestable)
		if !ok {
			return fmt.Errorf("the driver's connection is a %T, which can't be shared", raw)
		}
		pool := &nestedPool{sql.OpenDB(nestedConnector{nestedConn{nestable: c, ctx: ctx}})}
		pool.SetMaxOpenConns(1)
		defer func() {
			if closed := pool.Close(); err == nil {
				err = closed
			}
		}()
		return fn(pool)
	})
}

// nestable is what the driver's connections can.
type nestable interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type nestedConnector struct{ conn nestedConn }

func (c nestedConnector) Connect(context.Context) (driver.Conn, error) { return c.conn, nil }
func (c nestedConnector) Driver() driver.Driver                        { return nil }

// A nestedConn is a connection that belongs to somebody else. Statements get the context of the one who waits for the
// migration and not that of database/sql, which would roll back on a goroutine of its own when the context ends.
type nestedConn struct {
	nestable
	ctx context.Context
}

var (
	_ driver.ConnBeginTx = nestedConn{}
	_ driver.Tx          = nestedTx{}
)

func (c nestedConn) Close() error { return nil }

func (c nestedConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.nestable.ExecContext(c.ctx, query, args)
}

func (c nestedConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.nestable.QueryContext(c.ctx, query, args)
}

func (c nestedConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	_, err := c.nestable.ExecContext(background, "SAVEPOINT migration", nil)
	return nestedTx{c.nestable}, err
}

type nestedTx struct{ conn nestable }

func (t nestedTx) Commit() error {
	_, err := t.conn.ExecContext(background, "RELEASE migration", nil)
	return err
}

func (t nestedTx) Rollback() error {
	_, err := t.conn.ExecContext(background, "ROLLBACK TO migration; RELEASE migration", nil)
	return err
}
