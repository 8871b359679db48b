package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/lock"
	"selvedge/migrations"
)

// A Ladder is the schema versions that a program knows, and the views that go with the last one.
type Ladder struct {
	Files        fs.FS
	Steps        []migrations.Step
	Views        string
	ViewsVersion int64
}

// ProgramLadder is the one of this program.
func ProgramLadder() *Ladder {
	return &Ladder{
		Files: migrations.SQLite(), Steps: migrations.Steps,
		Views: migrations.Views(), ViewsVersion: migrations.ViewsVersion,
	}
}

// Last is the highest version.
func (l *Ladder) Last() migrations.Step { return l.Steps[len(l.Steps)-1] }

// step is the last one of the ladder that a file with this schema has reached.
func (l *Ladder) step(version int64) migrations.Step {
	var at migrations.Step
	for _, s := range l.Steps {
		if s.Version <= version {
			at = s
		}
	}
	return at
}

const (
	sqlHasFileTable = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('selvedge_file', 'goose_db_version')`
	sqlVersions     = `SELECT (SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied) AS schema,
       min_reader, min_writer, views_version FROM selvedge_file`
	sqlSetVersions = `UPDATE selvedge_file SET min_reader = ?, min_writer = ?, views_version = ?`
	sqlTables      = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name <> 'goose_db_version' ORDER BY name`
	sqlViews       = `SELECT name FROM sqlite_schema WHERE type = 'view' AND name LIKE 'v\_%' ESCAPE '\' ORDER BY name`
)

// A getter reads versions through a transaction, as a session reads them.
type getter struct{ engine.Rx }

// Get reads one row.
func (g getter) Get(dest any, query string, args ...any) error { return g.Rx.Get(dest, query, args) }

func readVersions(g interface {
	Get(dest any, query string, args ...any) error
},
) (engine.Versions, error) {
	var v engine.Versions
	var tables int
	if err := g.Get(&tables, sqlHasFileTable); err != nil || tables < 2 {
		return v, err
	}
	err := g.Get(&v, sqlVersions)
	return v, err
}

// current reports whether nothing is to be done to a file for this program.
func (l *Ladder) current(have engine.Versions) bool {
	last := l.Last()
	if have.Schema > last.Version {
		return true // newer than this program, which mayWrite has let through: its views and versions are its own
	}
	return have == engine.Versions{Schema: last.Version, MinReader: last.MinReader, MinWriter: last.MinWriter, Views: max(have.Views, l.ViewsVersion)}
}

func (l *Ladder) mayWrite(have engine.Versions) error {
	if own := l.Last().Version; have.MinWriter > own {
		return fmt.Errorf("%w: the file has schema %d, which programs from schema %d on may write; this program has %d",
			engine.ErrSchemaTooNew, have.Schema, have.MinWriter, own)
	}
	return nil
}

func (l *Ladder) mayRead(have engine.Versions, anySchema bool) error {
	own := l.Last().Version
	switch {
	case have.MinReader > own:
		return fmt.Errorf("%w: the file has schema %d, which programs from schema %d on may read; this program has %d",
			engine.ErrSchemaTooNew, have.Schema, have.MinReader, own)
	case have.Schema < own && !anySchema:
		return &engine.Failure{
			Kind: engine.ErrInvalid, Hint: "open it once for writing, or run: migrate up",
			Err: fmt.Errorf("the file has schema %d and this program reads %d", have.Schema, own),
		}
	}
	return nil
}

// raises reports whether going to the target shuts out programs that may use the file now.
func (l *Ladder) raises(have engine.Versions, target int64) bool {
	to := l.step(target)
	return have.Schema > 0 && (to.MinReader > have.MinReader || to.MinWriter > have.MinWriter)
}

// migrate brings the file to schema version target, in this process's turn among the writers and, where older programs are
// shut out, with no other handle open. It does nothing when another process was faster.
func (e *Engine) migrate(ctx context.Context, have engine.Versions, target int64) (err error) {
	if e.config.Ladder.raises(have, target) {
		if err := e.hold.Alone(ctx, e.config.LockTimeout); err != nil {
			return fmt.Errorf("get the file alone, to migrate it from schema %d to %d: %w", have.Schema, target, err)
		}
		defer func() { err = errors.Join(err, e.hold.Again(ctx, e.config.LockTimeout)) }()
	}
	turns, err := lock.OpenTurns(e.path + queueSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, turns.Close()) }()
	if ok, err := turns.Lock(func() bool { return ctx.Err() == nil }); err != nil {
		return err
	} else if !ok {
		return fmt.Errorf("%w: another process is migrating or writing: %w", engine.ErrBusy, context.Cause(ctx))
	}
	pool, err := openPool(e.path, roleMigration, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	return e.config.Ladder.migrate(ctx, pool, target, e.config)
}

// migrate runs the migrations up to target through pool, which has one connection, so that what is set on it holds for
// goose too.
func (l *Ladder) migrate(ctx context.Context, pool *sqlx.DB, target int64, o Config) error {
	if err := bear(ctx, pool); err != nil {
		return err
	}
	s, err := retrySession(ctx, pool, roleMigration, o)
	if err != nil {
		return err
	}
	have, err := readVersions(s)
	if err == nil {
		err = l.mayWrite(have)
	}
	if err != nil || l.current(have) || have.Schema > target {
		return closeAfter(s, err)
	}
	if err := l.prepare(s, have, target); err != nil {
		return closeAfter(s, err)
	}
	before, err := countTables(s)
	if err := closeAfter(s, err); err != nil { // gives the connection to goose
		return err
	}
	if err := l.up(ctx, pool, target); err != nil {
		return err
	}
	if s, err = retrySession(ctx, pool, roleMigration, o); err != nil {
		return err
	}
	return closeAfter(s, l.finish(s, before, target))
}

// bear gives an empty file its header. auto_vacuum takes only before the first page, and whose file it is must be there
// with that page: another process may look at any moment. So both are set in one transaction, and a deferred one, since
// an immediate one would make the page first.
func bear(ctx context.Context, pool *sqlx.DB) error {
	var pages int
	if err := pool.GetContext(ctx, &pages, "PRAGMA page_count"); err != nil || pages > 0 {
		return err
	}
	script := fmt.Sprintf("BEGIN; PRAGMA auto_vacuum=2; PRAGMA application_id=%d; COMMIT", ApplicationID)
	if _, err := pool.ExecContext(ctx, script); err != nil {
		return fmt.Errorf("write the header: %w", err)
	}
	var mode int
	if err := pool.GetContext(ctx, &mode, "PRAGMA auto_vacuum"); err != nil || mode != 2 {
		return errors.Join(err, fmt.Errorf("auto_vacuum is %d after setting it to 2", mode))
	}
	return nil
}

// prepare raises what the file asks of programs before its rows change, and drops the views: a view on a table that is
// being rebuilt would refuse the rename.
func (l *Ladder) prepare(s *session, have engine.Versions, target int64) error {
	if have.Schema == 0 {
		return nil
	}
	to := l.step(target)
	return s.transaction(func() error {
		if _, err := s.exec(sqlSetVersions, max(have.MinReader, to.MinReader), max(have.MinWriter, to.MinWriter), 0); err != nil {
			return err
		}
		var views []string
		if err := s.selectAll(&views, sqlViews, nil); err != nil {
			return err
		}
		for _, v := range views {
			if _, err := s.exec(`DROP VIEW "` + v + `"`); err != nil {
				return err
			}
		}
		return nil
	})
}

// up runs goose. It has its own table of applied versions and a transaction for each migration.
func (l *Ladder) up(ctx context.Context, pool *sqlx.DB, target int64) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool.DB, l.Files)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if _, err := provider.UpTo(ctx, target); err != nil {
		return fmt.Errorf("migrate to schema %d: %w", target, err)
	}
	return nil
}

// finish checks what the migrations left and makes the views.
func (l *Ladder) finish(s *session, before map[string]int64, target int64) error {
	after, err := countTables(s)
	if err != nil {
		return err
	}
	for table, n := range before {
		if left, ok := after[table]; !ok || left != n {
			return fmt.Errorf("%w: the migration to schema %d left %d of %d rows in %s; restore the backup that was made before it",
				engine.ErrCorrupt, target, left, n, table)
		}
	}
	var broken []string
	if err := s.selectAll(&broken, `SELECT DISTINCT "table" FROM pragma_foreign_key_check`, nil); err != nil {
		return err
	}
	if len(broken) > 0 {
		return fmt.Errorf("%w: after the migration to schema %d rows of %s refer to rows that are gone", engine.ErrCorrupt, target, strings.Join(broken, ", "))
	}
	at := l.step(target)
	err = s.transaction(func() error {
		views := int64(0)
		if target == l.Last().Version {
			if _, err := s.conn.ExecContext(background, l.Views); err != nil {
				return fmt.Errorf("make the views: %w", err)
			}
			views = l.ViewsVersion
		}
		_, err := s.exec(sqlSetVersions, at.MinReader, at.MinWriter, views)
		return err
	})
	if err != nil {
		return err
	}
	// The header of the file itself must say whose it is, before any WAL is lost or left behind.
	_, err = s.checkpoint("TRUNCATE")
	return err
}

func countTables(s *session) (map[string]int64, error) {
	var tables []string
	if err := s.selectAll(&tables, sqlTables, nil); err != nil {
		return nil, err
	}
	counts := make(map[string]int64, len(tables))
	for _, t := range tables {
		if t == "selvedge_file" {
			continue
		}
		var n int64
		if err := s.Get(&n, `SELECT count(*) FROM "`+t+`"`); err != nil {
			return nil, err
		}
		counts[t] = n
	}
	return counts, nil
}

// transaction runs fn in an immediate transaction of the session's own.
func (s *session) transaction(fn func() error) error {
	if _, err := s.exec(sqlBeginImmediate); err != nil {
		return err
	}
	if err := fn(); err != nil {
		_, undo := s.exec(sqlRollback)
		return errors.Join(err, undo)
	}
	_, err := s.exec(sqlCommit)
	return err
}
