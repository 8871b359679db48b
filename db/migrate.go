package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"selvedge/migrations"
)

// A ladder is the schema versions that a program knows, and the views that go with the last one.
type ladder struct {
	files        fs.FS
	steps        []migrations.Step
	views        string
	viewsVersion int64
}

func programLadder() *ladder {
	return &ladder{
		files: migrations.SQLite(), steps: migrations.Steps,
		views: migrations.Views(), viewsVersion: migrations.ViewsVersion,
	}
}

// SchemaVersion is the schema version of this program.
func SchemaVersion() int64 { return programLadder().last().Version }

func (l *ladder) last() migrations.Step { return l.steps[len(l.steps)-1] }

// step is the last one of the ladder that a file with this schema has reached.
func (l *ladder) step(version int64) migrations.Step {
	var at migrations.Step
	for _, s := range l.steps {
		if s.Version <= version {
			at = s
		}
	}
	return at
}

// versions is what a file says of itself. All are 0 in a file that has no schema yet.
type versions struct {
	Schema    int64 `db:"schema"`
	MinReader int64 `db:"min_reader"`
	MinWriter int64 `db:"min_writer"`
	Views     int64 `db:"views_version"`
}

const (
	sqlHasFileTable = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('selvedge_file', 'goose_db_version')`
	sqlVersions     = `SELECT (SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied) AS schema,
       min_reader, min_writer, views_version FROM selvedge_file`
	sqlSetVersions = `UPDATE selvedge_file SET min_reader = ?, min_writer = ?, views_version = ?`
	sqlTables      = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name <> 'goose_db_version' ORDER BY name`
	sqlViews       = `SELECT name FROM sqlite_schema WHERE type = 'view' AND name LIKE 'v\_%' ESCAPE '\' ORDER BY name`
)

// A getter is what versions can be read through: a session or a transaction.
type getter interface {
	Get(dest any, query string, args ...any) error
}

func readVersions(g getter) (versions, error) {
	var v versions
	var tables int
	if err := g.Get(&tables, sqlHasFileTable); err != nil || tables < 2 {
		return v, err
	}
	err := g.Get(&v, sqlVersions)
	return v, err
}

// current reports whether nothing is to be done to a file for this program.
func (l *ladder) current(have versions) bool {
	last := l.last()
	if have.Schema > last.Version {
		return true // newer than this program, which mayWrite has let through: its views and versions are its own
	}
	return have == versions{last.Version, last.MinReader, last.MinWriter, max(have.Views, l.viewsVersion)}
}

func (l *ladder) mayWrite(have versions) error {
	if own := l.last().Version; have.MinWriter > own {
		return fmt.Errorf("%w: the file has schema %d, which programs from schema %d on may write; this program has %d",
			ErrSchemaTooNew, have.Schema, have.MinWriter, own)
	}
	return nil
}

func (l *ladder) mayRead(have versions, anySchema bool) error {
	own := l.last().Version
	switch {
	case have.MinReader > own:
		return fmt.Errorf("%w: the file has schema %d, which programs from schema %d on may read; this program has %d",
			ErrSchemaTooNew, have.Schema, have.MinReader, own)
	case have.Schema < own && !anySchema:
		return &Error{
			Op: "open", Hint: "open it once for writing, or run: migrate up",
			Err: fmt.Errorf("%w: the file has schema %d and this program reads %d", ErrInvalid, have.Schema, own),
		}
	}
	return nil
}

// raises reports whether going to the target shuts out programs that may use the file now.
func (l *ladder) raises(have versions, target int64) bool {
	to := l.step(target)
	return have.Schema > 0 && (to.MinReader > have.MinReader || to.MinWriter > have.MinWriter)
}

// migrate brings the file to schema version target, in this process's turn among the writers and, where older programs are
// shut out, with no other handle open. It does nothing when another process was faster.
func (d *DB) migrate(ctx context.Context, have versions, target int64) (err error) {
	if d.ladder.raises(have, target) {
		if err := d.file.alone(ctx, d.options.LockTimeout); err != nil {
			return fmt.Errorf("get the file alone, to migrate it from schema %d to %d: %w", have.Schema, target, err)
		}
		defer func() { err = errors.Join(err, d.file.share(ctx, d.options.LockTimeout)) }()
	}
	queue, err := openQueue(d.path + queueSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.close()) }()
	if ok, err := queue.lock(func() bool { return ctx.Err() == nil }); err != nil {
		return err
	} else if !ok {
		return fmt.Errorf("%w: another process is migrating or writing: %w", ErrBusy, context.Cause(ctx))
	}
	pool, err := openPool(d.path, roleMigration, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	return d.ladder.migrate(ctx, pool, target, d.options)
}

// migrate runs the migrations up to target through pool, which has one connection, so that what is set on it holds for
// goose too.
func (l *ladder) migrate(ctx context.Context, pool *sqlx.DB, target int64, o Options) error {
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
func (l *ladder) prepare(s *session, have versions, target int64) error {
	if have.Schema == 0 {
		return nil
	}
	to := l.step(target)
	return s.transaction(func() error {
		if _, err := s.exec(sqlSetVersions, max(have.MinReader, to.MinReader), max(have.MinWriter, to.MinWriter), 0); err != nil {
			return err
		}
		var views []string
		if err := s.selectAll(&views, sqlViews); err != nil {
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
func (l *ladder) up(ctx context.Context, pool *sqlx.DB, target int64) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool.DB, l.files)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if _, err := provider.UpTo(ctx, target); err != nil {
		return fmt.Errorf("migrate to schema %d: %w", target, err)
	}
	return nil
}

// finish checks what the migrations left and makes the views.
func (l *ladder) finish(s *session, before map[string]int64, target int64) error {
	after, err := countTables(s)
	if err != nil {
		return err
	}
	for table, n := range before {
		if left, ok := after[table]; !ok || left != n {
			return fmt.Errorf("%w: the migration to schema %d left %d of %d rows in %s; restore the backup that was made before it",
				ErrCorrupt, target, left, n, table)
		}
	}
	var broken []string
	if err := s.selectAll(&broken, `SELECT DISTINCT "table" FROM pragma_foreign_key_check`); err != nil {
		return err
	}
	if len(broken) > 0 {
		return fmt.Errorf("%w: after the migration to schema %d rows of %s refer to rows that are gone", ErrCorrupt, target, strings.Join(broken, ", "))
	}
	at := l.step(target)
	err = s.transaction(func() error {
		views := int64(0)
		if target == l.last().Version {
			if _, err := s.conn.ExecContext(background, l.views); err != nil {
				return fmt.Errorf("make the views: %w", err)
			}
			views = l.viewsVersion
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
	if err := s.selectAll(&tables, sqlTables); err != nil {
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

func (s *session) selectAll(dest any, query string) error {
	st, err := s.prepare(query)
	if err != nil {
		return err
	}
	return st.SelectContext(background, dest)
}

// A Migration is one schema version, for people.
type Migration struct {
	Version int64
	Name    string // of its file
	Applied bool
	SQL     string // the statements that bring it in
}

// Migrations lists the program's schema versions and which of them a file with this schema has.
func Migrations(schema int64) ([]Migration, error) {
	l := programLadder()
	files, err := fs.Glob(l.files, "*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var list []Migration
	for _, name := range files {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		text, err := fs.ReadFile(l.files, name)
		if err != nil {
			return nil, err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		list = append(list, Migration{Version: version, Name: name, Applied: version <= schema, SQL: strings.TrimSpace(up)})
	}
	return list, nil
}
