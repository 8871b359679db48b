package db

import (
	"context"
	"time"
)

// Stats says what a file holds and what room it takes.
type Stats struct {
	Path      string
	Schema    int64 // schema version of the file
	MinReader int64 // lowest schema version of a program that may read it
	MinWriter int64 // lowest schema version of a program that may write it
	SQLite    string
	CreatedAt time.Time
	FileBytes int64 // size of the file; 0 in memory
	WALBytes  int64 // size of the -wal file, which stays allocated while the file is in use
	PageSize  int64 // bytes
	Pages     int64
	FreePages int64 // freed by deletions, taken again by what is written next; the file keeps them
	Tables    []TableStats
}

// TableStats is the number of rows in one table.
type TableStats struct {
	Name string
	Rows int64
}

// Schema says which schema a file has, and for whom.
type Schema struct {
	Version   int64 // 0 in a file that has none yet
	MinReader int64 // lowest schema version of a program that may read it
	MinWriter int64 // lowest schema version of a program that may write it
}

// Schema reads the schema version of the file.
func (d *DB) Schema(ctx context.Context) (Schema, error) {
	have, err := d.engine.Versions(ctx)
	return Schema{have.Schema, have.MinReader, have.MinWriter}, wrap("read the schema version", err)
}

// Stats reads the sizes and counts the rows of every table.
func (d *DB) Stats(ctx context.Context) (Stats, error) {
	got, err := d.engine.Stats(ctx)
	s := Stats{
		Path: d.path, Schema: got.Schema, MinReader: got.MinReader, MinWriter: got.MinWriter, SQLite: got.Engine, CreatedAt: got.CreatedAt,
		FileBytes: got.FileBytes, WALBytes: got.WALBytes, PageSize: got.PageSize, Pages: got.Pages, FreePages: got.FreePages,
	}
	for _, t := range got.Tables {
		s.Tables = append(s.Tables, TableStats(t))
	}
	return s, wrap("stats", err)
}
