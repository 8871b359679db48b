package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/migrations"
)

// A Ladder is the schema versions that a program knows, and the scripts that lead to them.
type Ladder struct {
	engine.Ladder
	Files fs.FS
	Whole string // what all steps together make in an empty file; "": they are taken one by one

	schemas sync.Map // of []object by engine.Versions
}

// NewLadder returns a ladder whose steps are taken one by one.
func NewLadder(files fs.FS, steps []migrations.Step, views string) *Ladder {
	return &Ladder{Ladder: engine.Ladder{
		Steps: steps, Views: func() string { return views }, Digest: engine.DigestOf(views), What: "file",
	}, Files: files}
}

// ProgramLadder returns the ladder of this program: one for all files, so that a schema is made in
// memory once. The views are written out only when they are made.
var ProgramLadder = sync.OnceValue(func() *Ladder {
	return &Ladder{Ladder: engine.Ladder{
		Steps: migrations.Steps, Views: migrations.Views, Digest: migrations.ViewsDigest(), What: "file",
	}, Files: migrations.SQLite(), Whole: migrations.Whole()}
})

// between are the steps that lead from one version to another, in either direction.
func (l *Ladder) between(from, to int64) []migrations.Step {
	var steps []migrations.Step
	for _, s := range l.Steps {
		if s.Version > min(from, to) && s.Version <= max(from, to) {
			steps = append(steps, s)
		}
	}
	return steps
}

// MayWrite reports why this program may not write the file.
func (l *Ladder) MayWrite(have engine.Versions) error {
	if have.Shut() {
		return engine.Failf(engine.ErrMoved,
			"its rows are elsewhere: open it to write, and the error says where",
			"a file that was moved stays as it is")
	}
	return l.Ladder.MayWrite(have)
}

// shutsOut reports whether migrating to the target takes away some programs' access to the file.
func (l *Ladder) shutsOut(have engine.Versions, target int64) bool {
	to := l.Step(target)
	return have.Schema > 0 && (to.Version < have.Schema || to.MinReader > have.MinReader ||
		to.MinWriter > have.MinWriter)
}

// atOnce reports whether one script can replace all the steps between the versions: it needs an
// empty file.
func (l *Ladder) atOnce(from, to int64) bool {
	return l.Whole != "" && from == 0 && to == l.Last().Version
}

// provider returns goose's provider for the ladder's files.
func (l *Ladder) provider(pool *sql.DB) (*goose.Provider, error) {
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, l.Files)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}

const (
	sqlHasFileTable = `SELECT (SELECT count(*) FROM sqlite_schema WHERE type = 'table'
	AND name IN ('selvedge_file', 'goose_db_version')) AS tables,
       (SELECT count(*) FROM pragma_table_info('selvedge_file')
       WHERE name IN ('generation', 'views_digest')) AS columns`
	sqlVersions = `SELECT (SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied) AS schema,
       min_reader, min_writer, generation, views_digest FROM selvedge_file`
	sqlVersionsBefore8 = `SELECT (SELECT coalesce(max(version_id), 0) FROM goose_db_version
	WHERE is_applied) AS schema,
       min_reader, min_writer, 0 AS generation, '' AS views_digest FROM selvedge_file`
	sqlSetVersions = `UPDATE selvedge_file
		SET min_reader = ?, min_writer = ?, views_digest = ?, views = ?`
	sqlSetVersionsBefore8 = `UPDATE selvedge_file SET min_reader = ?, min_writer = ?, views_version = 0`
	sqlViewsMade          = `SELECT views FROM selvedge_file`
)

// readVersions reads the file's versions. They are zero for a file that is not ours.
func readVersions(get engine.Get) (engine.Versions, error) {
	var v engine.Versions
	err := get(&v, sqlVersions)
	if primary(err) == sqlite3.SQLITE_ERROR { // it lacks a table or a column
		return readOlderVersions(get, err)
	}
	return v, engine.OneRow(err)
}

// readOlderVersions is readVersions for a file that lacks a table or a column that every current
// file has.
func readOlderVersions(get engine.Get, lacks error) (v engine.Versions, err error) {
	var has struct{ Tables, Columns int }
	if err := get(&has, sqlHasFileTable); err != nil || has.Tables < 2 {
		return v, err
	}
	if has.Columns == 2 { // its name stands in the schema, and the rest of it can't be parsed
		return v, fmt.Errorf("%w: %w", engine.ErrCorrupt, lacks)
	}
	err = get(&v, sqlVersionsBefore8)
	if primary(err) == sqlite3.SQLITE_ERROR {
		return v, fmt.Errorf("%w: %w", engine.ErrCorrupt, err)
	}
	return v, engine.OneRow(err)
}

type object = damage.Object

const sqlObjects = `SELECT type, name, tbl_name, coalesce(sql, '') AS sql FROM sqlite_schema
	WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY rowid`

// whole is the schema that a file with these versions has, SQLite's own entries included. The views
// of another program are not among them.
func (l *Ladder) whole(ctx context.Context, have engine.Versions) (list []object, err error) {
	key := engine.Versions{Schema: have.Schema, ViewsDigest: have.ViewsDigest}
	if kept, ok := l.schemas.Load(key); ok {
		return kept.([]object), nil
	}
	err = l.inMemory(ctx, have.Schema, func(pool *sqlx.DB) (err error) {
		list, err = damage.Objects(ctx, pool)
		return err
	})
	if err != nil {
		return nil, err
	}
	if have.ViewsDigest != l.ViewsDigest(have.Schema) {
		list = slices.DeleteFunc(list, func(o object) bool { return o.Type == "view" })
	}
	l.schemas.Store(key, list)
	return list, nil
}

// inMemory makes the schema of a version in memory.
func (l *Ladder) inMemory(ctx context.Context, version int64, fn func(*sqlx.DB) error) (err error) {
	pool, err := openPool(memoryPath, roleMigration, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if l.atOnce(0, version) {
		if _, err := pool.ExecContext(ctx, l.Whole); err != nil {
			return fmt.Errorf("make schema %d in memory: %w", version, err)
		}
	} else if version > 0 {
		provider, err := l.provider(pool.DB)
		if err != nil {
			return err
		}
		if _, err := provider.UpTo(ctx, version); err != nil {
			return fmt.Errorf("make schema %d in memory: %w", version, err)
		}
	}
	if version == l.Last().Version {
		if _, err := pool.ExecContext(ctx, l.Views()); err != nil {
			return fmt.Errorf("make the views in memory: %w", err)
		}
	}
	return fn(pool)
}
