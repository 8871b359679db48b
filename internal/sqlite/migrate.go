package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/migrations"
)

// A direction says what becomes of a file beyond the target version.
type direction int

const (
	up   direction = iota // it stays as it is
	down                  // it is migrated down
)

// A Closed is a file that no handle has open. Its methods need exclusive access.
type Closed struct {
	Path   string
	Config Config
}

// Migrate brings the file to Config.SchemaVersion, up or down.
func (f Closed) Migrate(ctx context.Context) (m engine.Move, err error) {
	defer func() { err = failure(err) }()
	have, err := versionsOf(ctx, f.Path, f.Config)
	// open reports other faults below
	if err != nil && !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, engine.ErrNotADatabase) {
		return m, err
	}
	if have.Schema <= f.Config.SchemaVersion {
		e, err := open(ctx, f.Path, f.Config)
		if err != nil {
			return m, err
		}
		if m = e.moved; m.To == 0 {
			m.From, m.To = have.Schema, have.Schema
		}
		return m, e.Close()
	}
	if err := f.Config.Ladder.mayGoDown(have); err != nil {
		return m, err
	}
	e, err := newEngine(f.Path, f.Config)
	if err != nil {
		return m, err
	}
	return e.down(ctx, have)
}

func (l *Ladder) mayGoDown(have engine.Versions) error {
	if own := l.Last().Version; have.Schema > own {
		return fmt.Errorf("%w: the file has schema %d, and only a program that knows it can take it down; this "+
			"one knows %d", engine.ErrSchemaTooNew, have.Schema, own)
	}
	return nil
}

// versionsOf reads the versions of a file, whatever its schema.
func versionsOf(ctx context.Context, path string, config Config) (engine.Versions, error) {
	e, err := open(ctx, path, config.toRead())
	if err != nil {
		return engine.Versions{}, err
	}
	have, err := e.Versions(ctx)
	return have, closeAfter(e, err)
}

// toRead returns the configuration for reading a file of any schema.
func (o Config) toRead() Config {
	o.ReadOnly, o.AnySchema, o.Readers = true, true, 1
	return o
}

// down takes the file back, with no other handle open.
func (e *Engine) down(ctx context.Context, have engine.Versions) (m engine.Move, err error) {
	if e.file, _, err = claimFile(e.path, e.config); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, e.file.release()) }()
	if e.hold, err = lock.Share(ctx, e.path+lockSuffix, false, e.config.LockTimeout); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, e.hold.Close()) }()
	if err := e.samePath(); err != nil {
		return m, err
	}
	err = e.migrate(ctx, have, e.config.SchemaVersion, down)
	return e.moved, err
}

// Rehearse does to a copy of the file what Migrate would do to the file, checks the copy and
// removes it.
func (f Closed) Rehearse(ctx context.Context) (_ engine.Move, err error) {
	defer func() { err = failure(err) }()
	e, err := open(ctx, f.Path, f.Config.toRead())
	if err != nil {
		return engine.Move{}, err
	}
	defer func() { err = closeAfter(e, err) }()
	have, err := e.Versions(ctx)
	if err != nil {
		return engine.Move{}, err
	}
	r := &migration{
		ladder: f.Config.Ladder, config: f.Config,
		target: f.Config.Ladder.Step(f.Config.SchemaVersion).Version,
		keep:   func(_ context.Context, version int64) (string, error) { return e.keptName(version), nil },
	}
	if have.Schema > r.target {
		if err := f.Config.Ladder.mayGoDown(have); err != nil {
			return engine.Move{}, err
		}
		r.where = down
	}
	err = e.copyTo(ctx, filepath.Dir(e.path), r.runAt, nil)
	return r.Move, err
}

// errReplaced: another file has the path now; open it again.
var errReplaced = errors.New("another file took the place of this one")

// migrate brings the file to schema version target, in this process's turn among the writers and,
// if other programs are shut out, with no other handle open. It does nothing if another process
// was faster.
func (e *Engine) migrate(ctx context.Context, have engine.Versions, target int64,
	where direction,
) (err error) {
	target = e.config.Ladder.Step(target).Version
	if e.config.Ladder.shutsOut(have, target) {
		alone, err := e.hold.Alone(ctx, e.config.LockTimeout,
			func() (bool, error) { return e.reached(ctx, target, where) })
		if err != nil {
			return fmt.Errorf("get the file alone, to migrate it from schema %d to %d: %w", have.Schema, target, err)
		}
		if alone {
			defer func() { err = errors.Join(err, e.again(ctx)) }()
		}
		if err := e.samePath(); err != nil || !alone {
			return err
		}
	}
	return e.migrateInTurn(ctx, target, where)
}

// again goes back to the shared hold. The file may have been replaced in between.
func (e *Engine) again(ctx context.Context) error {
	if err := e.hold.Again(ctx, e.config.LockTimeout); err != nil {
		return err
	}
	return e.samePath()
}

// samePath returns errReplaced if the path now belongs to another file.
func (e *Engine) samePath() error {
	info, err := os.Stat(e.path)
	if errors.Is(err, os.ErrNotExist) || err == nil && keyOf(info) != e.file.key {
		return errReplaced
	}
	return err
}

// reached reports whether another process has brought the file to the version that this one
// wants.
func (e *Engine) reached(ctx context.Context, target int64, where direction) (ok bool, err error) {
	if err := e.samePath(); err != nil {
		return false, err
	}
	err = withSession(ctx, e.path, roleReader, e.config, func(s *session) error {
		have, err := readVersions(s.Get)
		if err != nil {
			return err
		}
		if have.Shut() {
			return engine.MovedTo(s.Get)
		}
		ok = e.config.Ladder.arrived(have, target, where)
		return e.config.Ladder.MayWrite(have)
	})
	return ok && err == nil, err
}

// takeTurn takes the writing turn for work outside the writer. Closing it passes the turn on.
func (e *Engine) takeTurn(ctx context.Context) (*lock.Turns, error) {
	turns, err := lock.OpenTurns(e.path + queueSuffix)
	if err != nil {
		return nil, err
	}
	ok, err := turns.Lock(func() bool { return ctx.Err() == nil })
	if err == nil && !ok {
		err = fmt.Errorf("%w: another call or process is migrating or writing: %w", engine.ErrBusy,
			context.Cause(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, turns.Close())
	}
	return turns, nil
}

// arrived reports whether there is nothing to do.
func (l *Ladder) arrived(have engine.Versions, target int64, where direction) bool {
	return l.Current(have, target) && (where == up || have.Schema <= target)
}

func (e *Engine) migrateInTurn(ctx context.Context, target int64, where direction) (err error) {
	turns, err := e.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, turns.Close()) }()
	m := &migration{ladder: e.config.Ladder, config: e.config, target: target, where: where, keep: e.keepCopy}
	err = m.runAt(ctx, e.path)
	e.moved = m.Move
	if err != nil && m.Backup != "" {
		return fmt.Errorf("%w (the file is as it was; a copy of it, too, is in %s)", err, m.Backup)
	}
	if err == nil && m.Backup != "" {
		e.dropOlderCopies(m.Backup)
	}
	return err
}

// A migration takes one file to another schema version: it runs every step, makes the views and
// records the versions, in one transaction.
type migration struct {
	engine.Move
	ladder *Ladder
	config Config
	target int64
	where  direction
	// keep copies the file and returns the copy's path; nil if there is nothing to lose.
	keep func(ctx context.Context, version int64) (string, error)

	session *session
	have    engine.Versions
	empty   bool // there is nothing in the file
}

// runAt migrates the file at path.
func (m *migration) runAt(ctx context.Context, path string) error {
	pool, err := openPool(path, roleMigration, 1)
	if err != nil {
		return err
	}
	return closeAfter(pool, m.run(ctx, pool))
}

// run migrates through pool, which has one connection.
func (m *migration) run(ctx context.Context, pool *sqlx.DB) error {
	if err := onConn(ctx, pool, func(h handle) error { return writeHeader(ctx, h.conn) }); err != nil {
		return err
	}
	s, err := retrySession(ctx, pool, roleMigration, m.config)
	if err != nil {
		return err
	}
	m.session = s
	return closeAfter(s, s.failure(m.inTransaction(ctx)))
}

func (m *migration) inTransaction(ctx context.Context) error {
	s := m.session
	if err := m.begin(ctx); err != nil {
		return err
	}
	changed, err := m.change(ctx)
	if err != nil || !changed {
		_, _ = s.exec(sqlRollback) // it fails if SQLite ended the transaction itself
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return fmt.Errorf("%w (%w)", cause, err)
		}
		return err
	}
	if err := s.commitNow(); err != nil {
		_, _ = s.exec(sqlRollback)
		return fmt.Errorf("commit the migration to schema %d: %w", m.To, err)
	}
	// The file's own header must have the application_id before any WAL is lost or left behind.
	_, err = s.checkpoint("TRUNCATE")
	return err
}

// begin takes SQLite's write lock, and waits for a program outside our queue that has it.
func (m *migration) begin(ctx context.Context) error {
	if err := setPragma(ctx, m.session.conn, noPatience); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.config.LockTimeout)
	defer cancel()
	for {
		err := m.session.begin()
		if !isBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return waitEnded(ctx, "SQLite's write lock")
		case <-time.After(lock.Retry):
		}
	}
}

// change makes all changes of the migration, which a failure undoes.
func (m *migration) change(ctx context.Context) (changed bool, err error) {
	s, l := m.session, m.ladder
	if m.have, err = readVersions(s.Get); err != nil {
		return false, err
	}
	m.From, m.To = m.have.Schema, max(m.have.Schema, m.target)
	if m.where == down {
		m.To = m.target
	}
	if err := l.MayWrite(m.have); err != nil {
		return false, err
	}
	if l.arrived(m.have, m.target, m.where) {
		return false, nil
	}
	var there []object
	if err := s.Select(&there, sqlObjects); err != nil {
		return false, err
	}
	if len(there) == 0 {
		m.empty = true
		return true, m.climb(ctx, nil)
	}
	ours, err := l.whole(ctx, engine.Versions{Schema: m.From})
	if err != nil {
		return false, err
	}
	next, err := l.whole(ctx, engine.Versions{Schema: m.To, ViewsDigest: l.ViewsDigest(m.To)})
	if err != nil {
		return false, err
	}
	made, err := m.viewsMade()
	if err != nil {
		return false, err
	}
	if err := inTheWay(there, ours, next, made); err != nil {
		return false, err
	}
	before, err := m.count()
	if err != nil {
		return false, err
	}
	if m.keep != nil && m.needsCopy(before.rows) {
		if m.Backup, err = m.keep(ctx, m.From); err != nil {
			return false, fmt.Errorf("keep a copy of the file before it is migrated: %w", err)
		}
	}
	own := userObjectsAmong(s, there, ours, made)
	if err := own.aside(); err != nil {
		return false, err
	}
	if err := dropViews(s, made); err != nil {
		return false, err
	}
	if err := m.climb(ctx, own); err != nil {
		return false, err
	}
	return true, m.compare(before)
}

// viewsMade are the names of the file's views that our programs made.
func (m *migration) viewsMade() ([]string, error) {
	var names string
	err := m.session.Get(&names, sqlViewsMade)
	if primary(err) == sqlite3.SQLITE_ERROR { // there is no such column yet
		return migrations.ViewsBefore8, nil
	}
	return strings.Fields(names), err
}

func dropViews(s *session, names []string) error {
	for _, name := range names {
		if _, err := s.exec("DROP VIEW IF EXISTS " + engine.Quoted(name)); err != nil {
			return err
		}
	}
	return nil
}

// climb runs the steps, makes the views, restores the users' objects, and records the file's
// versions.
func (m *migration) climb(ctx context.Context, own *userObjects) error {
	s, l := m.session, m.ladder
	var err error
	if m.empty && l.atOnce(m.From, m.To) {
		_, err = s.conn.ExecContext(ctx, l.Whole)
	} else {
		err = s.nested(ctx, func(pool *sql.DB) error { return l.run(background, pool, m.To, m.where) })
	}
	if err != nil {
		return fmt.Errorf("migrate from schema %d to %d: %w", m.From, m.To, err)
	}
	var made []string
	if digest := l.ViewsDigest(m.To); digest != "" {
		var before, after []string
		const sqlViews = `SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY rowid`
		if err := s.Select(&before, sqlViews); err != nil {
			return err
		}
		if _, err := s.conn.ExecContext(background, l.Views()); err != nil {
			return fmt.Errorf("make the views: %w", err)
		}
		if err := s.Select(&after, sqlViews); err != nil {
			return err
		}
		made = slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
	}
	if own != nil {
		if err := own.back(); err != nil {
			return err
		}
	}
	return m.writeVersions(made)
}

func (m *migration) writeVersions(made []string) error {
	s, at := m.session, m.ladder.Step(m.To)
	_, err := s.exec(sqlSetVersions, at.MinReader, at.MinWriter, m.ladder.ViewsDigest(m.To),
		strings.Join(made, " "))
	if primary(err) == sqlite3.SQLITE_ERROR { // it lacks a column
		_, err = s.exec(sqlSetVersionsBefore8, at.MinReader, at.MinWriter)
	}
	return err
}

// run runs the steps with goose, which keeps its own table of them, as plain goose would.
func (l *Ladder) run(ctx context.Context, pool *sql.DB, target int64, where direction) error {
	provider, err := l.provider(pool)
	if err != nil {
		return err
	}
	if where == down {
		_, err = provider.DownTo(ctx, target)
	} else {
		_, err = provider.UpTo(ctx, target)
	}
	// PartialError names versions as applied; they were undone
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		return fmt.Errorf("%s: %w", partial.Failed.Source.Path, partial.Err)
	}
	return err
}

// A census holds what a migration must not change without declaring it.
type census struct {
	rows    map[string]int64 // of each table
	orphans map[string]int64 // rows of a table that refer to rows which are gone
}

const (
	// A virtual table has no pages of its own; its rows are in other tables.
	sqlCountedTables = `SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0
	AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
  AND name NOT IN ('goose_db_version', 'selvedge_file') ORDER BY name`
	sqlOrphans = `SELECT "table" AS name, count(*) AS rows FROM pragma_foreign_key_check GROUP BY 1`
)

func (m *migration) count() (c census, err error) {
	var tables []string
	if err := m.session.Select(&tables, sqlCountedTables); err != nil {
		return c, err
	}
	c = census{map[string]int64{}, map[string]int64{}}
	for _, t := range tables {
		var n int64
		if err := m.session.Get(&n, "SELECT count(*) FROM "+engine.Quoted(t)); err != nil {
			return c, fmt.Errorf("count the rows of %s: %w", t, err)
		}
		c.rows[t] = n
	}
	var orphans []struct {
		Name string
		Rows int64
	}
	if err := m.session.Select(&orphans, sqlOrphans); err != nil {
		return c, fmt.Errorf("check the foreign keys: %w", err)
	}
	for _, o := range orphans {
		c.orphans[o.Name] = o.Rows
	}
	return c, nil
}

// needsCopy reports whether the steps remove or rewrite rows that are there. A step down may remove
// anything.
func (m *migration) needsCopy(rows map[string]int64) bool {
	for _, step := range m.ladder.between(m.From, m.To) {
		if m.where == down {
			return true
		}
		for _, table := range slices.Concat(step.Removes, step.Rewrites) {
			if rows[table] > 0 {
				return true
			}
		}
	}
	return false
}

// compare refuses a migration that changed rows without declaring it. A step down declares nothing:
// it removes what later versions added, which is why there is a copy, and the losses are reported.
func (m *migration) compare(before census) error {
	after, err := m.count()
	if err != nil {
		return err
	}
	var removes, adds []string
	for _, step := range m.ladder.between(m.From, m.To) {
		removes, adds = append(removes, step.Removes...), append(adds, step.Adds...)
	}
	var wrong []string
	for _, table := range slices.Sorted(maps.Keys(before.rows)) {
		was := before.rows[table]
		is, there := after.rows[table]
		if !there {
			is = -1
		}
		if was == is || was == 0 && !there {
			continue
		}
		m.Tables = append(m.Tables, engine.TableMove{Name: table, Before: was, After: is})
		switch {
		case m.where == down:
		case is < was && !slices.Contains(removes, table):
			wrong = append(wrong, fmt.Sprintf("%d of %d rows in %s", max(is, 0), was, table))
		case is > was && !slices.Contains(adds, table):
			wrong = append(wrong, fmt.Sprintf("%d rows in %s, where %d were", is, table, was))
		}
	}
	for _, table := range slices.Sorted(maps.Keys(after.orphans)) {
		if n := after.orphans[table]; n > before.orphans[table] {
			wrong = append(wrong, fmt.Sprintf("%d rows of %s that refer to rows which are gone", n, table))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &engine.Failure{
		Hint: "the file is as it was; this program's migration is wrong: go on with the version before it, and " +
			"report this",
		Err: fmt.Errorf("the migration from schema %d to %d would leave %s; it was undone", m.From, m.To,
			strings.Join(wrong, ", ")),
	}
}
