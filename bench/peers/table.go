package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3" // registers "sqlite3"
	ncruces "github.com/ncruces/go-sqlite3"
	_ "modernc.org/sqlite" // registers "sqlite"
	"zombiezen.com/go/sqlite"
)

// A connection is one connection to a SQLite file, with a cache of prepared statements. The callers share it,
// since one writes at a time.
type connection interface {
	// run runs a statement, reads all columns of all rows, and returns how many rows there were.
	run(ctx context.Context, query string, args ...any) (rows int, err error)
	close() error
}

// pragmas are what the documentation of all four drivers recommends; the level of durability comes last.
var pragmas = []string{"busy_timeout=5000", "journal_mode=wal", "foreign_keys=1"}

func synchronous(full bool) string { return "synchronous=" + level(full) }

var tables = []string{
	`CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, run TEXT NOT NULL, number INTEGER NOT NULL,
		body BLOB NOT NULL) STRICT`,
	`CREATE UNIQUE INDEX IF NOT EXISTS turns_by_run ON turns (run, number)`,
	`CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, agent TEXT NOT NULL, intent TEXT NOT NULL,
		status TEXT NOT NULL, started INTEGER NOT NULL) STRICT`,
	`CREATE INDEX IF NOT EXISTS runs_by_start ON runs (agent, started)`,
	`CREATE TABLE IF NOT EXISTS paused (run TEXT PRIMARY KEY, body BLOB NOT NULL, claimed INTEGER) STRICT`,
}

// A table is what a careful program writes itself.
type table struct{ connection }

func openTable(open func(path string, full bool) (connection, error)) func(context.Context, string, options) (
	store, error,
) {
	return func(ctx context.Context, dir string, o options) (store, error) {
		c, err := open(filepath.Join(dir, "table.db"), o.full)
		if err != nil {
			return nil, err
		}
		for _, statement := range tables {
			if _, err := c.run(ctx, statement); err != nil {
				return nil, errors.Join(err, c.close())
			}
		}
		return table{c}, nil
	}
}

func (t table) Append(ctx context.Context, run, i int, body []byte) error {
	_, err := t.run(ctx, `INSERT INTO turns (run, number, body) VALUES (?, ?, ?)`, name(run), i, body)
	return err
}

func (t table) Cycle(ctx context.Context, id string, body []byte) error {
	_, err := t.run(ctx, `INSERT INTO paused (run, body) VALUES (?, ?)`, id, body)
	if err != nil {
		return err
	}
	n, err := t.run(ctx, `UPDATE paused SET claimed = ? WHERE run = ? AND claimed IS NULL RETURNING body`,
		time.Now().UnixNano(), id)
	if err == nil && n != 1 {
		err = fmt.Errorf("the run %s is not paused", id)
	}
	if err != nil {
		return err
	}
	_, err = t.run(ctx, `DELETE FROM paused WHERE run = ? AND claimed IS NOT NULL`, id)
	return err
}

func (t table) Fill(ctx context.Context, n int) error {
	for run := range n {
		_, err := t.run(ctx, `INSERT INTO runs (id, agent, intent, status, started) VALUES (?, ?, ?, ?, ?)`,
			name(run), agent, intent, "running", int64(run))
		if err != nil {
			return err
		}
	}
	return nil
}

func (t table) List(ctx context.Context) (int, error) {
	return t.run(ctx, `SELECT id, agent, intent, status, started FROM runs WHERE agent = ?
		ORDER BY started DESC LIMIT ?`, agent, page)
}

// Follow looks every 50 ms.
func (t table) Follow(ctx context.Context, heard func() error) error {
	for seen := 0; ; <-time.After(pollEvery) {
		n, err := t.run(ctx, `SELECT body FROM turns WHERE run = ? AND number >= ?`, name(0), seen)
		if err != nil {
			return err
		}
		for range n {
			if err := heard(); err != nil {
				return err
			}
		}
		seen += n
	}
}

func (t table) Close() error { return t.close() }

// A database is a connection of database/sql.
type database struct {
	pool *sql.DB
	mu   sync.Mutex // of prepared
	made map[string]*sql.Stmt
}

func mattnDSN(path string, full bool) string {
	return "file:" + path + "?_busy_timeout=5000&_journal_mode=WAL&_foreign_keys=1&_synchronous=" + level(full)
}

func moderncDSN(path string, full bool) string {
	set := append(slices.Clip(pragmas), synchronous(full))
	return "file:" + path + "?_pragma=" + strings.Join(set, "&_pragma=")
}

func openPool(driver string, dsn func(string, bool) string, path string, full bool) (*sql.DB, error) {
	pool, err := sql.Open(driver, dsn(path, full))
	if err == nil {
		pool.SetMaxOpenConns(1)
	}
	return pool, err
}

func openDatabase(driver string, dsn func(string, bool) string) func(string, bool) (connection, error) {
	return func(path string, full bool) (connection, error) {
		pool, err := openPool(driver, dsn, path, full)
		return &database{pool: pool, made: map[string]*sql.Stmt{}}, err
	}
}

func (d *database) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.made[query]; ok {
		return s, nil
	}
	s, err := d.pool.PrepareContext(ctx, query) //nolint:sqlclosecheck // the pool's end closes it
	if err == nil {
		d.made[query] = s
	}
	return s, err
}

func (d *database) run(ctx context.Context, query string, args ...any) (n int, err error) {
	s, err := d.prepared(ctx, query) //nolint:sqlclosecheck // kept
	if err != nil {
		return 0, err
	}
	if query[0] != 'S' && query[0] != 'U' { // no rows
		_, err := s.ExecContext(ctx, args...)
		return 0, err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values := make([]any, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for ; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

func (d *database) close() error { return d.pool.Close() }

type ncrucesConn struct {
	mu   sync.Mutex
	conn *ncruces.Conn
	made map[string]*ncruces.Stmt
}

func openNcruces(path string, full bool) (connection, error) {
	conn, err := ncruces.Open("file:" + path)
	for _, p := range append(slices.Clip(pragmas), synchronous(full)) {
		if err == nil {
			err = conn.Exec("PRAGMA " + p)
		}
	}
	return &ncrucesConn{conn: conn, made: map[string]*ncruces.Stmt{}}, err
}

func (c *ncrucesConn) run(_ context.Context, query string, args ...any) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.made[query]
	if !ok {
		if s, _, err = c.conn.Prepare(query); err != nil {
			return 0, err
		}
		c.made[query] = s
	}
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			err = errors.Join(err, s.BindText(i+1, arg))
		case []byte:
			err = errors.Join(err, s.BindBlob(i+1, arg))
		case int:
			err = errors.Join(err, s.BindInt(i+1, arg))
		case int64:
			err = errors.Join(err, s.BindInt64(i+1, arg))
		}
	}
	for ; err == nil && s.Step(); n++ {
		for i := range s.ColumnCount() {
			_ = s.ColumnValue(i)
		}
	}
	return n, errors.Join(err, s.Err(), s.Reset())
}

func (c *ncrucesConn) close() error {
	for _, s := range c.made {
		if err := s.Close(); err != nil {
			return err
		}
	}
	return c.conn.Close()
}

type zombiezenConn struct {
	mu   sync.Mutex
	conn *sqlite.Conn
}

func openZombiezen(path string, full bool) (connection, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	c := &zombiezenConn{conn: conn}
	for _, p := range append(slices.Clip(pragmas), synchronous(full)) {
		if _, err := c.run(context.Background(), "PRAGMA "+p); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return c, nil
}

func (c *zombiezenConn) run(_ context.Context, query string, args ...any) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.conn.Prepare(query) // from its cache
	if err != nil {
		return 0, err
	}
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			s.BindText(i+1, arg)
		case []byte:
			s.BindBytes(i+1, arg)
		case int:
			s.BindInt64(i+1, int64(arg))
		case int64:
			s.BindInt64(i+1, arg)
		}
	}
	for {
		more, err := s.Step()
		if err != nil || !more {
			return n, errors.Join(err, s.Reset())
		}
		for i := range s.ColumnCount() {
			_ = s.ColumnText(i)
		}
		n++
	}
}

func (c *zombiezenConn) close() error { return c.conn.Close() }
