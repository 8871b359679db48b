package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"selvedge/db/internal/engine"
)

// Versions reads what the file says of itself.
func (e *Engine) Versions(ctx context.Context) (engine.Versions, error) {
	var have engine.Versions
	err := e.Read(ctx, "read the schema version", func(x engine.Rx) (err error) {
		have, err = readVersions(getter{x})
		return err
	}).Err
	return have, err
}

// Stats reads the sizes and counts the rows of every table.
func (e *Engine) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	err := e.Read(ctx, "stats", func(x engine.Rx) error { return stats(x, &s) }).Err
	if err != nil || e.memory {
		return s, err
	}
	if s.FileBytes, err = sizeOf(e.path); err != nil {
		return s, err
	}
	s.WALBytes, err = sizeOf(e.path + "-wal")
	return s, err
}

func stats(x engine.Rx, s *engine.Stats) error {
	have, err := readVersions(getter{x})
	if err != nil {
		return err
	}
	s.Versions = have
	var created int64
	for dest, query := range map[any]string{
		&s.Engine:    "SELECT sqlite_version()",
		&s.PageSize:  "PRAGMA page_size",
		&s.Pages:     "PRAGMA page_count",
		&s.FreePages: "PRAGMA freelist_count",
	} {
		if err := x.Get(dest, query, nil); err != nil {
			return err
		}
	}
	if have.Schema > 0 {
		if err := x.Get(&created, "SELECT created_at FROM selvedge_file", nil); err != nil {
			return err
		}
		s.CreatedAt = time.Unix(0, created).UTC()
	}
	var tables []string
	if err := x.Select(&tables, sqlCountedTables, nil); err != nil {
		return err
	}
	s.Tables = nil
	for _, name := range tables {
		t := engine.TableStats{Name: name}
		if err := x.Get(&t.Rows, "SELECT count(*) FROM "+quoted(name), nil); err != nil {
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
