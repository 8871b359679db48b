package db

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/engine"
	"selvedge/db/internal/sqlite"
	"selvedge/migrations"
)

// SchemaVersion is the schema version of this program.
func SchemaVersion() int64 { return sqlite.ProgramLadder().Last().Version }

// A Migration is one schema version, for people.
type Migration struct {
	Version int64
	Name    string // of its file
	Applied bool
	SQL     string // the statements that bring it in
	DownSQL string // the statements that take it away
}

// Migrations lists the program's schema versions and which of them a file with this schema has, or
// a database of a server where path is the address of one: its first version has all that came
// before it.
func Migrations(path string, schema int64) ([]Migration, error) {
	steps := sqlite.ProgramLadder().Files
	if IsAddress(path) {
		steps = migrations.Postgres()
	}
	files, err := fs.Glob(steps, "*.sql")
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
		text, err := fs.ReadFile(steps, name)
		if err != nil {
			return nil, err
		}
		up, down, _ := strings.Cut(string(text), "-- +goose Down")
		list = append(list, Migration{Version: version, Name: name, Applied: version <= schema,
			SQL: strings.TrimSpace(up), DownSQL: strings.TrimSpace(down)})
	}
	return list, nil
}

// A Migrated says what a migration did to a file.
type Migrated struct {
	From, To int64 // schema versions; From is 0 for a file that was made
	// Backup is the path of the checked copy that was made before rows were removed or rewritten; ""
	// where none was. One is kept, that of the last such migration.
	Backup string
	Tables []TableMigrated // that were there and have more or fewer rows now
}

// TableMigrated is the number of rows of a table before and after; After is -1 where it is gone.
type TableMigrated struct {
	Name          string
	Before, After int64
}

func migrated(m engine.Move) Migrated {
	out := Migrated{From: m.From, To: m.To, Backup: m.Backup}
	for _, t := range m.Tables {
		out.Tables = append(out.Tables, TableMigrated(t))
	}
	return out
}

// Migrate brings the file at path to schema version o.SchemaVersion, also down to one that it has
// left behind, and makes it where it is missing. All of it takes effect, or nothing: when it fails
// the file is as it was. Rows are counted before and after, and a migration that does to them what
// it does not say fails. What users have made in the file stays; where the new schema does not fit
// it, Migrate is ErrConflict and names it.
//
// Going down needs the file alone, always makes a backup, and loses what the versions in between
// have brought.
func Migrate(ctx context.Context, path string, o Options) (done Migrated, err error) {
	defer func() { err = Heard(ctx, err) }()
	if IsAddress(path) {
		return migrateServer(ctx, path, o)
	}
	return inFile(path, o, "this", "", func(c sqlite.Config) (Migrated, error) {
		m, err := sqlite.MoveTo(ctx, path, c)
		return migrated(m), err
	})
}

// migrateServer is Migrate on a server: up only. All of it takes effect, or nothing.
func migrateServer(ctx context.Context, address string, o Options) (m Migrated, err error) {
	if err := errors.Join(o.check(address), readable(address)); err != nil {
		return m, openError(address, err)
	}
	var callbacks callback.Callbacks
	defer callbacks.TakeNumber()()
	moved, err := moveServer(ctx, address, o.withDefaults(), &callbacks)
	if err != nil {
		return m, openError(address, err)
	}
	return migrated(moved), nil
}

// Rehearse does to a copy of the file, beside it, what Migrate would do to the file, checks the
// copy and removes it. Backup is the path that Migrate would give.
func Rehearse(ctx context.Context, path string, o Options) (Migrated, error) {
	hint := "rehearse on a database that pg_restore made of a backup: all of a migration takes effect there " +
		"too, or nothing"
	return inFile(path, o, "a rehearsal", hint, func(c sqlite.Config) (Migrated, error) {
		m, err := sqlite.Rehearse(ctx, path, c)
		return migrated(m), err
	})
}

// inFile runs fn, which opens the file for itself. what it is and its hint are for who gives the
// address of a server.
func inFile[T any](path string, o Options, what, hint string, fn func(sqlite.Config) (T, error)) (result T,
	err error) {
	if err := onlyFile(path, what, hint); err != nil {
		return result, err
	}
	if err := o.check(path); err != nil {
		return result, openError(path, err)
	}
	var callbacks callback.Callbacks
	defer callbacks.TakeNumber()()
	if result, err = fn(o.withDefaults().sqlite(&callbacks)); err != nil {
		return result, openError(path, err)
	}
	return result, nil
}
