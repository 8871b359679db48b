// Package search finds words in the runs of a database: in intents, prompts, summaries and errors, in what
// live runs said, in checkpoints and in the transcripts of workers; in the output of tools too, if asked.
//
//	index, err := search.Open(ctx, d, search.Options{})
//	err = index.Update(ctx)
//	page, err := index.Search(ctx, search.Query{Words: `"red tests" deploy*`}, db.At{})
//
// The index holds a copy of the text, no writer of the database waits for it, and it may be deleted at any
// time: it is made again. That of a file is a file beside it, FILE-search-1. That of a server is a schema of
// the same database, SCHEMA_search_1.
package search

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/paging"
	"selvedge/internal/txn"
)

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
		there, err := exists(ctx, d, o)
		if err == nil && there {
			var x *Index
			if x, err = Open(ctx, d, o); err == nil {
				err = errors.Join(x.Update(ctx), x.Close())
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func exists(ctx context.Context, d *db.DB, o Options) (bool, error) {
	if txn.OnServer(d.Path()) {
		return schemaExists(ctx, d, o)
	}
	return fileExists(d, o), nil
}

// Forget deletes the indexes of a database, of every version, so that nothing is left in them.
func Forget(ctx context.Context, d *db.DB) error {
	if txn.OnServer(d.Path()) {
		return dropSchemas(ctx, d)
	}
	return removeAll(d.Path())
}

// An Index finds words in a database. Its methods are safe for concurrent use, also by several
// processes.
type Index struct {
	db    *db.DB
	o     Options
	at    place
	words dialect

	mu      sync.Mutex // of updates
	updates int
	feeds   []*engine.Feed // of the sources; nil: they are not followed
	stop    func()         // ends the feeds
	isOwed  []bool         // what of a source was touched was taken from its feed, and not indexed
	made    string         // the word that was drawn when the index was made
}

// A place is where an index lies. In its statements "index." stands before the name of each table.
type place interface {
	write(ctx context.Context, why string, fn func(t tables) error) error
	read(ctx context.Context, fn func(t selects) error) error
	close() error
	// clean leaves nothing of what was deleted behind.
	clean(ctx context.Context) error
	words() dialect
}

type selects interface {
	Select(list any, query string, args ...any) error
}

type tables interface {
	selects
	Exec(query string, args ...any) (int64, error)
}

// A dialect holds the statements about words that differ.
type dialect struct {
	put    func(t tables, id int64, words string) error
	forget string // removes the words of a thing, of which it gets the store and the key
	find   func(terms []term) (condition string, args []any)
	best   string // the order of what fits best first
	id     string // column of w, the words
}

// Open opens the index of a database, and makes an empty one if there is none. db.ErrIO: the folder can't be
// written. A server's user needs the right to make a schema.
func Open(ctx context.Context, d *db.DB, o Options) (*Index, error) {
	o.Without = slices.Clone(o.Without)
	x := &Index{db: d, o: o, isOwed: make([]bool, len(sources))}
	var err error
	if txn.OnServer(d.Path()) {
		x.at, err = openSchema(ctx, d, &x.o)
	} else {
		x.at, err = openFile(ctx, d, &x.o)
	}
	if err != nil {
		return nil, db.About(err, "open search index", "", "", nil)
	}
	x.words = x.at.words()
	return x, nil
}

// Close closes the index. The database stays open.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stop != nil {
		x.stop()
	}
	return x.at.close()
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

// Search returns a page of the texts that have the words, the latest first. db.ErrInvalid: there is no
// word in the query.
func (x *Index) Search(ctx context.Context, q Query, at db.At) (page db.Page[Hit], err error) {
	const op = "search"
	terms, err := parse(q.Words)
	if err == nil && q.Store != "" && !slices.ContainsFunc(sources,
		func(s source) bool { return s.store == q.Store }) {
		err = txn.Invalid("use runs, live, checkpoints or workers", "there is no store %q", q.Store)
	}
	var room paging.Room
	if err == nil {
		room, err = paging.RoomFor(at.Limit)
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
	condition, args := x.words.find(terms)
	query := `SELECT t.id, t.store, h.owner, h.name, t.place, t.kind, t.at, w.text AS snippet
FROM index.words AS w CROSS JOIN index.texts AS t JOIN index.heads AS h ON h.store = t.store AND h.key = t.key
WHERE t.id = w.` + x.words.id + ` AND ` + condition + ` AND h.scope = ?`
	args = append(args, q.Scope)
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
		query += ` ORDER BY ` + x.words.best
		and(` LIMIT ?`, room.Items+1)
		and(` OFFSET ?`, place)
	default:
		if at.After != "" {
			and(` AND w.`+x.words.id+` < ?`, place)
		}
		query += ` ORDER BY w.` + x.words.id + ` DESC`
		and(` LIMIT ?`, room.Items+1)
	}
	err = x.at.read(ctx, func(t selects) error {
		page.Items = nil
		return t.Select(&page.Items, query, args...)
	})
	if err != nil {
		return page, db.About(err, op, "", "", nil)
	}
	if len(page.Items) > room.Items {
		page.Items = page.Items[:room.Items]
		next := page.Items[room.Items-1].ID
		if q.Best {
			next = place + int64(room.Items)
		}
		page.Next = strconv.FormatInt(next, 36)
	}
	for i := range page.Items {
		h := &page.Items[i]
		h.Snippet = snippet(h.Snippet, terms)
		if h.Nanos != nil {
			h.At = time.Unix(0, *h.Nanos).UTC()
		}
	}
	return page, nil
}
