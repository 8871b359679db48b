package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"selvedge/db/internal/damage"
	"selvedge/db/internal/engine"
	"selvedge/db/internal/lock"
)

// mend makes again what can be made again of the schema: texts of which a bit is another, and views, triggers and indexes
// that are missing or another's. It runs in this process's turn among the writers, and names what it did.
func (e *Engine) mend(ctx context.Context) (done []string, err error) {
	turns, err := lock.OpenTurns(e.path + queueSuffix)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, turns.Close()) }()
	if ok, err := turns.Lock(func() bool { return ctx.Err() == nil }); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("%w: another process is writing: %w", engine.ErrBusy, context.Cause(ctx))
	}
	texts, err := e.mending(ctx, damage.OpenUnread, func(conn *sqlx.Conn, expected []damage.Object) ([]string, error) {
		return damage.MendTexts(ctx, conn, expected)
	})
	if err != nil {
		return nil, err
	}
	rest, err := e.mending(ctx, nil, func(conn *sqlx.Conn, expected []damage.Object) (done []string, err error) {
		if _, err := conn.ExecContext(ctx, sqlBeginImmediate); err != nil {
			return nil, err
		}
		if done, err = damage.Remake(ctx, conn, expected); err == nil {
			_, err = conn.ExecContext(ctx, sqlCommit)
		}
		if err != nil {
			_, undo := conn.ExecContext(ctx, sqlRollback)
			return nil, errors.Join(err, undo)
		}
		return done, nil
	})
	return append(texts, rest...), err
}

// mending gives fn a connection of its own and the schema that the file should have.
func (e *Engine) mending(ctx context.Context, begin func(context.Context, damage.Writer) error,
	fn func(*sqlx.Conn, []damage.Object) ([]string, error),
) (done []string, err error) {
	pool, err := openPool(e.path, roleWriter, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Connx(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if begin != nil {
		if err := begin(ctx, conn); err != nil {
			return nil, err
		}
	}
	have, err := readVersions(connGetter{ctx, conn})
	if err != nil { // the tables that say it may be what is to be mended
		last := e.config.Ladder.Last().Version
		have = engine.Versions{Schema: last, ViewsDigest: e.config.Ladder.viewsDigest(last)}
	}
	if have.Schema == 0 || have.Schema > e.config.Ladder.Last().Version {
		return nil, nil
	}
	expected, err := e.config.Ladder.whole(ctx, have)
	if err != nil {
		return nil, err
	}
	return fn(conn, expected)
}

type connGetter struct {
	ctx  context.Context
	conn *sqlx.Conn
}

// Get reads one row.
func (g connGetter) Get(dest any, query string, args ...any) error {
	return g.conn.GetContext(g.ctx, dest, query, args...)
}

// Repair makes again what can be made again of the schema. What Open did of it is named too.
func (e *Engine) Repair(ctx context.Context) ([]string, error) {
	if e.memory || e.config.ReadOnly {
		return nil, nil
	}
	if err := e.visits.begin(); err != nil {
		return nil, err
	}
	defer e.visits.end()
	done, err := e.mend(ctx)
	return append(slices.Clone(e.mended), done...), failure(err)
}
