package documents

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"selvedge/db"
	"selvedge/internal/tree"
)

// A taking is the import of one thing in one transaction.
type taking struct {
	*thing
	source tree.Source
	tx     *db.Tx
	part   *tree.Part
}

func (th *thing) taking(tx *db.Tx, part *tree.Part) (*taking, error) {
	return &taking{thing: th, source: th.tree.Source, tx: tx, part: part}, th.load(&tx.Rx)
}

// Take imports the thing.
func (th *thing) Take(tx *db.Tx, part *tree.Part) error {
	b, err := th.taking(tx, part)
	if err != nil {
		return err
	}
	for _, f := range th.files {
		if f.gone {
			continue
		}
		f.countFile(part)
		if f.reason != "" {
			if err := b.undecodable(f, f.reason, f.row); err != nil {
				return err
			}
		}
	}
	was := th.imported()
	switch {
	case !slices.ContainsFunc(th.files, th.moved):
		err = b.unmoved()
	case was != nil && (was.State == tree.StateTaken || th.Once()):
		err = b.follow()
	default:
		err = b.begin()
	}
	if err != nil {
		return err
	}
	return th.nameConflict(&tx.Rx, part)
}

// unmoved counts the files of a thing that has not changed.
func (b *taking) unmoved() error {
	for _, f := range b.files {
		if f.reason != "" {
			continue
		}
		if err := b.source.ReleaseReadable(b.tx, f.path); err != nil { // it could not be read meanwhile
			return err
		}
		if err := b.same(&b.tx.Rx, f, b.part); err != nil {
			return err
		}
	}
	return nil
}

// begin imports a thing if the store has nothing of it from this folder.
func (b *taking) begin() error {
	for _, f := range b.files {
		var err error
		switch {
		case f.gone && f.row != nil && (f.row.State == tree.StateShared || !b.isGone()):
			err = errors.Join(b.source.ReleaseFile(b.tx, f.path), b.source.Forget(b.tx, f.path))
		case f.reason != "":
		case f.row != nil && !b.moved(f):
			err = b.same(&b.tx.Rx, f, b.part)
		default:
			if f.row != nil {
				err = b.source.Forget(b.tx, f.path)
			}
			if err == nil {
				err = b.take(f, false)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// undecodable puts a file that holds no document into quarantine, with its bytes. What an earlier
// import made of it stays: a damaged source is no reason to lose it.
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
		q, err = b.source.Quarantine(b.tx,
			tree.Finding{Path: f.path, What: tree.WhatFile, Reason: reason, Raw: f.text})
	}
	b.part.Aside(q)
	return err
}

// take finds out which thing the file is, and adds it. It passes over an id that another file of
// the tree has. It never joins what is here from elsewhere: a file with the same text is here
// already, and one with another text is refused.
func (b *taking) take(f *document, known bool) error {
	if err := b.tree.ReleasePrefetched(b.tx, f.path); err != nil {
		return err
	}
	ids, err := b.identities(f)
	if err != nil {
		return err
	}
	for _, e := range ids {
		row, taken, ours, err := b.find(e)
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
		if ours {
			continue
		}
		text, _, err := b.Text(&b.tx.Rx, row)
		if err != nil {
			return err
		}
		if bytes.Equal(text, f.text) {
			b.part.Files.Already++
			b.count(f, b.part, tree.Already)
			return b.note(f, e, tree.StateShared, &row)
		}
		return b.refuse(f, e, fromElsewhere)
	}
	return b.refuse(f, b.Own(f.path, f.value), "is what another file of the tree became")
}

// find looks a thing up. ours reports whether it came from this folder.
func (b *taking) find(e tree.Entity) (row int64, there, ours bool, err error) {
	row, there, err = rowOf(&b.tx.Rx, b, b.source.Scope, e)
	if err != nil || !there {
		return row, there, false, err
	}
	held, ok, err := b.source.Holder(&b.tx.Rx, e, row)
	return row, there, ok && held.Source == b.source.ID, err
}

// identities are what the file may be. If it is imported alone, its folder can't tell which other
// files the tree has; the ledger and the quarantine can.
func (b *taking) identities(f *document) (ids []tree.Entity, err error) {
	ids = b.Identities(f.path, f.value, func(path string) bool {
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
		if _, there, ours, err := b.find(b.Own(other.path, other.value)); err != nil || there && !ours {
			return there, err
		}
	}
	return false, nil
}

func (b *taking) put(f *document, e tree.Entity, known bool) error {
	row, err := b.Put(b.tx, b.source.Scope, e, f.value, f.text)
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
	b.count(f, b.part, column)
	if own := b.Own(f.path, f.value); own != e {
		err := b.source.PutAside(b.tx, b.part, tree.Finding{
			Path: f.path, What: tree.WhatName, Whose: &own,
			Reason: fmt.Sprintf("it says that it is %s, which belongs into another file; kept as %s",
				b.Title(own), b.Title(e)),
		})
		if err != nil {
			return err
		}
	}
	return b.note(f, e, tree.StateTaken, &row)
}

// refuse puts a document that can't be imported under any id into quarantine, with its bytes.
func (b *taking) refuse(f *document, e tree.Entity, reason string) error {
	b.part.Files.Refused++
	b.count(f, b.part, tree.Quarantine)
	err := b.source.PutAside(b.tx, b.part, tree.Finding{
		Path: f.path, What: tree.WhatConflict, Reason: b.Title(e) + " " + reason, Whose: &e, Raw: f.text,
	})
	if err != nil {
		return err
	}
	return b.note(f, e, tree.StateRefused, nil)
}

// note writes the file's row of the ledger.
func (b *taking) note(f *document, e tree.Entity, state string, row *int64) error {
	size := int64(len(f.text))
	return b.source.Put(b.tx, &tree.Row{
		Path: []byte(f.path), State: state, EntityGroup: e.Group, EntityID: e.ID, EntityRow: row,
		Size: size, Consumed: size, PrefixSHA256: f.sum, Records: tree.Tally{b.noun(f): 1}.String(),
	})
}
