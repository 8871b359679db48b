package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"selvedge/internal/engine"
)

const (
	sqlServerVersion = `SELECT 'PostgreSQL ' || current_setting('server_version')`

	// sqlSizes are the sizes of the schema: tables with their indexes and large values.
	sqlSizes = `
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bytes, current_setting('block_size')::bigint AS page
FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'`
)

// Versions reads the versions that the database records of itself.
func (e *Engine) Versions(ctx context.Context) (engine.Versions, error) {
	var have engine.Versions
	err := e.Read(ctx, "read the schema version", func(x engine.Rx) (err error) {
		have, err = readVersions(engine.Getting(x))
		return err
	}).Err
	return have, err
}

// Stats reads the sizes and counts the rows of every table. The WAL is the server's, and of all its
// databases: it is not counted.
func (e *Engine) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	err := e.Read(ctx, "stats", func(x engine.Rx) error { return stats(x, &s) }).Err
	return s, err
}

type sizes struct {
	Bytes int64 `db:"bytes"`
	Page  int64 `db:"page"`
}

func stats(x engine.Rx, s *engine.Stats) (err error) {
	*s = engine.Stats{}
	if s.Versions, err = readVersions(engine.Getting(x)); err != nil {
		return err
	}
	if err := x.Get(&s.Engine, sqlServerVersion, nil); err != nil {
		return err
	}
	var z sizes
	if err := x.Get(&z, sqlSizes, nil); err != nil {
		return err
	}
	s.FileBytes, s.PageSize, s.Pages = z.Bytes, z.Page, z.Bytes/z.Page
	return s.ReadTables(x, sqlSchemaTables)
}

// Work returns counts of the handle's work since it was opened.
func (e *Engine) Work() engine.Work {
	w := engine.Work{Callers: e.counted.callers.Load(), Commits: e.counted.commits.Load()}
	w.LongestRead, w.LongestReadFor, _ = e.calls.oldest(false)
	return w
}

// Backup is not supported: a server has its own.
func (e *Engine) Backup(context.Context, string) error {
	return Unsupported("backup", "use pg_dump -n "+e.address.schema+
		" for a copy, or pg_basebackup and the archive of the WAL for every moment")
}

// GiveBack does nothing: autovacuum makes the room of deleted rows available to new ones.
func (e *Engine) GiveBack(context.Context) error { return nil }

// scrubPatience is how long Scrub waits for older transactions, and for each table that others use.
// Tests shorten it.
var scrubPatience = 30 * time.Second

// Scrub rewrites the tables, one after the other, each under its own lock. The server keeps old
// rows in its WAL and its backups.
func (e *Engine) Scrub(ctx context.Context) (err error) {
	return e.during(ctx, "scrub", true, func(ctx context.Context, s *session) error {
		var tables []string
		if err := s.all(&tables, sqlSchemaTables); err != nil {
			return err
		}
		if _, err := s.wire.simple(ctx, fmt.Sprintf("SET lock_timeout = %d",
			scrubPatience.Milliseconds())); err != nil {
			return err
		}
		defer e.reportWaits(ctx, s)()
		if err := s.outlast(ctx); err != nil {
			return err
		}
		for _, name := range tables {
			s.wire.warned = nil
			if _, err := s.wire.simple(ctx, `VACUUM (FULL, ANALYZE) `+engine.Quoted(name)); err != nil {
				return err
			}
			if w := s.wire.warned; w != nil { // about a table that it skips
				return notScrubbed(fmt.Errorf("the table %s was not written anew: the server warns: %s", name, w.Message))
			}
		}
		return nil
	})
}

// notScrubbed is the error of a Scrub by a role that lacks the right.
func notScrubbed(err error) error {
	return &engine.Failure{Hint: "what was erased is still in the tables' files: do it once more as the " +
		"owner of the tables, which leaves nothing of it there", Err: err}
}

// outlast waits until no transaction can see the old content any more. While one can, a rewritten
// table keeps deleted rows, whatever that transaction reads. Only some users may see others'
// transactions, so outlast uses a table of its own: the server truncates it once no transaction
// can see its deleted row.
func (s *session) outlast(ctx context.Context) (err error) {
	name := fmt.Sprintf("selvedge_scrub_%d", s.wire.conn.PID())
	// A process that died may have left one.
	if _, err := s.wire.simple(ctx, "DROP TABLE IF EXISTS "+name+"; CREATE UNLOGGED TABLE "+name+
		" AS SELECT 1 AS n"); err != nil {
		if state(err) == "42501" {
			return notScrubbed(err)
		}
		return failure(err)
	}
	defer func() {
		if !s.broken() {
			_, drop := s.wire.simple(background, "DROP TABLE "+name)
			err = errors.Join(err, failure(drop))
		}
	}()
	if _, err := s.wire.simple(ctx, "DELETE FROM "+name); err != nil {
		return failure(err)
	}
	for began := time.Now(); ; {
		if _, err := s.wire.simple(ctx, "VACUUM "+name); err != nil {
			return failure(err)
		}
		var bytes int64
		if err := s.get(&bytes, "SELECT pg_relation_size(?::text::regclass)", name); err != nil || bytes == 0 {
			return failure(err)
		}
		if time.Since(began) > scrubPatience {
			return engine.Failf(engine.ErrBusy, "end it (migrate health shows the oldest; prepared "+
				"ones, replication slots, and standbys with hot_standby_feedback count, too) and do it "+
				"again: what was done stays done",
				"a transaction from before still sees what was there, and so the tables keep it")
		}
		if !engine.Pause(ctx, 100*time.Millisecond) {
			return waitEnded(ctx, "what was there before")
		}
	}
}
