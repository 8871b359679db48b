package tree

import "selvedge/db"

// A Foresight gathers what the pieces of a batch are about to ask and to number, so that a server
// is asked once for many of them. A file is asked one by one, as ever.
type Foresight struct {
	// Rx is the transaction that the pieces are taken in, or looked at.
	Rx *db.Rx

	tx     *db.Tx // nil where they are only looked at
	source Source
	met    map[string]struct{}

	things    []string // of the piece under way
	questions []foreseenQuestion
	rows      map[string]int
}

type foreseenQuestion struct {
	query string
	args  []any
}

func (t *Tree) foresight(rx *db.Rx, tx *db.Tx) *Foresight {
	return &Foresight{Rx: rx, tx: tx, source: t.Source, met: map[string]struct{}{}}
}

// Taken reports whether the piece is about to be taken, and not only looked at.
func (f *Foresight) Taken() bool { return f.tx != nil }

// About says what the piece reads and writes. Of two pieces about one thing the second is foreseen
// when the first was taken.
func (f *Foresight) About(thing string) { f.things = append(f.things, thing) }

// Ask says what the piece is about to ask, before it changes anything by which the answer would be
// another one.
func (f *Foresight) Ask(query string, args ...any) {
	f.questions = append(f.questions, foreseenQuestion{query, args})
}

// File is About and Ask for the ledger's row of a file.
func (f *Foresight) File(path string) {
	f.About("file " + path)
	f.Ask(sqlFindFile, f.source.ID, []byte(path))
}

// Aside is Ask for what is in quarantine of a file, or of a folder and what is below it, and for
// whether it is there as what can't be read.
func (f *Foresight) Aside(t *Tree, path string) {
	if t.Aside {
		f.Ask(sqlQuarantineBelow, belowArgs(t.Source, path)...)
	}
	if t.Unread {
		f.Ask(sqlFindQuarantine, t.Source.ID, []byte(path), int64(0), WhatFile)
	}
}

// Expect says how many rows of a table the piece will make.
func (f *Foresight) Expect(table string, rows int) {
	if f.rows == nil {
		f.rows = map[string]int{}
	}
	f.rows[table] += rows
}

// ExpectAside is Expect for what will go into quarantine.
func (f *Foresight) ExpectAside(rows int) { f.Expect("quarantine", rows) }

// add foresees a piece; ok is false where one before it is about the same.
func (f *Foresight) add(p Piece) (ok bool, err error) {
	f.things, f.questions, f.rows = f.things[:0], f.questions[:0], nil
	if err := p.Foresee(f); err != nil {
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
		if err := f.Rx.Foresee(q.query, q.args...); err != nil {
			return false, err
		}
	}
	return true, nil
}

// foreseenAgain is how many pieces are foreseen at once where what was foreseen is of no use any more.
const foreseenAgain = 16

// look counts a batch of which nothing has to be written; known is false where something has.
func (t *Tree) look(rx *db.Rx, batch []Piece, part *Part) (known bool, err error) {
	f := t.foresight(rx, nil)
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
		f, foreseen := t.foresight(&tx.Rx, tx), 0
		for foreseen < min(most, len(batch)) {
			ok, err := f.add(batch[foreseen])
			if err != nil {
				return wrap(batch[foreseen], err)
			}
			if !ok {
				break
			}
			foreseen++
		}
		most = min(2*most, maxPieces)
		for i, p := range batch[:max(foreseen, 1)] {
			if i > 0 && !tx.Foresees() {
				most, foreseen = foreseenAgain, i
				break
			}
			if err := p.Take(tx, part); err != nil {
				return wrap(p, err)
			}
		}
		batch = batch[max(foreseen, 1):]
	}
	return nil
}
