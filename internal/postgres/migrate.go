package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"

	"selvedge/internal/engine"
	"selvedge/migrations"
)

// oldestServer is the oldest version of PostgreSQL that the tests cover.
const oldestServer = 15

const (
	sqlHasTables = `SELECT to_regclass('selvedge_file') IS NOT NULL
		AND to_regclass('goose_db_version') IS NOT NULL`
	// sqlStrangers names the tables of a schema that has none of ours, without those of
	// extensions. It is one statement, since another program's migration may end between two.
	sqlStrangers = `SELECT CASE WHEN to_regclass('selvedge_file') IS NOT NULL
	AND to_regclass('goose_db_version') IS NOT NULL THEN '' ELSE array_to_string(ARRAY(
  SELECT relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE nspname = current_schema() AND relkind IN ('r', 'p', 'f')
  AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid
  AND deptype = 'e')
  ORDER BY relname COLLATE "C" LIMIT 3), ', ') END`
	// It fails for a schema that the user may not use, where sqlHasTables finds nothing.
	sqlMayLook       = `SELECT to_regclass(format('%I.selvedge_file', ?::text)) IS NOT NULL`
	sqlSchemaMissing = `SELECT NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = ?)`
	sqlVersions      = `SELECT (SELECT coalesce(max(version_id), 0) FROM goose_db_version
	WHERE is_applied) AS schema,
       min_reader, min_writer, generation, views_digest FROM selvedge_file`
	sqlSetVersions = `UPDATE selvedge_file SET min_reader = ?, min_writer = ?, views_digest = ?, views = ?`
	sqlTouch       = `UPDATE selvedge_file SET views = views`
	sqlViewsMade   = `SELECT views FROM selvedge_file`
	sqlViews       = `SELECT coalesce(string_agg(viewname, ' ' ORDER BY viewname COLLATE "C"), '') FROM pg_views
		WHERE schemaname = current_schema()`

	sqlLockSchema   = `SELECT pg_advisory_lock(hashtextextended('selvedge schema ' || ?, 0))`
	sqlUnlockSchema = `SELECT pg_advisory_unlock(hashtextextended('selvedge schema ' || ?, 0))`
)

func readVersions(get engine.Get) (engine.Versions, error) {
	var v engine.Versions
	var there bool
	if err := get(&there, sqlHasTables); err != nil || !there {
		return v, err
	}
	err := engine.OneRow(get(&v, sqlVersions))
	return v, err
}

// ladder returns this program's.
var ladder = sync.OnceValue(func() *engine.Ladder {
	views := migrations.PostgresViews()
	return &engine.Ladder{
		Steps: migrations.Steps, Views: func() string { return views }, Digest: engine.DigestOf(views),
		What: "database",
	}
})

// prepare examines the server's schema, and migrates it to this program's schema if that is
// wanted.
func (e *Engine) prepare(ctx context.Context) (err error) {
	s, err := e.newSession(ctx)
	if err == nil && s.wire.pooled {
		// A pooler that gives connections for a transaction most likely gives this one again, as it is.
		if err = s.close(); err == nil {
			s, err = e.newSession(ctx)
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	defer e.reportWaits(ctx, s)()
	s.wire.ctx = ctx
	if encoding := s.wire.conn.ParameterStatus("server_encoding"); encoding != "UTF8" {
		return engine.Failf(engine.ErrUnsupported,
			"make the database anew: createdb --encoding UTF8 --locale C --template template0 NAME",
			"the database has the encoding %s, which does not hold every text", encoding)
	}
	have, err := readVersions(s.get)
	if err == nil && have.Schema == 0 {
		// another program may have goose count its own steps among our tables, too
		var strangers string
		if err = s.get(&strangers, sqlStrangers); err == nil && strangers != "" {
			err = e.notOurs(strangers, nil)
		}
	}
	if state(err) == "42703" { // a column is missing
		err = e.notOurs("selvedge_file and goose_db_version", err)
	}
	if err != nil {
		return err
	}
	e.openedShut = have.Shut()
	switch {
	case have.Schema == 0 && (e.config.ReadOnly || e.config.MustExist):
		if err := s.get(new(bool), sqlMayLook, e.address.schema); err != nil {
			return err
		}
		return fmt.Errorf("%w: the schema %s of the database has no tables of ours", engine.ErrNotFound,
			e.address.schema)
	case e.config.ReadOnly:
		e.generation = uint64(have.Generation)
		return e.mayRead(s, have)
	}
	if have.Shut() && !(e.config.Mover && have.Schema <= ladder().Last().Version) {
		return engine.MovedTo(s.get)
	}
	if err := ladder().MayWrite(have); err != nil && !have.Shut() {
		return err
	}
	if !have.Shut() && !ladder().Current(have, e.config.SchemaVersion) {
		if e.config.KeepSchema && have.Schema > 0 {
			if have.Schema < ladder().Step(e.config.SchemaVersion).Version {
				return ladder().TooOld(have)
			}
		} else if have, err = e.migrate(ctx, s); err != nil {
			return err
		}
	}
	e.generation = uint64(have.Generation)
	return nil
}

// mayRead reports why a handle that only reads may not read the schema.
func (e *Engine) mayRead(s *session, have engine.Versions) error {
	if have.ShutToReaders() {
		return engine.MovedTo(s.get)
	}
	return ladder().MayRead(have, e.config.AnySchema)
}

func (e *Engine) notOurs(tables string, cause error) error {
	err := fmt.Errorf("the schema %s of the database has tables of another program: %s", e.address.schema,
		tables)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &engine.Failure{
		Kind: engine.ErrNotADatabase, Hint: "nothing was changed; name a schema that is empty or missing, " +
			"behind the address: ?search_path=NAME", Err: err,
	}
}

// migrate runs all steps in one transaction, under a lock that keeps other programs out.
func (e *Engine) migrate(ctx context.Context, s *session) (have engine.Versions, err error) {
	s.wire.mayDial(true) // to interrupt it
	// Between two statements a starved process may take longer than a transaction with locks is
	// otherwise allowed: this one locks only the schema.
	settings := fmt.Sprintf("SET lock_timeout = %d; SET idle_in_transaction_session_timeout = '30s'",
		lockTimeout(e.config.LockTimeout))
	if _, err := s.wire.simple(ctx, settings); err != nil {
		return have, err
	}
	if _, err := s.exec(sqlLockSchema, e.address.schema); err != nil {
		return have, fmt.Errorf("wait for another program that migrates: %w", err)
	}
	defer func() {
		if !s.broken() {
			_, unlock := s.exec(sqlUnlockSchema, e.address.schema)
			err = errors.Join(err, unlock)
		}
	}()
	if have, err = readVersions(s.get); err != nil {
		return have, err
	}
	if err := ladder().MayWrite(have); err != nil || ladder().Current(have, e.config.SchemaVersion) {
		return have, err // another program was faster
	}
	from, to := have.Schema, ladder().Step(e.config.SchemaVersion)
	err = e.upgrade(ctx, s, excludes(have, to), to, func(patience time.Duration) error {
		return e.climbOnce(ctx, s, have, patience)
	})
	if err != nil {
		return have, err
	}
	// A warning means that the wait for the standbys was given up. They have this commit once
	// they have a later one.
	for s.wire.warned != nil {
		s.wire.warned = nil
		if _, err := s.wire.simple(ctx, sqlTouch); err != nil {
			return have, fmt.Errorf("the migration was committed, and no standby may have it: %w", err)
		}
	}
	if have, err = readVersions(s.get); err == nil {
		e.moved = engine.Move{From: from, To: have.Schema}
	}
	return have, err
}

// climbOnce runs all steps in one transaction, and commits it.
func (e *Engine) climbOnce(ctx context.Context, s *session, have engine.Versions,
	patience time.Duration,
) error {
	begin := "BEGIN"
	var missing bool // CREATE SCHEMA IF NOT EXISTS needs the right to create even if the schema exists
	if err := s.get(&missing, sqlSchemaMissing, e.address.schema); err != nil {
		return err
	}
	if missing {
		begin += "; CREATE SCHEMA IF NOT EXISTS " + e.address.quotedSchema()
	}
	if _, err := s.wire.simple(ctx, begin); err != nil {
		return err
	}
	if err := e.climb(ctx, s, have, patience); err != nil {
		if !s.wire.conn.IsClosed() {
			_, undo := s.wire.simple(background, "ROLLBACK")
			err = errors.Join(err, undo)
		}
		return err
	}
	s.wire.mayDial(false)
	s.wire.warned = nil
	tags, err := s.wire.simple(ctx, "COMMIT")
	switch {
	case err != nil && state(err) == "": // cut off
		return unknown(err)
	case err != nil || tags[0] != "COMMIT":
		return errors.Join(errors.New("the migration was not committed"), err)
	}
	return nil
}

// lockTimeout returns the server's setting, in milliseconds. A duration beyond its range becomes
// 0, which means no limit.
func lockTimeout(d time.Duration) int64 {
	if ms := d.Milliseconds(); ms <= math.MaxInt32 {
		return max(1, ms)
	}
	return 0
}

// climb runs the steps and makes the views.
func (e *Engine) climb(ctx context.Context, s *session, have engine.Versions,
	patience time.Duration,
) error {
	to := ladder().Step(e.config.SchemaVersion)
	if have.Schema > 0 {
		if err := e.lockAll(ctx, s, patience); err != nil {
			return err
		}
		if excludes(have, to) {
			if _, err := s.exec(sqlKeepOut, to.MinReader, to.MinWriter); err != nil {
				return err
			}
		}
		if err := dropViews(ctx, s); err != nil {
			return err
		}
	}
	pool := engine.PoolOf(nested{s.wire})
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, migrations.Postgres())
	if err == nil {
		_, err = provider.UpTo(ctx, to.Version)
	}
	if err := errors.Join(err, pool.Close()); err != nil {
		return fmt.Errorf("migrate from schema %d to %d: %w", have.Schema, to.Version, err)
	}
	var made bool
	if err := s.get(&made, sqlHasTables); err != nil || !made {
		return errors.Join(err, fmt.Errorf("%w: a server has no schema %d: the first that it can have is in "+
			"migrations/postgres", engine.ErrUnsupported, to.Version))
	}
	views := ""
	if to.Version == ladder().Last().Version {
		if _, err := s.wire.simple(ctx, ladder().Views()); err != nil {
			return fmt.Errorf("make the views: %w", err)
		}
		if err := s.get(&views, sqlViews); err != nil {
			return err
		}
	}
	if have.Schema > 0 && to.MinWriter > have.MinWriter {
		if err := fence(ctx, s, to); err != nil {
			return err
		}
	}
	_, err = s.exec(sqlSetVersions, to.MinReader, to.MinWriter, ladder().ViewsDigest(to.Version), views)
	return err
}

// excludes reports whether a step excludes programs that may use the schema before it.
func excludes(have engine.Versions, to migrations.Step) bool {
	return have.Schema > 0 && (to.MinWriter > have.MinWriter || to.MinReader > have.MinReader)
}

// dropViews drops the views that our programs have made. A user's view that depends on one of
// them makes it fail, and the server's error names that view.
func dropViews(ctx context.Context, s *session) error {
	var made string
	if err := s.get(&made, sqlViewsMade); err != nil || made == "" {
		return err
	}
	var names []string
	for name := range strings.FieldsSeq(made) {
		names = append(names, `"`+name+`"`)
	}
	_, err := s.wire.simple(ctx, "DROP VIEW IF EXISTS "+strings.Join(names, ", "))
	return err
}

// A Closed is a database that no handle has open.
type Closed struct {
	Address string
	Config  Config
}

// Migrate brings the database to Config.SchemaVersion.
func (d Closed) Migrate(ctx context.Context) (engine.Move, error) {
	e, err := Open(ctx, d.Address, d.Config)
	if err != nil {
		return engine.Move{}, err
	}
	m := e.moved
	have, err := e.Versions(ctx)
	if err == nil && have.Schema > d.Config.SchemaVersion {
		err = Unsupported("way down to an older schema",
			"restore a backup from before (pg_restore, or your server's own backup)")
	}
	if m.To == 0 {
		m.From, m.To = have.Schema, have.Schema
	}
	return m, errors.Join(err, e.Close())
}
