package tree

import (
	"slices"

	"selvedge/db"
)

// A Prefetcher collects the queries that the pieces of a batch will run, and the rows that they will
// add, so that a server gets many of them at once. SQLite is queried one by one, as always.
type Prefetcher struct {
	// Rx is the transaction in which the pieces are imported, or checked for changes.
	Rx *db.Rx

	tx     *db.Tx // nil if they are only checked
	source Source
	met    map[string]bool

	things    []string // of the current piece
	questions []func() error
	rows      map[string]int
}

func (t *Tree) prefetcher(rx *db.Rx, tx *db.Tx) *Prefetcher {
	return &Prefetcher{Rx: rx, tx: tx, source: t.Source, met: map[string]bool{}, rows: map[string]int{}}
}

// Taken reports whether the piece will be imported, and not only checked.
func (f *Prefetcher) Taken() bool { return f.tx != nil }

// About names what the piece reads and writes. If two pieces are about one thing, the second is
// prefetched after the first is imported.
func (f *Prefetcher) About(thing string) { f.things = append(f.things, thing) }

// Ask names a query that the piece runs before it changes the answer.
func (f *Prefetcher) Ask(query string, args ...any) {
	f.questions = append(f.questions, func() error { return f.Rx.Store().Prefetch(query, args...) })
}

// File is About and Ask for the ledger's row of a file.
func (f *Prefetcher) File(path string) {
	f.About("file " + path)
	f.Ask(sqlFindFile, f.source.ID, []byte(path))
}

// Aside is Ask for what is in quarantine of a file, or of a folder and below it, and for whether it
// is there because it can't be read.
func (f *Prefetcher) Aside(t *Tree, path string) {
	if t.Aside {
		f.Ask(sqlQuarantineBelow, belowArgs(t.Source, path)...)
	}
	if t.Unread {
		f.Ask(sqlFindQuarantine, t.Source.ID, []byte(path), int64(0), WhatFile)
	}
}

// Expect announces how many rows of a table the piece will add.
func (f *Prefetcher) Expect(table string, rows int) { f.rows[table] += rows }

// ExpectAside is Expect for the quarantine.
func (f *Prefetcher) ExpectAside(rows int) { f.Expect("quarantine", rows) }

// add prefetches a piece. ok is false if an earlier piece is about the same thing.
func (f *Prefetcher) add(p Piece) (ok bool, err error) {
	f.things, f.questions = f.things[:0], f.questions[:0]
	clear(f.rows)
	if err := p.Prefetch(f); err != nil {
		return false, err
	}
	if f.tx != nil {
		if slices.ContainsFunc(f.things, func(thing string) bool { return f.met[thing] }) {
			return false, nil
		}
		for _, thing := range f.things {
			f.met[thing] = true
		}
		for table, rows := range f.rows {
			f.tx.Store().Expect(table, rows)
		}
	}
	return true, inTurn(f.questions...)
}

// prefetchedAgain is how many pieces are prefetched at once after answers had to be dropped.
const prefetchedAgain = 16

// look counts a batch. known is false if something must be written.
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

// take imports a batch.
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
			if i > 0 && !tx.Store().Prefetches() {
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
