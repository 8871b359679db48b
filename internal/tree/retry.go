package tree

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"selvedge/db"
)

// Retried is what came of a row of the quarantine that was tried again.
type Retried struct {
	ID     int64  `json:"id"`
	File   string `json:"file"`
	Taken  bool   `json:"taken"`
	Reason string `json:"reason"` // why it was not; "" where it was
}

// A Retrier is a Layout that knows by itself how a row of the quarantine is tried again.
type Retrier interface {
	// Retry gives the piece that takes what the row is about; raw is what is kept of it. reason says
	// why that can't be taken now either; "" where it may be. Where the piece names something that
	// differs or is in quarantine, nothing of it is kept.
	Retry(ctx context.Context, t *Tree, q *Aside, raw []byte) (p Piece, reason string, err error)
}

// Aside is a row of the quarantine with the path as the file system has it.
type Aside struct {
	Quarantined
	Path string
}

// RetryQuarantine tries to take what a row of the quarantine keeps, for its cause may be gone: a
// newer program reads more, what was in the way was removed. What is taken leaves the quarantine;
// the row of what isn't stays as it is. The journal has it as an import.
func RetryQuarantine(ctx context.Context, d *db.DB, layout func(kind string) (Layout, error), id int64,
	o Options,
) (r Retried, err error) {
	var p placeRow
	var q Quarantined
	err = d.Read(ctx, "retry quarantine", func(rx *db.Rx) error {
		if p, err = place(rx, "retry quarantine", id); err != nil {
			return err
		}
		var row quarantineRow
		err = rx.Get(&row, sqlShowQuarantine, id)
		q = row.public()
		return err
	})
	if err != nil {
		return r, err
	}
	r = Retried{ID: id, File: q.File}
	l, err := layout(p.Kind)
	if err != nil {
		return r, err
	}
	o.Scope = q.Scope
	switch l := l.(type) {
	case Retrier:
		t := p.of(d, o)
		t.layout = l.(Layout)
		r.Reason, err = t.retry(ctx, l, &Aside{q, string(p.Path)})
	case OneByOne:
		r.Reason, err = retryFile(ctx, d, l, &p, q, o)
	}
	r.Taken = err == nil && r.Reason == ""
	return r, err
}

// retryFile tries to take a whole file from the bytes that are kept: the folder is not looked at.
func retryFile(ctx context.Context, d *db.DB, rooted OneByOne, p *placeRow, q Quarantined,
	o Options,
) (reason string, err error) {
	l := rooted.(Layout)
	switch {
	case q.What == WhatLine || q.What == WhatTail || q.What == WhatName:
		return "what is kept is a piece of a file, of which the rest was taken: import the folder again", nil
	case q.Bytes == 0:
		return "nothing is kept of it: import the folder again", nil
	}
	again, err := unpack(ctx, d, rooted, p, q.ID)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(again.folder)) }()
	if reason, err = again.stillNot(ctx, d, l, q, o); err != nil || reason != "" {
		return reason, err
	}
	return again.take(ctx, d, l, q, o)
}

// A stays is why a row stays in quarantine: nothing of the transaction that found it out is kept.
type stays struct{ reason string }

func (s *stays) Error() string { return s.reason }

// maxRetried is the most bytes of a row that are read into memory: more than a file has that is taken.
const maxRetried = 512 << 20

// retry has the layout take what the row is about, in one transaction.
func (t *Tree) retry(ctx context.Context, l Retrier, q *Aside) (reason string, err error) {
	if q.Bytes > maxRetried {
		return "it is larger than what is taken", nil
	}
	var raw bytes.Buffer
	if err := QuarantineRaw(ctx, t.DB, q.ID, &raw); err != nil {
		return "", err
	}
	t.Unread, t.Aside = true, true
	piece, reason, err := l.Retry(ctx, t, q, raw.Bytes())
	if err != nil || reason != "" {
		return reason, err
	}
	err = t.DB.Write(ctx, "retry quarantine", func(tx *db.Tx) error {
		if err := t.reserve(tx); err != nil {
			return err
		}
		if err := q.unchanged(&tx.Rx); err != nil {
			return err
		}
		t.Report = newPart(q.Kind, q.Scope, q.Source)
		if err := errors.Join(t.beginEntry(tx), piece.Take(tx, t.Report)); err != nil {
			return err
		}
		if len(t.Report.Differs) > 0 {
			return &stays{t.Report.Differs[0].Reason}
		}
		now, there, err := t.Source.Quarantined(&tx.Rx, q.Path, q.ByteOffset, q.What)
		if err == nil && there {
			err = &stays{now.Reason}
		}
		return errors.Join(err, t.endEntry(ctx, tx, nil), t.lease.ReleaseTx(tx))
	})
	if why, ok := errors.AsType[*stays](err); ok {
		return why.reason, nil
	}
	return "", err
}

// unchanged sees that the row is what it was.
func (a *Aside) unchanged(rx *db.Rx) error {
	var now quarantineRow
	ok, err := rx.Find(&now, sqlShowQuarantine, a.ID)
	if err == nil && (!ok || !reflect.DeepEqual(now.public(), a.Quarantined)) {
		err = &stays{"an import or another command has changed what is in quarantine of it meanwhile: look at " +
			"the quarantine again"}
	}
	return err
}

// OneByOne is a Layout each of whose files is a thing, so that one of them can be taken by itself.
type OneByOne interface {
	// Forms are the paths, that of a file among them, that are taken together.
	Forms(path string) []string
}

// An unpacked file is one out of quarantine, in a folder of its own that looks like its tree.
type unpacked struct {
	place  *placeRow
	folder string // to be removed
	root   string // of the tree
	forms  []string
}

func unpack(ctx context.Context, d *db.DB, l OneByOne, p *placeRow, id int64) (u *unpacked, err error) {
	u = &unpacked{place: p, forms: l.Forms(string(p.Path))}
	if u.folder, err = os.MkdirTemp("", "selvedge-retry-"); err != nil {
		return nil, err
	}
	u.root = filepath.Join(u.folder, filepath.Base(string(p.Root)))
	at := Below(u.root, string(p.Path))
	var f *os.File
	if err = os.MkdirAll(filepath.Dir(at), 0o700); err == nil {
		f, err = os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	if err == nil {
		out := bufio.NewWriter(f)
		err = errors.Join(QuarantineRaw(ctx, d, id, out), out.Flush(), f.Close())
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(u.folder))
	}
	return u, err
}

// stillNot says why the file can't be taken now either, as far as that can be told beforehand; ""
// where it can.
func (u *unpacked) stillNot(ctx context.Context, d *db.DB, l Layout, q Quarantined,
	o Options,
) (reason string, err error) {
	path := string(u.place.Path)
	err = d.Read(ctx, "retry quarantine", func(rx *db.Rx) (err error) {
		reason, err = u.inTheWay(rx, u.place.of(d, o).Source, l, q)
		return err
	})
	if err != nil || reason != "" || q.What == WhatConflict {
		return reason, err
	}
	x, err := Derive(ctx, l, u.root, Options{Scope: o.Scope}, u.root)
	if err != nil {
		return "", err
	}
	err = x.db.Read(ctx, "retry quarantine", func(rx *db.Rx) error {
		now, there, err := x.tree.Source.Quarantined(rx, path, 0, WhatFile)
		if there {
			reason = now.Reason
		}
		return err
	})
	return reason, errors.Join(err, x.Close())
}

// inTheWay says what of the file was imported, or what has its id; "" for nothing. The row must
// still be what it was when it was unpacked.
func (u *unpacked) inTheWay(rx *db.Rx, s Source, l Layout, q Quarantined) (reason string, err error) {
	if err := (&Aside{Quarantined: q}).unchanged(rx); err != nil {
		if why, ok := errors.AsType[*stays](err); ok {
			return why.reason, nil
		}
		return "", err
	}
	path := string(u.place.Path)
	for _, form := range u.forms {
		row, err := s.File(rx, form)
		if err != nil {
			return "", err
		}
		if row != nil && (form != path || row.State != StateRefused) {
			return fmt.Sprintf("%s was imported, and belongs to it: import the folder again", Shown(form)), nil
		}
	}
	if q.Entity == nil || q.Group == nil || q.What != WhatConflict {
		return "", nil
	}
	_, there, err := l.Find(rx, q.Scope, Entity{Group: *q.Group, ID: *q.Entity})
	if there {
		reason = q.Reason
	}
	return reason, err
}

// take imports the folder in the name of the tree that the file was in.
func (u *unpacked) take(ctx context.Context, d *db.DB, l Layout, q Quarantined, o Options) (reason string,
	err error,
) {
	t, err := openTree(d, l, u.root, o)
	if err != nil {
		return "", err
	}
	t.Source = u.place.of(d, o).Source
	t.Alone, t.Unread = true, true // Unread whatever the ledger says
	path := string(u.place.Path)
	err = d.Write(ctx, "retry quarantine", func(tx *db.Tx) (err error) {
		if err = t.reserve(tx); err != nil {
			return err
		}
		if reason, err = u.inTheWay(&tx.Rx, t.Source, l, q); err != nil { // an import may have come between
			return err
		}
		if reason != "" {
			return t.lease.ReleaseTx(tx)
		}
		return errors.Join(u.place.forget(tx, t.Source), t.beginEntry(tx))
	})
	if err != nil || reason != "" {
		return reason, err
	}
	if err = t.takeAll(ctx); err != nil {
		t.giveUp(ctx, err)
		return "", err
	}
	err = t.Hold(ctx, "retry quarantine", func(tx *db.Tx) error {
		row, err := t.Source.File(&tx.Rx, path)
		if err != nil {
			return err
		}
		reason = ""
		if row == nil || row.State == StateRefused {
			reason = "could not be taken"
			if len(t.Report.Quarantined) > 0 {
				reason = t.Report.Quarantined[0].Reason
			}
		} else if _, err := tx.Exec(sqlDropOne, q.ID); err != nil {
			return err
		}
		return errors.Join(t.endEntry(ctx, tx, nil), t.lease.ReleaseTx(tx))
	})
	return reason, err
}
