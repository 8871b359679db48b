package tree

import "selvedge/db"

// A Prefetcher gathers what the pieces of a batch are about to ask and to number, so that a server
// is asked once for many of them. A file is asked one by one, as ever.
type Prefetcher struct {
	// Rx is the transaction that the pieces are taken in, or looked at.
	Rx *db.Rx

	tx     *db.Tx // nil where they are only looked at
	source Source
	met    map[string]struct{}

	things    []string // of the piece under way
	questions []prefetchedQuery
	rows      map[string]int
}

type prefetchedQuery struct {
	query string
	args  []any
}

func (t *Tree) prefetcher(rx *db.Rx, tx *db.Tx) *Prefetcher {
	return &Prefetcher{Rx: rx, tx: tx, source: t.Source, met: map[string]struct{}{}}
}

// Taken reports whether the piece is about to be taken, and not only looked at.
func (f *Prefetcher) Taken() bool { return f.tx != nil }

// About says what the piece reads and writes. Of two pieces about one thing the second is prefetched
// when the first was taken.
func (f *Prefetcher) About(thing string) { f.things = append(f.things, thing) }

// Ask says what the piece is about to ask, before it changes anything by which the answer would be
// another one.
func (f *Prefetcher) Ask(query string, args ...any) {
	f.questions = append(f.questions, prefetchedQuery{query, args})
}

// File is About and Ask for the ledger's row of a file.
func (f *Prefetcher) File(path string) {
	f.About("file " + path)
	f.Ask(sqlFindFile, f.source.ID, []byte(path))
}

// Aside is Ask for what is in quarantine of a file, or of a folder and what is below it, and for
// whether it is there as what can't be read.
func (f *Prefetcher) Aside(t *Tree, path string) {
	if t.Aside {
		f.Ask(sqlQuarantineBelow, belowArgs(t.Source, path)...)
	}
	if t.Unread {
		f.Ask(sqlFindQuarantine, t.Source.ID, []byte(path), int64(0), WhatFile)
	}
}

// Expect says how many rows of a table the piece will make.
func (f *Prefetcher) Expect(table string, rows int) {
	if f.rows == nil {
		f.rows = map[string]int{}
	}
	f.rows[table] += rows
}

// ExpectAside is Expect for what will go into quarantine.
func (f *Prefetcher) ExpectAside(rows int) { f.Expect("quarantine", rows) }

// add prefetches a piece; ok is false where one before it is about the same.
func (f *Prefetcher) add(p Piece) (ok bool, err error) {
	f.things, f.questions, f.rows = f.things[:0], f.questions[:0], nil
	if err := p.Prefetch(f); err != nil {
		return false, err
	}
	if f.tx != nil {
		for _, thing := range f.things {
			if _, met := f.met[thing]; met {
				return false, nil
			}
		}
		for _, thing := range f.things {
			f.met[thing] = struct{}{}
		}
		for table, rows := range f.rows {
			f.tx.Expect(table, rows)
		}
	}
	for _, q := range f.questions {
		if err := f.Rx.Prefetch(q.query, q.args...); err != nil {
			return false, err
		}
	}
	return true, nil
}

// prefetchedAgain is how many pieces are prefetched at once where what was prefetched is of no use any more.
const prefetchedAgain = 16

// look counts a batch of which nothing has to be written; known is false where something has.
func (t *Tree) look(rx *db.Rx, batch []Piece, part *Part) (known bool, err error) {
	f := t.prefetcher(rx, nil)
	for _, p := range batch {
		if _, err := f.add(p); err != nil {
			return false, wrap(p, err)
		}
	}
	for _, p := range batch {
		if known, err = p.Known(rx, part); err != nil || !known {
			return false, wrap(p, err)
		}
	}
	return true, nil
}

// take writes a batch.
func (t *Tree) take(tx *db.Tx, batch []Piece, part *Part) error {
	for most := maxPieces; len(batch) > 0; {
		f, prefetched := t.prefetcher(&tx.Rx, tx), 0
		for prefetched < min(most, len(batch)) {
			ok, err := f.add(batch[prefetched])
			if err != nil {
				return wrap(batch[prefetched], err)
			}
			if !ok {
				break
			}
			prefetched++
		}
		most = min(2*most, maxPieces)
		for i, p := range batch[:max(prefetched, 1)] {
			if i > 0 && !tx.Prefetches() {
				most, prefetched = prefetchedAgain, i
				break
			}
			if err := p.Take(tx, part); err != nil {
				return wrap(p, err)
			}
		}
		batch = batch[max(prefetched, 1):]
	}
	return nil
}
