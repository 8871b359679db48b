package documents

import (
	"bytes"
	"errors"
	"fmt"

	"selvedge/db"
	"selvedge/internal/tree"
)

// whole marks a thing that is one document in the ledger, where a trace has the sequence of its last line.
const whole = 0

// Progress is one file.
func (f *document) Progress() (files, bytes int64) { return 1, int64(len(f.text)) }

// same counts a file that is as it was, and names again what is in quarantine of it.
func (f *document) same(rx *db.Rx, row *tree.Row, part *tree.Part) error {
	column := tree.Already
	switch {
	case row.State == tree.StateRefused:
		part.Files.Refused++
		column = tree.Quarantine
	case f.flaw != "" && row.State == tree.StateTaken:
		part.Files.Already++
		column = tree.Quarantine
	default:
		part.Files.Already++
	}
	f.add(part, column)
	return f.tree.NameAside(rx, f.path, part)
}

// A taking is one thing in one transaction.
type taking struct {
	*thing
	source tree.Source
	tx     *db.Tx
	part   *tree.Part
}

// Take takes the thing.
func (th *thing) Take(tx *db.Tx, part *tree.Part) error {
	b := &taking{thing: th, source: th.tree.Source, tx: tx, part: part}
	rows, err := th.rows(&tx.Rx)
	if err != nil {
		return err
	}
	for form, f := range th.files {
		if f.gone {
			continue
		}
		f.countFile(part)
		if f.reason != "" {
			if err := b.undecodable(f, f.reason, rows[form]); err != nil {
				return err
			}
		}
	}
	was := imported(rows)
	switch {
	case !th.anyMoved(rows):
		err = b.same(rows)
	case was != nil && (was.State == tree.StateTaken || th.kind.Once()):
		err = b.follow(rows)
	default:
		err = b.begin(rows)
	}
	if err != nil {
		return err
	}
	return th.nameConflict(&tx.Rx, rows, part) // of what was: a conflict that is settled isn't open
}

// same counts the files of a thing that is as it was.
func (b *taking) same(rows []*tree.Row) error {
	for form, f := range b.files {
		if f.reason != "" {
			continue
		}
		if err := b.source.ReleaseReadable(b.tx, f.path); err != nil { // it could not be read meanwhile
			return err
		}
		if err := f.same(&b.tx.Rx, rows[form], b.part); err != nil {
			return err
		}
	}
	return nil
}

// begin takes a thing of which nothing is here that came from this folder.
func (b *taking) begin(rows []*tree.Row) error {
	for form, f := range b.files {
		row := rows[form]
		switch {
		case f.gone && row != nil && (row.State == tree.StateShared || !b.isGone()):
			if err := errors.Join(b.source.ReleaseFile(b.tx, f.path), b.source.Forget(b.tx, f.path)); err != nil {
				return err
			}
		case f.reason != "":
		case row != nil && !b.moved(form, rows):
			if err := f.same(&b.tx.Rx, row, b.part); err != nil {
				return err
			}
		default:
			if row != nil {
				if err := b.source.Forget(b.tx, f.path); err != nil {
					return err
				}
			}
			if err := b.take(f, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// undecodable puts a file that is no document into quarantine, with its bytes. What was taken from
// it earlier stays: a damaged source is no reason to lose it.
func (b *taking) undecodable(f *document, reason string, row *tree.Row) error {
	if f.unread {
		b.part.Files.Unreadable++
	} else {
		b.part.CountAll(tree.Tally{tree.Undecodable: 1}, tree.Quarantine)
	}
	if row != nil {
		b.part.Differ(f.path, "the file was a document when it was imported, which stays: "+reason)
	}
	q, there, err := b.source.Quarantined(&b.tx.Rx, f.path, 0, tree.WhatFile)
	if err == nil && there && (q.Reason != reason || q.Bytes != int64(len(f.text))) {
		there, err = false, b.source.Release(b.tx, f.path, 0, tree.WhatFile)
	}
	if err == nil && !there {
		q, err = b.source.Quarantine(b.tx, tree.Finding{
			Path: f.path, What: tree.WhatFile, Reason: reason,
			Raw: f.text,
		})
	}
	b.part.Aside(q)
	return err
}

// take finds out what the file is, and adds it. An id that another file of the tree holds is passed
// over; one that is here from elsewhere is never joined: with the same text the file is here
// already, with other text it is refused.
func (b *taking) take(f *document, known bool) error {
	if err := b.tree.ReleasePrefetched(b.tx, f.path); err != nil {
		return err
	}
	ids, err := b.identities(f)
	if err != nil {
		return err
	}
	for _, e := range ids {
		row, taken, err := b.store.Row(&b.tx.Rx, e)
		if err != nil {
			return err
		}
		if !taken {
			elsewhere, err := b.fromElsewhere(f)
			if err != nil {
				return err
			}
			if elsewhere {
				return b.refuse(f, e, fromElsewhere)
			}
			return b.put(f, e, known)
		}
		held, ok, err := b.source.Holder(&b.tx.Rx, e, row)
		if err != nil {
			return err
		}
		if ok && held.Source == b.source.ID {
			continue
		}
		text, _, err := b.store.Text(&b.tx.Rx, row)
		if err != nil {
			return err
		}
		if bytes.Equal(text, f.text) {
			b.part.Files.Already++
			f.add(b.part, tree.Already)
			return b.note(f, e, tree.StateShared, &row)
		}
		return b.refuse(f, e, fromElsewhere)
	}
	return b.refuse(f, b.kind.Own(f.path, f.value), "is what another file of the tree became")
}

// identities are what the file may be. Of one that is taken alone its folder doesn't say what else
// the tree has: the ledger and the quarantine do.
func (b *taking) identities(f *document) (ids []tree.Entity, err error) {
	ids = b.kind.Identities(f.path, f.value, func(path string) bool {
		if !b.tree.Alone {
			_, lacks := b.tree.Folder.Stat(path)
			return lacks == nil
		}
		row, failed := b.source.File(&b.tx.Rx, path)
		there := row != nil
		if failed == nil && !there {
			_, there, failed = b.source.Quarantined(&b.tx.Rx, path, 0, tree.WhatFile)
		}
		err = errors.Join(err, failed)
		return there
	})
	return ids, err
}

const fromElsewhere = "is here already, from elsewhere and with other contents; import this tree into a " +
	"scope of its own"

// fromElsewhere reports whether the thing is here in another of its states, and did not come from
// this folder.
func (b *taking) fromElsewhere(f *document) (bool, error) {
	for _, other := range b.files {
		if other == f {
			continue
		}
		e := b.kind.Own(other.path, other.value)
		row, there, err := b.store.Row(&b.tx.Rx, e)
		if err != nil {
			return false, err
		}
		if !there {
			continue
		}
		if held, ok, err := b.source.Holder(&b.tx.Rx, e, row); err != nil || !ok || held.Source != b.source.ID {
			return true, err
		}
	}
	return false, nil
}

func (b *taking) put(f *document, e tree.Entity, known bool) error {
	row, err := b.store.Put(b.tx, e, f.value, f.text)
	if errors.Is(err, db.ErrInvalid) {
		return b.undecodable(f, err.Error(), nil)
	}
	if err != nil {
		return err
	}
	column := tree.New
	if known {
		b.part.Files.Changed++
		column = tree.Changed
	} else {
		b.part.Files.New++
	}
	if f.flaw != "" {
		column = tree.Quarantine
		if err := b.source.PutAside(b.tx, b.part,
			tree.Finding{Path: f.path, What: tree.WhatLine, Reason: f.flaw, Whose: &e, Raw: f.text}); err != nil {
			return err
		}
	}
	f.add(b.part, column)
	if own := b.kind.Own(f.path, f.value); own != e {
		err := b.source.PutAside(b.tx, b.part, tree.Finding{
			Path: f.path, What: tree.WhatName, Whose: &own,
			Reason: fmt.Sprintf("it says that it is %s, which belongs into another file; kept as %s",
				b.kind.Title(own), b.kind.Title(e)),
		})
		if err != nil {
			return err
		}
	}
	return b.note(f, e, tree.StateTaken, &row)
}

// refuse puts a document that can't be taken under any id into quarantine, with its bytes.
func (b *taking) refuse(f *document, e tree.Entity, reason string) error {
	b.part.Files.Refused++
	f.add(b.part, tree.Quarantine)
	err := b.source.PutAside(b.tx, b.part, tree.Finding{
		Path: f.path, What: tree.WhatConflict, Reason: b.kind.Title(e) + " " + reason, Whose: &e, Raw: f.text,
	})
	if err != nil {
		return err
	}
	return b.note(f, e, tree.StateRefused, nil)
}

// note writes the file's row of the ledger.
func (b *taking) note(f *document, e tree.Entity, state string, row *int64) error {
	return b.source.Put(b.tx, &tree.Row{
		Path: []byte(f.path), State: state, EntityGroup: e.Group, EntityID: e.ID, EntityRow: row,
		LastSequence: whole,
		Size:         int64(len(f.text)), Consumed: int64(len(f.text)), PrefixSHA256: f.sum,
		Records: tree.Tally{f.noun(b.kind): 1}.String(),
	})
}
