package db

import (
	"context"
	"errors"
	"io/fs"
	"os"
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
	FreePages int64 // given back by compaction
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
	var have versions
	err := d.Read(ctx, "read the schema version", func(rx *Rx) (err error) {
		have, err = readVersions(rx)
		return err
	})
	return Schema{have.Schema, have.MinReader, have.MinWriter}, err
}

// Stats reads the sizes and counts the rows of every table.
func (d *DB) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Path: d.path}
	err := d.Read(ctx, "stats", func(rx *Rx) error { return rx.stats(&s) })
	if err != nil || d.memory {
		return s, err
	}
	if s.FileBytes, err = sizeOf(d.path); err != nil {
		return s, wrap("stats", err)
	}
	s.WALBytes, err = sizeOf(d.path + "-wal")
	return s, wrap("stats", err)
}

func (rx *Rx) stats(s *Stats) error {
	have, err := readVersions(rx)
	if err != nil {
		return err
	}
	s.Schema, s.MinReader, s.MinWriter = have.Schema, have.MinReader, have.MinWriter
	var created int64
	for dest, query := range map[any]string{
		&s.SQLite:    "SELECT sqlite_version()",
		&s.PageSize:  "PRAGMA page_size",
		&s.Pages:     "PRAGMA page_count",
		&s.FreePages: "PRAGMA freelist_count",
	} {
		if err := rx.Get(dest, query); err != nil {
			return err
		}
	}
	if have.Schema > 0 {
		if err := rx.Get(&created, "SELECT created_at FROM selvedge_file"); err != nil {
			return err
		}
		s.CreatedAt = Time(created)
	}
	var tables []string
	if err := rx.Select(&tables, sqlTables); err != nil {
		return err
	}
	s.Tables = nil
	for _, name := range tables {
		t := TableStats{Name: name}
		if err := rx.Get(&t.Rows, `SELECT count(*) FROM "`+name+`"`); err != nil {
			return err
		}
		s.Tables = append(s.Tables, t)
	}
	return nil
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
