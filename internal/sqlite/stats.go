package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"selvedge/internal/engine"
)

// Versions reads the versions that the file records of itself.
func (e *Engine) Versions(ctx context.Context) (engine.Versions, error) {
	var have engine.Versions
	err := e.Read(ctx, "read the schema version", func(x engine.Rx) (err error) {
		have, err = readVersions(engine.Getting(x))
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
	s.FileBytes, s.WALBytes, err = e.sizes()
	return s, err
}

func stats(x engine.Rx, s *engine.Stats) (err error) {
	if s.Versions, err = readVersions(engine.Getting(x)); err != nil {
		return err
	}
	if err := x.Get(&s.Engine, "SELECT 'SQLite ' || sqlite_version()", nil); err != nil {
		return err
	}
	if s.PageSize, s.Pages, s.FreePages, err = pageCounts(engine.Getting(x)); err != nil {
		return err
	}
	return s.ReadTables(x, sqlCountedTables)
}

// pageCounts returns the size of a page in bytes, and how many pages the file has and how many of
// them are free.
func pageCounts(get engine.Get) (size, pages, free int64, err error) {
	var n struct{ Size, Pages, Free int64 }
	err = get(&n, `SELECT page_size AS size, page_count AS pages, freelist_count AS free
		FROM pragma_page_size, pragma_page_count, pragma_freelist_count`)
	return n.Size, n.Pages, n.Free, err
}

// Work returns counts of the handle's work since it was opened.
func (e *Engine) Work() engine.Work {
	var w engine.Work
	w.LongestRead, w.LongestReadFor = e.reads.longest()
	if e.writer != nil {
		c := &e.writer.counted
		w.Callers, w.Commits = c.callers.Load(), c.commits.Load()
		w.Checkpoints, w.CheckpointsFailed = c.checkpoints.Load(), c.checkpointsFailed.Load()
		w.WALRestarts, w.WALRestartsFailed = c.restarts.Load(), c.failed.Load()
	}
	return w
}

// sizes returns the bytes of the file and of its WAL.
func (e *Engine) sizes() (file, wal int64, err error) {
	if file, err = sizeOf(e.path); err == nil {
		wal, err = sizeOf(e.path + "-wal")
	}
	return file, wal, err
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

// The rest is for the tests of package db, which see no test files of this one.

// Waiting returns the number of callers in the writer's queue, without the care of the file.
func (e *Engine) Waiting() (callers int) {
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	for _, r := range e.writer.pending {
		if !r.care {
			callers++
		}
	}
	return callers
}

// Watching reports whether the writer is notified of changes by the system.
func (e *Engine) Watching(ctx context.Context) (watching bool, err error) {
	err = e.Write(ctx, "watching", func(engine.Tx) error {
		watching = e.writer.placeWatch.place != nil
		return nil
	}).Err
	return watching, err
}

// Resting reports whether the care of the file waits for the next write.
func (e *Engine) Resting() bool { return e.space.asleep.Load() }

// Closing reports whether the writer refuses new calls.
func (e *Engine) Closing() bool {
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	return e.writer.refusing
}

// WriterPragma runs a pragma on the writing connection and returns its result.
func (e *Engine) WriterPragma(ctx context.Context, text string) (got string, err error) {
	err = e.Write(ctx, "pragma", func(x engine.Tx) error {
		return x.(*tx).session.Get(&got,
			"PRAGMA "+text)
	}).Err
	return got, err
}

// OnVisit returns a channel that is closed when a visit begins.
func (e *Engine) OnVisit() <-chan struct{} {
	begun := make(chan struct{})
	e.visits.mu.Lock()
	defer e.visits.mu.Unlock()
	e.visits.begun = begun
	return begun
}

// Statements are the texts that the connections of a handle in memory, or of one with one reader,
// keep prepared.
func (e *Engine) Statements(ctx context.Context) (texts []string, err error) {
	keep := func(s *session) error {
		texts = append(texts, slices.Collect(maps.Keys(s.statements))...)
		return nil
	}
	err = e.Write(ctx, "look at the statements", func(x engine.Tx) error { return keep(x.(*tx).session) }).Err
	if err == nil && e.readers != nil {
		err = e.Read(ctx, "look at the statements", func(x engine.Rx) error { return keep(x.(*rx).session) }).Err
	}
	return texts, err
}

const (
	sqlRelations = `SELECT name AS relation, type = 'view' AS view FROM sqlite_schema
		WHERE type IN ('table', 'view') ORDER BY view DESC, name`
	sqlColumns = `SELECT name FROM pragma_table_info(?) ORDER BY cid`
)

// Relations are the tables and views, views first, by name. A view of the user's own that names
// what isn't there any more has no columns.
func (x *rx) Relations() ([]engine.Relation, error) {
	var relations, all []engine.RelationColumn
	if err := x.Select(&relations, sqlRelations, nil); err != nil {
		return nil, err
	}
	for _, r := range relations {
		all = append(all, r)
		var columns []string
		err := x.Select(&columns, sqlColumns, []any{r.Relation})
		if f, ok := errors.AsType[*engine.Failure](err); ok && f.Statement.Wrong {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range columns {
			r.Column = &columns[i]
			all = append(all, r)
		}
	}
	return engine.RelationsOf(all), nil
}

// Catalog is the query that shows a person what views there are, or with the name of a table or a
// view its columns.
func (e *Engine) Catalog(relation string) string {
	if relation == "" {
		return `SELECT name FROM sqlite_schema WHERE type = 'view'`
	}
	return "PRAGMA table_info(" + relation + ")"
}
