package live

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Retry imports a record from quarantine, or a file of which nothing could be read.
func (layout) Retry(_ context.Context, t *tree.Tree, q *tree.Aside, raw []byte) (p tree.Piece, reason string,
	err error,
) {
	f := &file{Tree: t, scope: t.Scope, path: q.Path, text: raw}
	switch {
	case len(raw) == 0:
		return nil, "nothing is kept of it: import the folder again", nil
	case q.What == tree.WhatFile:
		f.sum = sumOf(raw)
		if f.parse(); f.damage != nil {
			return nil, f.damage.Reason, nil
		}
		f.retried = true
		return f, "", nil
	case q.What != tree.WhatLine && q.What != tree.WhatConflict:
		return nil, "what is kept is the end of a file that was cut: import the folder again", nil
	}
	f.text = slices.Concat([]byte("[\n"), []byte(indent(raw)), raw, []byte("\n]"))
	f.parse()
	if len(f.elements) != 1 || f.damage != nil {
		return nil, q.Reason, nil
	}
	e := &f.elements[0]
	e.Offset = int(q.ByteOffset)
	if e.Reason == "" && q.Reason == refusal(e, hasLater) { // even if the later one was removed
		return nil, q.Reason, nil
	}
	return &lateRecord{f, q}, e.Reason, nil
}

// indent returns the indentation of a record of several lines, as its last line has it.
func indent(raw []byte) string {
	last := string(raw[bytes.LastIndexByte(raw, '\n')+1:])
	if len(last) == len(raw) {
		return ""
	}
	return last[:len(last)-len(strings.TrimLeft(last, " "))]
}

// A lateRecord was in quarantine when the rest of its file was imported.
type lateRecord struct {
	*file
	aside *tree.Aside
}

// Take imports the record at its place in its file, and counts it in the file's row of the ledger.
func (f *lateRecord) Take(tx *db.Tx, part *tree.Part) error {
	if err := f.inScope(&tx.Rx); err != nil {
		return err
	}
	e := &f.elements[0]
	ours, found, err := findImported(&tx.Rx, f.scope, e.Record.Snapshot.ID)
	if err != nil {
		return err
	}
	from := origin{Source: f.Source.ID, Path: []byte(f.path)}
	if from.Position, err = f.position(&tx.Rx); err != nil {
		return err
	}
	b := &taking{file: f.file, tx: tx, part: part, counts: tree.Tally{}}
	if taken, err := b.takeEqual(e, ours, found, from); err != nil || !taken {
		if err == nil {
			part.Differ(f.path, f.aside.Reason)
		}
		return err
	}
	if err := f.Source.Release(tx, f.path, f.aside.ByteOffset, f.aside.What); err != nil {
		return err
	}
	return f.recount(tx, len(e.Record.Events))
}

// position returns the place of the record among those of its file: the free places belong to the
// records in quarantine, in the order of the file.
func (f *lateRecord) position(rx *db.Rx) (int, error) {
	var taken []int
	if err := rx.Select(&taken, sqlPositions, f.Source.ID, []byte(f.path)); err != nil {
		return 0, err
	}
	before, err := f.Source.CountBefore(rx, f.aside)
	if err != nil {
		return 0, err
	}
	at := 0
	for ; before > 0 || slices.Contains(taken, at); at++ {
		if !slices.Contains(taken, at) {
			before--
		}
	}
	return at, nil
}

// recount counts the record and its events as imported in the ledger's row.
func (f *lateRecord) recount(tx *db.Tx, events int) error {
	row, err := f.Source.File(&tx.Rx, f.path)
	if err != nil || row == nil {
		return err
	}
	counts, err := tree.ParseTally(row.Records)
	if err != nil {
		return err
	}
	move := func(from, to string, n int64) {
		counts[from] -= min(n, counts[from])
		counts[to] += n
	}
	switch {
	case f.aside.What == tree.WhatLine:
		move(tree.Undecodable, kindRun, 1)
		counts[kindEvent] += int64(events)
	default:
		move(kindRun+refusedSuffix, kindRun, 1)
		move(kindEvent+refusedSuffix, kindEvent, int64(events))
	}
	maps.DeleteFunc(counts, func(_ string, n int64) bool { return n == 0 })
	row.Records = counts.String()
	return f.Source.Put(tx, row)
}
