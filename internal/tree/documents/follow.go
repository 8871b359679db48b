package documents

import (
	"bytes"
	"errors"
	"fmt"

	"selvedge/db"
	"selvedge/internal/tree"
)

// The old program continues during a move, which takes weeks. An import repeats here what that
// program did to a thing since the last import, as long as nobody wrote to the thing here.
// Otherwise there is a conflict, and a person decides.

// follow repeats what the old program did to a thing that was imported, or notes a conflict.
func (b *taking) follow() error {
	untouched, err := b.untouched()
	if err != nil {
		return err
	}
	if untouched && !b.isDamaged() { // a damaged file does not tell what the old program did
		return b.replace()
	}
	if b.isGone() && !b.Once() {
		if here, err := b.anyHere(); err != nil || !here {
			return errors.Join(err, b.forget(), b.settleOld())
		}
	}
	return b.contest()
}

// untouched reports whether the rows that were imported from the files are unchanged, and no other
// thing has their id.
func (b *taking) untouched() (bool, error) {
	rx := &b.tx.Rx
	for _, f := range b.files {
		if f.row == nil {
			if _, there, err := rowOf(rx, b, b.source.Scope, b.Own(f.path, f.value)); err != nil || there {
				return false, err
			}
			continue
		}
		if f.row.State != tree.StateTaken {
			return false, nil // it is here from elsewhere
		}
		if ok, err := b.Untouched(rx, *f.row.EntityRow); err != nil || !ok {
			return false, err
		}
		text, ok, err := b.Text(rx, *f.row.EntityRow)
		if err != nil || !ok || !bytes.Equal(sumOf(text), f.row.PrefixSHA256) {
			return false, err
		}
	}
	return true, nil
}

// anyHere reports whether the store has anything that the files became.
func (b *taking) anyHere() (bool, error) {
	for _, f := range b.files {
		if f.row == nil || f.row.State != tree.StateTaken {
			continue
		}
		if _, there, err := b.Text(&b.tx.Rx, *f.row.EntityRow); err != nil || there {
			return there, err
		}
	}
	return false, nil
}

// replace imports the files' present content, and removes what their earlier content became.
func (b *taking) replace() error {
	now := b.whatHappened()
	for _, f := range b.files {
		if f.row == nil {
			continue
		}
		if err := b.Remove(b.tx, *f.row.EntityRow); err != nil {
			return err
		}
		if f.gone {
			b.part.Follow(f.path, now+", and so it is here")
		}
	}
	if err := b.settleOld(); err != nil {
		return err
	}
	return b.takeAgain()
}

// settleOld settles a conflict over the thing for the old program's version.
func (b *taking) settleOld() error {
	return b.tree.Settle(b.tx, b.imported().EntityID, tree.TakeOld)
}

// takeAgain forgets the files and imports those that exist.
func (b *taking) takeAgain() error {
	if err := b.forget(); err != nil {
		return err
	}
	for _, f := range b.files {
		if !f.gone {
			if err := b.take(f, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes the files from the ledger and the quarantine.
func (b *taking) forget() error {
	for _, f := range b.files {
		if f.row == nil {
			continue
		}
		if err := errors.Join(b.source.ReleaseFile(b.tx, f.path), b.source.Forget(b.tx, f.path)); err != nil {
			return err
		}
	}
	return nil
}

// contest leaves ours as it is, and notes the conflict.
func (b *taking) contest() error {
	for _, f := range b.files {
		switch {
		case f.reason != "":
		case b.moved(f):
			b.part.Files.Changed++
			b.count(f, b.part, tree.Changed)
		default:
			if err := b.same(&b.tx.Rx, f, b.part); err != nil {
				return err
			}
		}
	}
	row, happened := b.imported(), b.whatHappened()
	reason := fmt.Sprintf("%s, and %s was written to, claimed or removed here since it was imported",
		happened, b.Title(row.Entity()))
	switch {
	case row.State == tree.StateShared:
		reason = fmt.Sprintf("%s, and %s is here from elsewhere", happened, b.Title(row.Entity()))
	case b.isDamaged():
		reason = happened + ", which can't be read"
	}
	return b.tree.Contest(b.tx, b.Path(), row.EntityID, reason)
}

// unseen reports whether it is unknown what the old program did: the folder is missing, or a file
// can't be read.
func (b *taking) unseen() bool {
	_, err := b.tree.Folder.Stat(".")
	return err != nil || b.isDamaged()
}

// whatHappened describes what the old program did.
func (b *taking) whatHappened() string {
	now, renamed := "", false
	for _, f := range b.files {
		switch {
		case f.gone:
			renamed = renamed || f.row != nil
		case now == "" || f.row == nil:
			now = f.path
		}
	}
	switch {
	case now == "":
		return "the old program has finished or removed it"
	case renamed:
		return fmt.Sprintf("the old program has it as %s now", tree.Shown(now))
	}
	return "the old program has changed it"
}

// Resolve decides a conflict for one version of the thing, as the folder has it now.
func (l Layout) Resolve(tx *db.Tx, t *tree.Tree, path string, take tree.Take) error {
	b, err := l.look(t, path).taking(tx, t.Report)
	if err != nil {
		return err
	}
	if take == tree.TakeOurs {
		return b.keepOurs()
	}
	if b.unseen() {
		return &db.Error{
			Op: "resolve", Entity: "folder", ID: tree.Shown(t.Root),
			Err:  fmt.Errorf("%w: what the old program made of it can't be read", db.ErrNotFound),
			Hint: "make the folder readable, or take ours",
		}
	}
	return b.takeOld()
}

// keepOurs writes the files into the ledger as they are, so that the old program's next change is a
// conflict again.
func (b *taking) keepOurs() error {
	was := b.imported()
	if was == nil || b.unseen() { // the next import that can read it finds what the old program did
		return nil
	}
	if err := b.forget(); err != nil {
		return err
	}
	for _, f := range b.files {
		if f.reason != "" {
			continue
		}
		row := f.row
		if row == nil { // no row of the store came from this file
			none := -max(*was.EntityRow, -*was.EntityRow)
			own := b.Own(f.path, f.value)
			row = &tree.Row{State: was.State, EntityGroup: own.Group, EntityID: own.ID, EntityRow: &none}
		}
		if err := b.note(f, row.Entity(), row.State, row.EntityRow); err != nil {
			return err
		}
	}
	return nil
}

// takeOld replaces the thing here by the one in the folder.
func (b *taking) takeOld() error {
	for _, f := range b.files {
		var ours tree.Entity
		switch {
		case f.row != nil:
			ours = f.row.Entity()
		case f.gone && !b.Once():
			continue // only the file said what it was
		default:
			ours = b.Own(f.path, f.value)
		}
		row, there, err := rowOf(&b.tx.Rx, b, b.source.Scope, ours)
		if err == nil && there {
			err = b.Remove(b.tx, row)
		}
		if err != nil {
			return err
		}
	}
	return b.takeAgain()
}
