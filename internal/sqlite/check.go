package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/migrations"
)

// Check reads the whole file on a separate connection, so that no caller loses a reader. Each of
// its steps has its own snapshot and ends before the next one, so that the WAL can start again in
// between.
func (e *Engine) Check(ctx context.Context) (engine.Checked, error) {
	c := check{engine: e}
	if e.memory {
		err := e.Read(ctx, "check", func(r engine.Rx) error {
			c = check{engine: e, session: r.(*tx).session}
			return c.run(background) // the read itself is interrupted when ctx ends
		}).Err
		return c.Checked, err
	}
	err := e.visits.during(func() error {
		return withSession(ctx, e.path, e.readRole(), e.config, func(s *session) error {
			c.session = s
			return c.run(ctx)
		})
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return c.Checked, err
}

// A check is one call of Check.
type check struct {
	engine.Checked
	engine  *Engine
	session *session
}

// run reports its progress in bytes read: the integrity check reads each page once, and the later
// steps read the pages of rows once more.
func (c *check) run(ctx context.Context) error {
	size, err := c.session.used()
	if err != nil {
		size = 0 // badly damaged: the steps below report it
	}
	var read atomic.Int64
	return engine.Watched(ctx, "check", 2*size, read.Load, func() error {
		return c.session.readPages(ctx, &read, func() error { return c.looks(ctx) })
	})
}

func (c *check) looks(ctx context.Context) error {
	if err := c.look(damage.Integrity(ctx, c.session.conn)); err != nil {
		return err
	}
	l := c.engine.config.Ladder
	have, err := c.versions(ctx)
	if err != nil {
		return c.beside(ctx, "versions", c.look(nil, err))
	}
	if have.Schema > l.Last().Version { // additions or changes are a newer program's
		return c.look(damage.ForeignKeys(ctx, c.session.conn))
	}
	if have.Schema > 0 {
		expected, err := l.whole(ctx, have)
		if err != nil {
			return err
		}
		if err := c.look(damage.Schema(ctx, c.session.conn, expected)); err != nil {
			return err
		}
	}
	if err := c.beside(ctx, "foreign keys", c.look(damage.ForeignKeys(ctx, c.session.conn))); err != nil {
		return err
	}
	if have.Schema != l.Last().Version {
		return nil // an older file may have other tables
	}
	for _, invariant := range migrations.Checks() {
		if err := c.beside(ctx, invariant.Name,
			c.look(damage.Invariant(ctx, c.session.conn, invariant))); err != nil {
			return fmt.Errorf("invariant %s: %w", invariant.Name, err)
		}
	}
	for _, sum := range migrations.Checksums {
		found, count, err := damage.Checksums(ctx, c.session.conn, sum)
		if err := c.beside(ctx, "checksums", c.look(found, err)); err != nil {
			return fmt.Errorf("checksums of %s: %w", sum.Table, err)
		}
		if count.Rows > 0 {
			c.Checksums = append(c.Checksums, count)
		}
	}
	return nil
}

// look records the problems that one step found. If the file could not be read to the end, that is
// one more problem, and no error.
func (c *check) look(found []engine.Problem, err error) error {
	c.Problems = append(c.Problems, found...)
	if err = failure(err); errors.Is(err, engine.ErrCorrupt) {
		c.Problems = append(c.Problems, engine.Problem{Check: "integrity", Detail: err.Error()})
		return nil
	}
	return err
}

// beside turns the error of a step into a problem if the file is known to be damaged already, and
// lacks a table or a column.
func (c *check) beside(ctx context.Context, name string, err error) error {
	if err == nil || len(c.Problems) == 0 || ctx.Err() != nil || primary(err) != sqlite3.SQLITE_ERROR {
		return err
	}
	c.Problems = append(c.Problems, engine.Problem{Check: name, Detail: err.Error()})
	return nil
}

// versions reads the versions that the file records, and compares them with the program's ladder.
func (c *check) versions(ctx context.Context) (engine.Versions, error) {
	said := func(format string, args ...any) {
		c.Problems = append(c.Problems, engine.Problem{Check: "versions", Detail: fmt.Sprintf(format, args...)})
	}
	have, err := readVersions(c.session.Get)
	if err != nil {
		return have, err
	}
	if have.Schema == 0 {
		said("the tables that say which schema the file has are missing, or empty")
		return have, nil
	}
	l := c.engine.config.Ladder
	if at := l.Step(have.Schema); have.Schema <= l.Last().Version {
		if at.Version != have.Schema {
			said("the file has schema %d, which there never was", have.Schema)
		}
		if (have.MinReader != at.MinReader && !have.ShutToReaders()) ||
			(have.MinWriter != at.MinWriter && !have.Shut()) {
			said("the file is for readers from schema %d and writers from %d on; schema %d is for those from "+
				"%d and %d",
				have.MinReader, have.MinWriter, have.Schema, at.MinReader, at.MinWriter)
		}
	}
	applied, err := damage.Integers(ctx, c.session.conn,
		`SELECT version_id FROM goose_db_version WHERE is_applied ORDER BY id`)
	if err != nil {
		return have, err
	}
	for _, step := range l.Steps {
		if step.Version < have.Schema && !slices.Contains(applied, step.Version) {
			said("the file has schema %d and never got %d", have.Schema, step.Version)
		}
	}
	return have, nil
}

// mend restores what the program's own schema determines: texts in which a bit has flipped, and
// views, triggers and indexes that are missing or altered. It runs in this process's turn among
// the writers, and returns the names of what it restored.
func (e *Engine) mend(ctx context.Context) (done []string, err error) {
	turns, err := e.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = closeAfter(turns, err) }()
	texts, err := e.mending(ctx, damage.OpenUnread, damage.MendTexts)
	if err != nil {
		return nil, err
	}
	rest, err := e.mending(ctx, nil, damage.Remake)
	return append(texts, rest...), err
}

// mending runs fn in a separate transaction, with the schema that the file should have.
func (e *Engine) mending(ctx context.Context, begin func(context.Context, damage.Writer) error,
	fn func(context.Context, damage.Writer, []damage.Object) ([]string, error),
) (done []string, err error) {
	err = withConn(ctx, e.path, func(h handle) error {
		if begin != nil {
			if err := begin(ctx, h.conn); err != nil {
				return err
			}
		}
		have, err := readVersions(func(dest any, query string, args ...any) error {
			return h.conn.GetContext(ctx, dest, query, args...)
		})
		if err != nil { // the tables that record it may be the damaged ones
			last := e.config.Ladder.Last().Version
			have = engine.Versions{Schema: last, ViewsDigest: e.config.Ladder.ViewsDigest(last)}
		}
		if have.Schema == 0 || have.Schema > e.config.Ladder.Last().Version {
			return nil
		}
		expected, err := e.config.Ladder.whole(ctx, have)
		if err != nil {
			return err
		}
		return immediately(ctx, h.conn, func() (err error) {
			done, err = fn(ctx, h.conn, expected)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// Repair restores what can be restored of the schema. What Open restored is named too.
func (e *Engine) Repair(ctx context.Context) (done []string, err error) {
	if e.memory || e.config.ReadOnly {
		return nil, nil
	}
	err = e.visits.during(func() (err error) {
		done, err = e.mend(ctx)
		done = append(slices.Clone(e.mended), done...)
		return err
	})
	return done, err
}
