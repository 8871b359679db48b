package tree

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db"
)

const (
	sqlDropOne = `DELETE FROM quarantine WHERE id = ?`
	sqlPlaceOf = `SELECT q.source, q.scope, sc.name AS scope_name, s.kind, s.root, q.path, q.what, q.byte_offset
FROM quarantine AS q JOIN import_sources AS s ON s.id = q.source JOIN scopes AS sc ON sc.id = q.scope
	WHERE q.id = ?`
)

// placeRow is where a row of the quarantine belongs.
type placeRow struct {
	Source     int64  `db:"source"`
	Scope      int64  `db:"scope"`
	ScopeName  string `db:"scope_name"`
	Kind       string `db:"kind"`
	Root       []byte `db:"root"`
	Path       []byte `db:"path"`
	What       string `db:"what"`
	ByteOffset int64  `db:"byte_offset"`
}

// place finds a row of the quarantine; db.ErrNotFound if there is none of that id.
func place(rx *db.Rx, op string, id int64) (p placeRow, err error) {
	ok, err := rx.Find(&p, sqlPlaceOf, id)
	if err == nil && !ok {
		err = &db.Error{
			Op: op, Entity: "quarantine row", ID: fmt.Sprint(id), Err: db.ErrNotFound,
			Hint: "quarantine list shows the ids",
		}
	}
	return p, err
}

// of is the tree that the row is of.
func (p *placeRow) of(d *db.DB, o Options) *Tree {
	o.Scope = p.ScopeName
	return &Tree{
		DB: d, Scope: o.Scope, Root: string(p.Root), Options: o,
		Source: Source{ID: p.Source, Scope: p.Scope, kind: p.Kind},
		Sent:   map[string]struct{}{},
	}
}

// forget has the ledger not know a file nothing of which was taken: the next import meets it for
// the first time.
func (p *placeRow) forget(tx *db.Tx, s Source) error {
	if p.What != WhatConflict {
		return nil
	}
	row, err := s.File(&tx.Rx, string(p.Path))
	if err != nil || row == nil || row.State != StateRefused {
		return err
	}
	return s.Forget(tx, string(p.Path))
}

// DropQuarantine removes rows of the quarantine, with their bytes, in one transaction: all, or with
// an error none.
func DropQuarantine(ctx context.Context, d *db.DB, ids []int64) error {
	return d.Reclaim(ctx, "drop quarantine", func(tx *db.Tx) error {
		for _, id := range ids {
			p, err := place(&tx.Rx, "drop quarantine", id)
			if err != nil {
				return err
			}
			t := p.of(d, Options{})
			if err := t.reserve(tx); err != nil { // an import under way may be about to name the row
				return err
			}
			if err := errors.Join(p.forget(tx, t.Source), t.lease.ReleaseTx(tx)); err != nil {
				return err
			}
			if _, err := tx.Exec(sqlDropOne, id); err != nil {
				return err
			}
		}
		return nil
	})
}
