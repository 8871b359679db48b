package documents

import (
	"bytes"
	"errors"
	"fmt"

	"selvedge/db"
	"selvedge/legacy/internal/tree"
)

// whole marks a thing that is one document in the ledger, where a trace has the sequence of its last line.
const whole = 0

// Path is where the document lies in its tree.
func (f *document) Path() string { return f.path }

// Held is how much memory the document takes.
func (f *document) Held() int { return len(f.text) }

// Progress is one file.
func (f *document) Progress() (files, bytes int64) { return 1, int64(len(f.text)) }

// Known counts a file that is as it was and was taken.
func (f *document) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	if f.reason != "" || f.tree.Unread {
		return false, nil
	}
	row, err := f.tree.Source.File(rx, f.path)
	if err != nil || row == nil || !bytes.Equal(row.PrefixSHA256, f.sum) {
		return false, err
	}
	f.countFile(part)
	return true, f.same(rx, row, part)
}

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

// Take takes the file.
func (f *document) Take(tx *db.Tx, part *tree.Part) error {
	f.countFile(part)
	b := &taking{document: f, source: f.tree.Source, tx: tx, part: part}
	row, err := b.source.File(&tx.Rx, f.path)
	switch {
	case err != nil:
		return err
	case f.reason != "":
		return b.undecodable(f.reason, row)
	case row != nil && bytes.Equal(row.PrefixSHA256, f.sum):
		if err := b.source.Release(tx, f.path, 0, tree.WhatFile); err != nil { // it could not be read meanwhile
			return err
		}
		return b.same(&tx.Rx, row, part)
	case row == nil:
		return b.take(false)
	}
	return b.changed(row)
}

// A taking is one document in one transaction.
type taking struct {
	*document
	source tree.Source
	tx     *db.Tx
	part   *tree.Part
}

func (b *taking) add(column func(*tree.Count) *int64) { b.document.add(b.part, column) }

// undecodable puts a file that is no document into quarantine, with its bytes. What was taken from it earlier stays: a
// damaged source is no reason to lose it.
func (b *taking) undecodable(reason string, row *tree.Row) error {
	if b.unread {
		b.part.Files.Unreadable++
	} else {
		b.part.CountAll(tree.Tally{tree.Undecodable: 1}, tree.Quarantine)
	}
	if row != nil {
		b.part.Differ(b.path, "the file was a document when it was imported, which stays: "+reason)
	}
	q, there, err := b.source.Quarantined(&b.tx.Rx, b.path, 0, tree.WhatFile)
	if err == nil && there && (q.Reason != reason || q.Bytes != int64(len(b.text))) {
		there, err = false, b.source.Release(b.tx, b.path, 0, tree.WhatFile)
	}
	if err == nil && !there {
		q, err = b.source.Quarantine(b.tx, tree.Finding{Path: b.path, What: tree.WhatFile, Reason: reason, Raw: b.text})
	}
	b.part.Aside(q)
	return err
}

// changed takes a file that differs from what was imported, unless ours was touched since.
func (b *taking) changed(row *tree.Row) error {
	known := row.State == tree.StateTaken
	if known {
		untouched, err := b.untouched(row)
		if err != nil {
			return err
		}
		if !untouched {
			b.part.Files.Changed++
			b.add(tree.Changed)
			b.part.Differ(b.path, fmt.Sprintf(
				"the file has changed, and %s was written to or removed here since it was imported: ours stays", b.kind.Title(row.Entity())))
			return nil
		}
		if err := b.store.Remove(b.tx, *row.EntityRow); err != nil {
			return err
		}
	}
	if err := b.source.Forget(b.tx, b.path); err != nil {
		return err
	}
	return b.take(known)
}

// untouched reports whether what the file became is still what was imported.
func (b *taking) untouched(row *tree.Row) (bool, error) {
	text, ok, err := b.store.Text(&b.tx.Rx, *row.EntityRow)
	return ok && bytes.Equal(sumOf(text), row.PrefixSHA256), err
}

// take finds out what the file is, and adds it. An id that another file of the tree holds is passed over; one that is here
// from elsewhere is never joined: with the same text the file is here already, with other text it is refused.
func (b *taking) take(known bool) error {
	if err := b.source.ReleaseFile(b.tx, b.path); err != nil {
		return err
	}
	for _, e := range b.kind.Identities(b.path, b.value, b.claimed) {
		row, taken, err := b.store.Row(&b.tx.Rx, e)
		if err != nil {
			return err
		}
		if !taken {
			return b.put(e, known)
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
		if bytes.Equal(text, b.text) {
			b.part.Files.Already++
			b.add(tree.Already)
			return b.note(e, tree.StateShared, &row)
		}
		return b.refuse(e, "is here already, from elsewhere and with other contents; import this tree into a scope of its own")
	}
	return b.refuse(b.kind.Own(b.path, b.value), "is what another file of the tree became")
}

func (b *taking) put(e tree.Entity, known bool) error {
	row, err := b.store.Put(b.tx, e, b.value, b.text)
	if errors.Is(err, db.ErrInvalid) {
		return b.undecodable(err.Error(), nil)
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
	if b.flaw != "" {
		column = tree.Quarantine
		if err := b.source.PutAside(b.tx, b.part, tree.Finding{Path: b.path, What: tree.WhatLine, Reason: b.flaw, Whose: &e, Raw: b.text}); err != nil {
			return err
		}
	}
	b.add(column)
	if own := b.kind.Own(b.path, b.value); own != e {
		err := b.source.PutAside(b.tx, b.part, tree.Finding{
			Path: b.path, What: tree.WhatName, Whose: &own,
			Reason: fmt.Sprintf("it says that it is %s, which belongs into another file; kept as %s", b.kind.Title(own), b.kind.Title(e)),
		})
		if err != nil {
			return err
		}
	}
	return b.note(e, tree.StateTaken, &row)
}

// refuse puts a document that can't be taken under any id into quarantine, with its bytes.
func (b *taking) refuse(e tree.Entity, reason string) error {
	b.part.Files.Refused++
	b.add(tree.Quarantine)
	err := b.source.PutAside(b.tx, b.part, tree.Finding{
		Path: b.path, What: tree.WhatConflict, Reason: b.kind.Title(e) + " " + reason, Whose: &e, Raw: b.text,
	})
	if err != nil {
		return err
	}
	return b.note(e, tree.StateRefused, nil)
}

// note writes the file's row of the ledger.
func (b *taking) note(e tree.Entity, state string, row *int64) error {
	return b.source.Put(b.tx, &tree.Row{
		Path: []byte(b.path), State: state, EntityGroup: e.Group, EntityID: e.ID, EntityRow: row, LastSequence: whole,
		Size: int64(len(b.text)), Consumed: int64(len(b.text)), PrefixSHA256: b.sum, Records: tree.Tally{b.noun(b.kind): 1}.String(),
	})
}
