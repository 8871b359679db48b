package tree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"

	"selvedge/db"
	"selvedge/internal/stores"
)

// Retried is the result of trying a row of the quarantine again.
type Retried struct {
	ID     int64  `json:"id"`
	File   string `json:"file"`
	Taken  bool   `json:"taken"`
	Reason string `json:"reason"` // why it was not; "" where it was
}

// A Retrier is a Layout with a way of its own to try a row of the quarantine again.
type Retrier interface {
	// Retry returns the piece that imports the row's content; raw holds the original bytes.
	// reason is why it can't be imported now either; "" if it may be. Nothing of the piece is
	// kept if it reports a difference or leaves the row in quarantine.
	Retry(ctx context.Context, t *Tree, q *Aside, raw []byte) (p Piece, reason string, err error)
}

// Aside is a row of the quarantine with the path as the file system has it.
type Aside struct {
	Quarantined
	Path string
}

// RetryQuarantine tries to import the content of a row of the quarantine, since its cause may be
// gone: a newer program reads more, or an obstacle was removed. What is imported leaves the
// quarantine; otherwise the row stays as it is. The journal records it as an import.
func RetryQuarantine(ctx context.Context, d *db.DB, layout func(kind string) (Layout, error), id int64,
	o Options,
) (r Retried, err error) {
	u := &retry{db: d, options: o}
	u.row, err = stores.Get(ctx, d.Read, opRetry, func(rx *db.Rx) (quarantineRow, error) {
		return findQuarantined(rx, opRetry, id, "quarantine list shows the ids")
	})
	if err != nil {
		return r, err
	}
	r = Retried{ID: id, File: Shown(string(u.row.Path))}
	if u.layout, err = layout(u.row.Kind); err != nil {
		return r, err
	}
	u.options.Scope = u.row.Scope
	switch l := u.layout.(type) {
	case Retrier:
		err = u.piece(ctx, l)
	case OneByOne:
		err = u.file(ctx, l)
	}
	if why, ok := errors.AsType[*stays](err); ok {
		r.Reason, err = why.reason, nil
	}
	r.Taken = err == nil && r.Reason == ""
	return r, err
}

const opRetry = "retry quarantine"

// A stays is why a row stays in quarantine.
type stays struct{ reason string }

func (s *stays) Error() string { return s.reason }

// A retry is a row of the quarantine that is tried again. A *stays error holds the reason why it
// stays.
type retry struct {
	db      *db.DB
	layout  Layout
	options Options
	row     quarantineRow

	// of a whole file:
	forms  []string // that belong together
	folder string   // a temporary folder, to be removed
	root   string   // the folder below it that looks like the tree
}

// maxRetried is the most bytes of a row that are read into memory: no file that is imported has more.
const maxRetried = 512 << 20

// piece has the layout import the row's content, in one transaction.
func (u *retry) piece(ctx context.Context, l Retrier) error {
	if u.row.Bytes > maxRetried {
		return &stays{"it is larger than what is taken"}
	}
	var raw bytes.Buffer
	if err := QuarantineRaw(ctx, u.db, u.row.ID, &raw); err != nil {
		return err
	}
	t, path := u.row.tree(u.db, u.layout, u.options), string(u.row.Path)
	t.Unread, t.Aside = true, true
	piece, reason, err := l.Retry(ctx, t, &Aside{u.row.public(), path}, raw.Bytes())
	if err == nil && reason != "" {
		err = &stays{reason}
	}
	if err != nil {
		return err
	}
	return u.db.Write(ctx, opRetry, func(tx *db.Tx) error {
		if err := t.reserve(tx); err != nil {
			return err
		}
		if err := u.unchanged(&tx.Rx); err != nil {
			return err
		}
		t.Report = newPart(u.row.Kind, u.row.Scope, string(u.row.Root))
		if err := errors.Join(t.beginEntry(tx), piece.Take(tx, t.Report)); err != nil {
			return err
		}
		if len(t.Report.Differs) > 0 {
			return &stays{t.Report.Differs[0].Reason}
		}
		now, there, err := t.Source.Quarantined(&tx.Rx, path, u.row.ByteOffset, u.row.What)
		if err == nil && there {
			err = &stays{now.Reason}
		}
		return errors.Join(err, t.endEntry(ctx, tx, nil), t.lease.ReleaseTx(tx))
	})
}

// unchanged checks that the row has not changed.
func (u *retry) unchanged(rx *db.Rx) error {
	var now quarantineRow
	ok, err := rx.Find(&now, sqlShowQuarantine, u.row.ID)
	if err == nil && (!ok || !reflect.DeepEqual(now, u.row)) {
		err = &stays{"an import or another command has changed what is in quarantine of it meanwhile: look at " +
			"the quarantine again"}
	}
	return err
}

// OneByOne is a Layout in which each file is a thing, so that a file can be imported alone.
type OneByOne interface {
	// Forms returns the paths that are imported together with path, which is among them.
	Forms(path string) []string
}

// file imports a whole file from the bytes that are kept, without looking at the folder.
func (u *retry) file(ctx context.Context, l OneByOne) (err error) {
	switch {
	case u.row.What == WhatLine || u.row.What == WhatTail || u.row.What == WhatName:
		return &stays{"what is kept is a piece of a file, of which the rest was taken: import the folder again"}
	case u.row.Bytes == 0:
		return &stays{"nothing is kept of it: import the folder again"}
	}
	u.forms = l.Forms(string(u.row.Path))
	if u.folder, err = os.MkdirTemp("", "selvedge-retry-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(u.folder)) }()
	return inTurn(
		func() error { return u.unpack(ctx) },
		func() error { return u.db.Read(ctx, opRetry, u.inTheWay) },
		func() error { return u.rehearse(ctx) },
		func() error { return u.importFile(ctx) },
	)
}

// unpack writes the file into a folder that looks like its tree.
func (u *retry) unpack(ctx context.Context) error {
	u.root = filepath.Join(u.folder, filepath.Base(string(u.row.Root)))
	at := Below(u.root, string(u.row.Path))
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(QuarantineRaw(ctx, u.db, u.row.ID, f), f.Close())
}

// rehearse imports the file into an empty database, to see whether it can be read now. There, a
// file that was refused for its id can be imported.
func (u *retry) rehearse(ctx context.Context) error {
	if u.row.What == WhatConflict {
		return nil
	}
	x, err := Derive(ctx, u.layout, u.root, Options{Scope: u.options.Scope}, u.root)
	if err != nil {
		return err
	}
	err = x.db.Read(ctx, opRetry, func(rx *db.Rx) error {
		now, there, err := x.tree.Source.Quarantined(rx, string(u.row.Path), 0, WhatFile)
		if err == nil && there {
			err = &stays{now.Reason}
		}
		return err
	})
	return errors.Join(err, x.Close())
}

// inTheWay is a *stays error if the row has changed, if the file was imported, or if its id is taken.
func (u *retry) inTheWay(rx *db.Rx) error {
	if err := u.unchanged(rx); err != nil {
		return err
	}
	source := Source{ID: u.row.SourceID}
	for _, form := range u.forms {
		row, err := source.File(rx, form)
		if err != nil {
			return err
		}
		if row != nil && (form != string(u.row.Path) || row.State != StateRefused) {
			return &stays{Shown(form) + " was imported, and belongs to it: import the folder again"}
		}
	}
	if u.row.Entity == nil || u.row.Group == nil || u.row.What != WhatConflict {
		return nil
	}
	_, there, err := u.layout.Find(rx, u.row.Scope, Entity{Group: *u.row.Group, ID: *u.row.Entity})
	if err == nil && there {
		err = &stays{u.row.Reason}
	}
	return err
}

// importFile imports the unpacked folder as the tree that the file came from.
func (u *retry) importFile(ctx context.Context) error {
	t, err := openTree(u.db, u.layout, u.root, u.options)
	if err != nil {
		return err
	}
	t.Source = u.row.tree(u.db, nil, u.options).Source
	t.Alone, t.Unread = true, true // Unread whatever the ledger has
	err = u.db.Write(ctx, opRetry, func(tx *db.Tx) error {
		if err := t.reserve(tx); err != nil {
			return err
		}
		if err := u.inTheWay(&tx.Rx); err != nil { // an import may have come between
			return err
		}
		return errors.Join(u.row.forget(tx, t.Source), t.beginEntry(tx))
	})
	if err != nil {
		return err
	}
	if err = t.takeAll(ctx); err != nil {
		t.giveUp(ctx, err)
		return err
	}
	var reason error
	err = t.Hold(ctx, opRetry, func(tx *db.Tx) error {
		row, err := t.Source.File(&tx.Rx, string(u.row.Path))
		if err != nil {
			return err
		}
		reason = nil
		if row != nil && row.State != StateRefused {
			_, err = tx.Exec(sqlDropOne, u.row.ID)
		} else {
			why := "could not be taken"
			if len(t.Report.Quarantined) > 0 {
				why = t.Report.Quarantined[0].Reason
			}
			reason = &stays{why}
		}
		return errors.Join(err, t.endEntry(ctx, tx, nil), t.lease.ReleaseTx(tx))
	})
	return cmp.Or(err, reason)
}

// forget removes the file of a conflict from the ledger if nothing of it was imported, or if it
// holds other things too: the next import then treats it as new, and finds what is already here.
func (r *quarantineRow) forget(tx *db.Tx, s Source) error {
	if r.What != WhatConflict {
		return nil
	}
	row, err := s.File(&tx.Rx, string(r.Path))
	if err != nil || row == nil {
		return err
	}
	own := r.Group != nil && r.Entity != nil && row.Entity() == Entity{*r.Group, *r.Entity}
	if own && row.State != StateRefused {
		return nil
	}
	return s.Forget(tx, string(r.Path))
}

const sqlDropOne = `DELETE FROM quarantine WHERE id = ?`

// DropQuarantine removes rows of the quarantine, with their bytes, in one transaction: all, or none
// if there is an error.
func DropQuarantine(ctx context.Context, d *db.DB, ids []int64) error {
	const op = "drop quarantine"
	return d.Reclaim(ctx, op, func(tx *db.Tx) error {
		for _, id := range ids {
			row, err := findQuarantined(&tx.Rx, op, id, "quarantine list shows the ids")
			if err != nil {
				return err
			}
			t := row.tree(d, nil, Options{})
			if err := t.reserve(tx); err != nil { // an import under way may be about to name the row
				return err
			}
			if err := errors.Join(row.forget(tx, t.Source), t.lease.ReleaseTx(tx)); err != nil {
				return err
			}
			if _, err := tx.Exec(sqlDropOne, id); err != nil {
				return err
			}
		}
		return nil
	})
}
