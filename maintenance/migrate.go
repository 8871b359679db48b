package maintenance

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/sqlite"
	"selvedge/migrations"
)

// SchemaVersion is the schema version of this program.
func SchemaVersion() int64 { return sqlite.ProgramLadder().Last().Version }

// A Migration describes one schema version to people.
type Migration struct {
	Version int64  `json:"version"` // schema version
	Name    string `json:"name"`    // of the migration's file
	Applied bool   `json:"applied"` // the file has it
	SQL     string `json:"-"`       // the statements that apply it
	DownSQL string `json:"-"`       // the statements that undo it
}

// Migrations lists the program's schema versions, and which of them a file with this schema has; or
// a server's database, if path is an address. The first version of a server includes all earlier
// ones.
func Migrations(path string, schema int64) ([]Migration, error) {
	steps := sqlite.ProgramLadder().Files
	if engine.IsAddress(path) {
		steps = migrations.Postgres()
	}
	files, err := fs.Glob(steps, "*.sql")
	if err != nil {
		return nil, err
	}
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
		list = append(list, Migration{
			Version: version, Name: name, Applied: version <= schema,
			SQL: strings.TrimSpace(up), DownSQL: strings.TrimSpace(down),
		})
	}
	return list, nil
}

// A Migrated is the result of a migration.
type Migrated = engine.Move

// TableMigrated is the number of rows of a table before and after.
type TableMigrated = engine.TableMove

// Migrate brings the file at path to schema version o.SchemaVersion, up or down, and creates it if
// it is missing. It takes effect as a whole or not at all. Rows are counted before and after; a
// migration that changes the counts in an undeclared way fails. What users have added to the file
// stays; if it does not fit the new schema, Migrate returns db.ErrConflict and names it.
//
// Migrating down works for files only, always makes a backup, and loses what the versions in
// between added.
func Migrate(ctx context.Context, path string, o db.Options) (done Migrated, err error) {
	err = db.Exclusively(ctx, path, o, func(d engine.Closed) (err error) {
		done, err = d.Migrate(ctx)
		return err
	})
	return done, err
}

// Rehearse migrates a copy beside the file as Migrate would, checks the copy and removes it. Backup
// is the path that Migrate would use.
func Rehearse(ctx context.Context, path string, o db.Options) (done Migrated, err error) {
	hint := "rehearse on a database that pg_restore made of a backup: all of a migration takes effect there " +
		"too, or nothing"
	err = inFile(ctx, path, o, "a rehearsal", hint, func(f engine.ClosedFile) (err error) {
		done, err = f.Rehearse(ctx)
		return err
	})
	return done, err
}

// inFile runs fn, which needs the file exclusively. For the address of a server it returns an error
// with what and hint.
func inFile(ctx context.Context, path string, o db.Options, what, hint string,
	fn func(engine.ClosedFile) error,
) error {
	return db.Exclusively(ctx, path, o, func(d engine.Closed) error {
		if file, ok := d.(engine.ClosedFile); ok {
			return fn(file)
		}
		return &engine.Failure{
			Kind: db.ErrUnsupported, Hint: hint,
			Err: fmt.Errorf("%s is for files, and this is the address of a server", what),
		}
	})
}
