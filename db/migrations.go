package db

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"selvedge/db/internal/sqlite"
)

// SchemaVersion is the schema version of this program.
func SchemaVersion() int64 { return sqlite.ProgramLadder().Last().Version }

// A Migration is one schema version, for people.
type Migration struct {
	Version int64
	Name    string // of its file
	Applied bool
	SQL     string // the statements that bring it in
}

// Migrations lists the program's schema versions and which of them a file with this schema has.
func Migrations(schema int64) ([]Migration, error) {
	l := sqlite.ProgramLadder()
	files, err := fs.Glob(l.Files, "*.sql")
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
		text, err := fs.ReadFile(l.Files, name)
		if err != nil {
			return nil, err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		list = append(list, Migration{Version: version, Name: name, Applied: version <= schema, SQL: strings.TrimSpace(up)})
	}
	return list, nil
}
