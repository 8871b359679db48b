package documents

import (
	"bytes"
	"errors"
	"fmt"

	"selvedge/db"
	"selvedge/internal/tree"
)

// The old program goes on while a move takes its weeks. What it did to a thing since it was
// imported is done here, too, as long as nothing was done to the thing here; else there is a
// conflict, and a person decides.

// follow takes what became of a thing that was imported.
func (b *taking) follow(rows []*tree.Row) error {
	untouched, err := b.untouched(rows)
	if err != nil {
		return err
	}
	for _, f := range b.files {
		if !f.gone && f.reason != "" {
			untouched = false // nobody knows what to follow
		}
	}
	if untouched {
		return b.replace(rows)
	}
	if b.isGone() && !b.kind.Once() {
		if here, err := b.anyHere(rows); err != nil || !here {
			return errors.Join(err, b.forget(rows), b.tree.Settle(b.tx, imported(rows).EntityID, tree.TakeOld))
		}
	}
	return b.contest(rows)
}

// untouched reports whether nothing was done here to what the files became, and nothing else came
// up under its id.
func (b *taking) untouched(rows []*tree.Row) (bool, error) {
	for form, row := range rows {
		if row == nil {
			_, there, err := b.store.Row(&b.tx.Rx, b.kind.Own(b.files[form].path, b.files[form].value))
			if err != nil || there {
				return false, err
			}
			continue
		}
		if row.State != tree.StateTaken {
			return false, nil // it is here from elsewhere
		}
		ok, err := b.store.Untouched(&b.tx.Rx, *row.EntityRow)
		if err != nil || !ok {
			return false, err
		}
		text, ok, err := b.store.Text(&b.tx.Rx, *row.EntityRow)
		if err != nil || !ok || !bytes.Equal(sumOf(text), row.PrefixSHA256) {
			return false, err
		}
	}
	return true, nil
}

// anyHere reports whether anything is here of what the files became.
func (b *taking) anyHere(rows []*tree.Row) (bool, error) {
	for _, row := range rows {
		if row == nil || row.State != tree.StateTaken {
			continue
		}
		if _, there, err := b.store.Text(&b.tx.Rx, *row.EntityRow); err != nil || there {
			return there, err
		}
	}
	return false, nil
}

// replace takes what the files say in place of what they said.
func (b *taking) replace(rows []*tree.Row) error {
	now := b.wayThere(rows)
	for form, row := range rows {
		if row == nil {
			continue
		}
		if err := b.store.Remove(b.tx, *row.EntityRow); err != nil {
			return err
		}
		if b.files[form].gone {
			b.part.Follow(b.files[form].path, now+", and so it is here")
		}
	}
	if err := b.forget(rows); err != nil {
		return err
	}
	if err := b.tree.Settle(b.tx, imported(rows).EntityID, tree.TakeOld); err != nil {
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

// forget has the ledger know nothing of the files.
func (b *taking) forget(rows []*tree.Row) error {
	for form, row := range rows {
		if row == nil {
			continue
		}
		path := b.files[form].path
		if err := errors.Join(b.source.ReleaseFile(b.tx, path), b.source.Forget(b.tx, path)); err != nil {
			return err
		}
	}
	return nil
}

// contest leaves ours as it is, and notes the conflict.
func (b *taking) contest(rows []*tree.Row) error {
	for form, f := range b.files {
		switch {
		case f.reason != "":
		case b.moved(form, rows):
			b.part.Files.Changed++
			f.add(b.part, tree.Changed)
		default:
			if err := f.same(&b.tx.Rx, rows[form], b.part); err != nil {
				return err
			}
		}
	}
	row := imported(rows)
	reason := fmt.Sprintf("%s, and %s was written to, claimed or removed here since it was imported",
		b.wayThere(rows), b.kind.Title(row.Entity()))
	switch {
	case row.State == tree.StateShared:
		reason = fmt.Sprintf("%s, and %s is here from elsewhere", b.wayThere(rows), b.kind.Title(row.Entity()))
	case b.unreadable():
		reason = fmt.Sprintf("%s, which can't be read", b.wayThere(rows))
	}
	return b.tree.Contest(b.tx, b.Path(), row.EntityID, reason)
}

func (b *taking) unreadable() bool {
	for _, f := range b.files {
		if !f.gone && f.reason != "" {
			return true
		}
	}
	return false
}

// unseen reports whether nobody can say what the old program made of it: the folder is away, or a
// file can't be read.
func (b *taking) unseen() bool {
	_, err := b.tree.Folder.Stat(".")
	return err != nil || b.unreadable()
}

// wayThere says what the old program did.
func (b *taking) wayThere(rows []*tree.Row) string {
	now, renamed := "", false
	for form, f := range b.files {
		switch {
		case f.gone:
			renamed = renamed || rows[form] != nil
		case now == "" || rows[form] == nil:
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

// Resolve takes a version of a thing over which there is a conflict, as the folder has it now.
func (l Layout) Resolve(tx *db.Tx, t *tree.Tree, path string, take tree.Take) error {
	th := l.look(t, path)
	b := &taking{thing: th, source: t.Source, tx: tx, part: t.Report}
	rows, err := th.rows(&tx.Rx)
	if err != nil {
		return err
	}
	if take == tree.TakeOurs {
		return b.keepOurs(rows)
	}
	if b.unseen() {
		return &db.Error{
			Op: "resolve", Entity: "folder", ID: tree.Shown(t.Root),
			Err:  fmt.Errorf("%w: what the old program made of it can't be read", db.ErrNotFound),
			Hint: "make the folder readable, or take ours",
		}
	}
	return b.takeOld(rows)
}

// keepOurs has the ledger know the files as they are, so that what the old program does next is a
// conflict again.
func (b *taking) keepOurs(rows []*tree.Row) error {
	was := imported(rows)
	if was == nil {
		return nil
	}
	if b.unseen() {
		return nil // the next import that reads them is to find what the old program made of it
	}
	if err := b.forget(rows); err != nil {
		return err
	}
	for form, f := range b.files {
		if f.reason != "" {
			continue
		}
		row := rows[form]
		if row == nil { // no row of the store came from this file
			none := -max(*was.EntityRow, -*was.EntityRow)
			row = &tree.Row{State: was.State, EntityRow: &none}
			own := b.kind.Own(f.path, f.value)
			row.EntityGroup, row.EntityID = own.Group, own.ID
		}
		if err := b.note(f, row.Entity(), row.State, row.EntityRow); err != nil {
			return err
		}
	}
	return nil
}

// takeOld puts what the folder has in place of what is here.
func (b *taking) takeOld(rows []*tree.Row) error {
	for form, f := range b.files {
		var ours tree.Entity
		switch was := rows[form]; {
		case was != nil:
			ours = was.Entity()
		case f.gone && !b.kind.Once():
			continue // what it was said the file alone
		default:
			ours = b.kind.Own(f.path, f.value)
		}
		row, there, err := b.store.Row(&b.tx.Rx, ours)
		if err == nil && there {
			err = b.store.Remove(b.tx, row)
		}
		if err != nil {
			return err
		}
	}
	if err := b.forget(rows); err != nil {
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
