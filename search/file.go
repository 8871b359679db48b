package search

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jmoiron/sqlx"

	"selvedge/db"
)

const memory = ":memory:"

// A file is the index of a file: an FTS5 table in a file beside it.
type file struct {
	db   *db.DB
	o    *Options
	path string

	mu   sync.RWMutex // guards what follows: the file may be deleted, and is opened anew then
	pool *sqlx.DB
	info os.FileInfo
}

func openFile(ctx context.Context, d *db.DB, o *Options) (*file, error) {
	f := &file{db: d, o: o, path: pathOf(d.Path(), *o)}
	if d.Path() == memory {
		f.path = memory
	}
	err := f.open(ctx)
	if err != nil && f.path != memory { // spoiled by a crash: writes do not wait for the disk
		if err = remove(f.path, f.path+"-wal", f.path+"-shm"); err == nil {
			err = f.open(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", db.ErrIO, f.path, err)
	}
	return f, nil
}

func pathOf(database string, o Options) string {
	path := database + "-search-" + version
	if o.Output {
		path += "-output"
	}
	return path
}

func fileExists(d *db.DB, o Options) bool {
	_, err := os.Stat(pathOf(d.Path(), o))
	return err == nil
}

// remove removes files, those that are there.
func remove(names ...string) (failed error) {
	for _, name := range names {
		if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

func removeAll(database string) error {
	prefix := database + "-search-"
	names, err := filepath.Glob(escaped.Replace(prefix) + "[0-9]*")
	others := func(name string) bool { return !ofAnIndex.MatchString(name[len(prefix):]) }
	return errors.Join(err, remove(slices.DeleteFunc(names, others)...))
}

// ofAnIndex is what stands behind the prefix in the names of its files.
var ofAnIndex = regexp.MustCompile(`^[0-9]+(-output)?(-wal|-shm)?$`)

// escaped makes a path a pattern that matches only itself.
var escaped = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

const sqlMakeFile = `
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS heads (store TEXT NOT NULL, key INTEGER NOT NULL, seen INTEGER NOT NULL,
	scope TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (store, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts (id INTEGER PRIMARY KEY, store TEXT NOT NULL,
	key INTEGER NOT NULL, place INTEGER NOT NULL, kind TEXT NOT NULL, at INTEGER);
CREATE INDEX IF NOT EXISTS texts_by_thing ON texts (store, key);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);`

func (f *file) open(ctx context.Context) error {
	// It can be made again, so it does not wait for the disk. Deleted texts are overwritten.
	at := "file://" + (&url.URL{Path: f.path}).EscapedPath()
	if f.path == memory {
		at = "file:" + memory
	}
	pool, err := sqlx.Open("sqlite",
		at+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"+
			"&_pragma=secure_delete(on)&_txlock=immediate")
	if err != nil {
		return err
	}
	if f.path == memory {
		pool.SetMaxOpenConns(1)
	} else if err := makeFile(f.path); err != nil {
		return errors.Join(err, pool.Close())
	}
	of, err := f.database(ctx)
	if err == nil {
		err = writeFile(ctx, pool, func(t tables) error {
			if _, err := t.Exec(sqlMakeFile); err != nil {
				return err
			}
			return keep(t, f.o, of)
		})
	}
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	f.pool = pool
	if f.path != memory {
		f.info, err = os.Stat(f.path)
	}
	return err
}

// makeFile makes a missing file, with the mode of a database. It opens no other: closing it would drop the
// locks of another index of this process.
func makeFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// keep compares what is indexed with what is to be: the database, and who is left out. If they differ, the
// index is made anew.
func keep(t tables, o *Options, of string) error {
	var was []string // the database that is indexed, the word that was drawn, and who is left out
	err := t.Select(&was, `SELECT value FROM index.settings ORDER BY name`)
	if err == nil && o.Without == nil && len(was) == 3 {
		err = json.Unmarshal([]byte(was[2]), &o.Without)
	}
	if err != nil {
		return err
	}
	slices.Sort(o.Without)
	without, err := json.Marshal(append([]string{}, o.Without...))
	if err != nil || len(was) == 3 && was[0] == of && was[2] == string(without) {
		return err
	}
	for _, table := range []string{"heads", "words", "texts"} {
		if _, err := t.Exec("DELETE FROM index." + table); err != nil {
			return err
		}
	}
	_, err = t.Exec(`INSERT INTO index.settings (name, value) VALUES ('database', ?), ('made', ?), ('without', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value`, of, rand.Text(), string(without))
	return err
}

// current returns the pool of the file that has the index's name: another one if it was deleted.
func (f *file) current(ctx context.Context) (*sqlx.DB, error) {
	f.mu.RLock()
	pool, info := f.pool, f.info
	f.mu.RUnlock()
	if now, err := os.Stat(f.path); f.path == memory || err == nil && os.SameFile(now, info) {
		return pool, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pool != pool { // another call has opened it
		return f.pool, nil
	}
	_ = pool.Close() // its file is gone
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	return f.pool, nil
}

// database returns what tells the database from another one of its name, such as a backup that was restored.
func (f *file) database(ctx context.Context) (id string, err error) {
	err = f.db.Read(ctx, "look at the database", func(rx *db.Rx) error {
		var generation int64
		_, err := rx.Find(&generation, `SELECT generation FROM selvedge_file`)
		id = strconv.FormatInt(generation, 10)
		return err
	})
	return id, err
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pool.Close()
}

func (f *file) read(ctx context.Context, fn func(t selects) error) error {
	return f.in(ctx, func(pool *sqlx.DB) error { return fn(ofSQLite{ctx, pool}) })
}

func (f *file) write(ctx context.Context, _ string, fn func(t tables) error) error {
	return f.in(ctx, func(pool *sqlx.DB) error { return writeFile(ctx, pool, fn) })
}

// clean empties the WAL.
func (f *file) clean(ctx context.Context) error {
	return f.in(ctx, func(pool *sqlx.DB) error {
		_, err := pool.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
		return err
	})
}

// in runs fn with the pool of the file that has the index's name.
func (f *file) in(ctx context.Context, fn func(pool *sqlx.DB) error) error {
	pool, err := f.current(ctx)
	if err == nil {
		err = fn(pool)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", db.ErrIO, err)
	}
	return err
}

func writeFile(ctx context.Context, pool *sqlx.DB, fn func(t tables) error) error {
	tx, err := pool.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(ofSQLite{ctx, tx}); err != nil {
		_ = tx.Rollback() // err says what happened
		return err
	}
	return tx.Commit()
}

// ofSQLite runs statements in a connection of the index.
type ofSQLite struct {
	ctx context.Context
	on  sqlx.ExtContext
}

func (s ofSQLite) Select(list any, query string, args ...any) error {
	return sqlx.SelectContext(s.ctx, s.on, list, strings.ReplaceAll(query, "index.", ""), args...)
}

func (s ofSQLite) Exec(query string, args ...any) (int64, error) {
	done, err := s.on.ExecContext(s.ctx, strings.ReplaceAll(query, "index.", ""), args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (f *file) words() dialect {
	return dialect{
		put: func(t tables, id int64, words string) error {
			_, err := t.Exec(`INSERT INTO index.words (rowid, text) VALUES (?, ?)`, id, words)
			return err
		},
		forget: `DELETE FROM index.words WHERE rowid IN (SELECT id FROM index.texts WHERE store = ? AND key = ?)`,
		find:   func(terms []term) (string, []any) { return `words MATCH ?`, []any{ofFTS5(terms)} },
		best:   "rank", id: "rowid",
	}
}

// ofFTS5 makes an expression of FTS5 of terms. Each is quoted, so that nothing in it is an operator.
func ofFTS5(terms []term) string {
	var have, not []string
	for _, t := range terms {
		quoted := `"` + strings.ReplaceAll(t.text, `"`, `""`) + `"`
		if t.begins {
			quoted += " *"
		}
		if t.not {
			not = append(not, quoted)
		} else {
			have = append(have, quoted)
		}
	}
	text := strings.Join(have, " AND ")
	if len(not) > 0 { // in one group: FTS5 has room for few that are nested
		text = "(" + text + ") NOT (" + strings.Join(not, " OR ") + ")"
	}
	return text
}
