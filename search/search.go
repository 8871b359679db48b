// Package search finds words in the runs of a file: in intents, prompts, summaries and errors, in what
// live runs said, in checkpoints and in the transcripts of workers; in the output of tools too, if asked.
//
//	index, err := search.Open(ctx, d, search.Options{})
//	err = index.Update(ctx)
//	page, err := index.Search(ctx, search.Query{Words: `"red tests" deploy*`}, db.At{})
//
// The index is a file beside the database, FILE-search-1. It holds a copy of the text, no writer of the
// database waits for it, and it may be deleted at any time: it is made again. A server has no index.
package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/jmoiron/sqlx"

	"selvedge/db"
	"selvedge/internal/txn"
)

const memory = ":memory:"

// version is in the name of the index: one of another version is left alone.
const version = "1"

// Options configure Open.
type Options struct {
	// Output indexes the output of tools too, in an index of its own.
	Output bool
	// Without are the agents, sessions or runtimes that are left out. Nil keeps the choice that the index has,
	// which is nobody in a new one. Another choice makes it anew.
	Without []string
}

// UpdateAll updates the indexes that a database has, after things were removed from it: nothing of them is
// left in the indexes then.
func UpdateAll(ctx context.Context, d *db.DB) error {
	for _, o := range []Options{{}, {Output: true}} {
		if _, err := os.Stat(pathOf(d.Path(), o)); err != nil {
			continue // there is none
		}
		x, err := Open(ctx, d, o)
		if err == nil {
			err = errors.Join(x.Update(ctx), x.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An Index finds words in a database. Its methods are safe for concurrent use, also by several
// processes.
type Index struct {
	db   *db.DB
	o    Options
	path string

	mu   sync.RWMutex // guards what follows: the file may be deleted, and is opened anew then
	pool *sqlx.DB
	file os.FileInfo
}

// Open opens the index of a file, and makes an empty one if there is none. db.ErrUnsupported: the
// database is on a server. db.ErrIO: the folder can't be written.
func Open(ctx context.Context, d *db.DB, o Options) (*Index, error) {
	const op = "open search index"
	o.Without = slices.Clone(o.Without)
	x := &Index{db: d, o: o, path: pathOf(d.Path(), o)}
	if strings.Contains(d.Path(), "://") {
		return nil, &db.Error{
			Op: op, Err: db.ErrUnsupported, Hint: "a server has no index; query the views with ILIKE",
		}
	}
	if d.Path() == memory {
		x.path = memory
	}
	err := x.open(ctx)
	if err != nil && x.path != memory { // spoiled by a crash: writes do not wait for the disk
		if err = errors.Join(remove(x.path)); err == nil {
			err = x.open(ctx)
		}
	}
	if err != nil {
		return nil, &db.Error{Op: op, Err: fmt.Errorf("%w: %s: %w", db.ErrIO, x.path, err)}
	}
	return x, nil
}

func pathOf(database string, o Options) string {
	path := database + "-search-" + version
	if o.Output {
		path += "-output"
	}
	return path
}

// files are those of an index.
func files(path string) []string { return []string{path, path + "-wal", path + "-shm"} }

func remove(path string) error {
	var failed error
	for _, name := range files(path) {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = err
		}
	}
	return failed
}

// Forget deletes the indexes of a file, of every version, so that nothing is left in them.
func Forget(database string) error {
	names, err := filepath.Glob(escaped.Replace(database) + "-search-*")
	for _, name := range names {
		if removed := os.Remove(name); removed != nil && !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// escaped makes a path a pattern that matches only itself.
var escaped = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// The index. A head is a thing of a store, with how much of it is indexed.
const sqlMake = `
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS heads (store TEXT NOT NULL, key INTEGER NOT NULL, seen INTEGER NOT NULL,
	scope TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (store, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts (id INTEGER PRIMARY KEY AUTOINCREMENT, store TEXT NOT NULL,
	key INTEGER NOT NULL, place INTEGER NOT NULL, kind TEXT NOT NULL, at INTEGER);
CREATE INDEX IF NOT EXISTS texts_by_thing ON texts (store, key);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);`

func (x *Index) open(ctx context.Context) error {
	// It can be made again, so it does not wait for the disk. Deleted texts are overwritten.
	place := "file://" + (&url.URL{Path: x.path}).EscapedPath()
	if x.path == memory {
		place = "file:" + memory
	}
	pool, err := sqlx.Open("sqlite",
		place+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"+
			"&_pragma=secure_delete(on)&_txlock=immediate")
	if err != nil {
		return err
	}
	if x.path == memory {
		pool.SetMaxOpenConns(1)
	} else if f, err := os.OpenFile(x.path, os.O_CREATE|os.O_RDWR, 0o600); err != nil { // as the database's
		return errors.Join(err, pool.Close())
	} else if err := f.Close(); err != nil {
		return errors.Join(err, pool.Close())
	}
	of, err := x.database(ctx)
	var tx *sqlx.Tx
	if err == nil {
		tx, err = pool.BeginTxx(ctx, nil)
	}
	if err == nil {
		err = func() error {
			if _, err := tx.ExecContext(ctx, sqlMake); err != nil {
				return err
			}
			var was []string // the agents that are left out, and the database that is indexed
			err := tx.SelectContext(ctx, &was, `SELECT value FROM settings ORDER BY name`)
			if err == nil && x.o.Without == nil && len(was) == 2 {
				err = json.Unmarshal([]byte(was[1]), &x.o.Without)
			}
			if err != nil {
				return err
			}
			slices.Sort(x.o.Without)
			without, err := json.Marshal(append([]string{}, x.o.Without...))
			if err != nil || slices.Equal(was, []string{of, string(without)}) {
				return err
			}
			for _, table := range []string{"heads", "texts", "words"} {
				if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
					return err
				}
			}
			_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO settings VALUES ('database', ?), ('without', ?)`, of,
				string(without))
			return err
		}()
		if err == nil {
			err = tx.Commit()
		} else {
			err = errors.Join(err, tx.Rollback())
		}
	}
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	x.pool = pool
	if x.path != memory {
		x.file, err = os.Stat(x.path)
	}
	return err
}

// current returns the pool of the file that has the index's name: another one if it was deleted.
func (x *Index) current(ctx context.Context) (*sqlx.DB, error) {
	x.mu.RLock()
	pool, file := x.pool, x.file
	x.mu.RUnlock()
	if now, err := os.Stat(x.path); x.path == memory || err == nil && os.SameFile(now, file) {
		return pool, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pool != pool { // another call has opened it
		return x.pool, nil
	}
	_ = pool.Close() // its file is gone
	if err := x.open(ctx); err != nil {
		return nil, err
	}
	return x.pool, nil
}

// database returns what tells the database from another one of its name, such as a backup that was restored.
func (x *Index) database(ctx context.Context) (id string, err error) {
	err = x.db.Read(ctx, "look at the database", func(rx *db.Rx) error {
		var generation int64
		_, err := rx.Find(&generation, `SELECT generation FROM selvedge_file`)
		id = strconv.FormatInt(generation, 10)
		return err
	})
	return id, err
}

// Close closes the index. The database stays open.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.pool.Close()
}

// A Query is what is looked for.
type Query struct {
	// Words must all be there, in any case, with or without accents: word, "a phrase", beginning*, -not.
	// Any text is accepted; one without a word that must be there is db.ErrInvalid.
	Words string
	Scope string
	Owner *string // agent, session or runtime; nil: any
	Store string  // runs, live, checkpoints or workers; "": any
	// Since and Until bound the time of a text: at or after Since, before Until. Zero: no bound. Texts that
	// were imported without a time pass no bound.
	Since, Until time.Time
	// Best has what fits best first, rather than what was indexed last.
	Best bool
}

// A Hit is a text that was found.
type Hit struct {
	Store   string    `db:"store" json:"store"`   // runs, live, checkpoints or workers
	Owner   string    `db:"owner" json:"owner"`   // agent, session or runtime
	Name    string    `db:"name" json:"name"`     // id of the run or the worker
	Place   int64     `db:"place" json:"place"`   // of the record in its trace or transcript, from 1; 0: none
	Kind    string    `db:"kind" json:"kind"`     // word of the record: started, turn, ended, output, ...
	Snippet string    `db:"snippet" json:"-"`     // the words around it, those found between Mark and Unmark
	At      time.Time `db:"-" json:"recorded_at"` // RFC 3339, UTC; the year 1: imported without a time
	Nanos   *int64    `db:"at" json:"-"`
	ID      int64     `db:"id" json:"-"`
}

// Mark and Unmark are around the found words of a snippet.
const Mark, Unmark = "\x02", "\x03"

// Search returns a page of the texts that have the words, the latest first. db.ErrInvalid: there is no
// word in the query.
func (x *Index) Search(ctx context.Context, q Query, at db.At) (page db.Page[Hit], err error) {
	const op = "search"
	match, err := expression(q.Words)
	if err == nil && q.Store != "" && !slices.ContainsFunc(sources,
		func(s source) bool { return s.store == q.Store }) {
		err = txn.Invalid("use runs, live, checkpoints or workers", "there is no store %q", q.Store)
	}
	if at.Limit == 0 {
		at.Limit = db.DefaultLimit
	}
	if err == nil && (at.Limit < 0 || at.Limit > db.MaxLimit) {
		err = txn.Invalid(fmt.Sprint("use 1 to ", db.MaxLimit), "the limit %d", at.Limit)
	}
	place := int64(0) // of the page before: its last id, or how many were shown
	if err == nil && at.After != "" {
		if place, err = strconv.ParseInt(at.After, 36, 64); err != nil || place < 0 {
			err = txn.Invalid("use the Next of a page", "the cursor %.20q", at.After)
		}
	}
	if err != nil {
		return page, db.About(err, op, "", "", nil)
	}
	query := `SELECT t.id, t.store, h.owner, h.name, t.place, t.kind, t.at,
	snippet(words, 0, char(2), char(3), '…', 24) AS snippet
FROM words AS w CROSS JOIN texts AS t ON t.id = w.rowid JOIN heads AS h ON h.store = t.store AND h.key = t.key
WHERE words MATCH ? AND h.scope = ?`
	args := []any{match, q.Scope}
	and := func(text string, arg any) { query, args = query+text, append(args, arg) }
	if q.Owner != nil {
		and(` AND h.owner = ?`, *q.Owner)
	}
	if q.Store != "" {
		and(` AND t.store = ?`, q.Store)
	}
	if !q.Since.IsZero() {
		and(` AND t.at >= ?`, db.Nanos(q.Since))
	}
	if !q.Until.IsZero() {
		and(` AND t.at < ?`, db.Nanos(q.Until))
	}
	switch {
	case q.Best:
		query += ` ORDER BY rank`
		and(` LIMIT ?`, at.Limit+1)
		and(` OFFSET ?`, place)
	default:
		if at.After != "" {
			and(` AND w.rowid < ?`, place)
		}
		query += ` ORDER BY w.rowid DESC`
		and(` LIMIT ?`, at.Limit+1)
	}
	pool, err := x.current(ctx)
	if err == nil {
		err = pool.SelectContext(ctx, &page.Items, query, args...)
	}
	if err != nil {
		return page, &db.Error{Op: op, Err: fmt.Errorf("%w: %w", db.ErrIO, err)}
	}
	if len(page.Items) > at.Limit {
		page.Items = page.Items[:at.Limit]
		next := page.Items[at.Limit-1].ID
		if q.Best {
			next = place + int64(at.Limit)
		}
		page.Next = strconv.FormatInt(next, 36)
	}
	for i := range page.Items {
		if h := &page.Items[i]; h.Nanos != nil {
			h.At = time.Unix(0, *h.Nanos).UTC()
		}
	}
	return page, nil
}

// expression makes of what a person typed an expression of FTS5. Each term is quoted, so that nothing in it
// is an operator.
func expression(words string) (string, error) {
	var have, not []string
	for rest := strings.TrimSpace(words); rest != ""; rest = strings.TrimSpace(rest) {
		to := &have
		if len(rest) > 1 && rest[0] == '-' && rest[1] != ' ' {
			to, rest = &not, rest[1:]
		}
		var term string
		if rest[0] == '"' {
			term, rest, _ = strings.Cut(rest[1:], `"`)
		} else {
			end := strings.IndexFunc(rest, unicode.IsSpace)
			if end < 0 {
				end = len(rest)
			}
			term, rest = rest[:end], rest[end:]
		}
		begins := strings.HasSuffix(term, "*") || strings.HasPrefix(rest, "*")
		rest = strings.TrimPrefix(rest, "*")
		term = strings.TrimRight(strings.ToValidUTF8(strings.ReplaceAll(term, "\x00", " "), " "), "*")
		if strings.IndexFunc(term, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) < 0 {
			continue // no token
		}
		quoted := `"` + strings.ReplaceAll(term, `"`, `""`) + `"`
		if begins {
			quoted += " *"
		}
		*to = append(*to, quoted)
	}
	if len(have) == 0 {
		return "", txn.Invalid("write a word that is to be there", "the query %.60q has no word to find", words)
	}
	text := strings.Join(have, " AND ")
	for _, term := range not {
		text = "(" + text + ") NOT " + term
	}
	return text, nil
}
