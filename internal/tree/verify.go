package tree

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"

	"selvedge/db"
	"selvedge/internal/stores"
)

// A verification compares one tree.
type verification struct {
	*Tree
	ctx     context.Context
	derived *Derived
	theirs  Source // the tree in the derived file
	tables  []Table
	columns map[string][]string // of the tables, in the order of their queries
	telling bool                // rows count for the sentence at the end
}

// Compare compares what was derived with d, table by table and row by row, both ways. It writes
// nothing.
func (x *Derived) Compare(ctx context.Context, d *db.DB) (Report, error) {
	t := *x.tree
	t.DB, t.Report = d, x.begin()
	x.said = map[string]int64{}
	v := &verification{
		Tree: &t, ctx: ctx, derived: x, theirs: t.Source, tables: t.layout.Tables(),
		columns: map[string][]string{},
	}
	err := d.Read(ctx, "begin verification", func(rx *db.Rx) (err error) {
		// if it was never imported, its things may be here from elsewhere
		t.Source, _, err = findSource(rx, t.Scope, t.layout.Name(), t.Root)
		return err
	})
	if err == nil {
		err = inTurn(v.files, v.left, v.contested, v.aside, v.stale, v.settings)
	}
	return t.Report.Report, err
}

// begin is the report if all of the tree is here.
func (x *Derived) begin() *Part {
	r := newPart(x.tree.layout.Name(), x.tree.Scope, x.tree.Root)
	from := x.tree.Report
	for kind, c := range from.Counts {
		r.Counts[kind] = Count{Read: c.Read, Already: c.Read - c.Quarantined, Quarantined: c.Quarantined}
	}
	f := from.Files
	r.Files = Files{
		Found: f.Found, Already: f.New + f.Grown + f.Already + f.Changed, Refused: f.Refused,
		Unreadable: f.Unreadable, Ignored: f.Ignored, Bytes: f.Bytes,
	}
	r.Report.Ignored, r.Truncated = append(r.Report.Ignored, from.Report.Ignored...), from.Truncated
	r.Apart, r.Differs = append(r.Apart, from.Apart...), append(r.Differs, from.Differs...)
	return r
}

// files compares the files' outcomes, one by one.
func (v *verification) files() error {
	return ForEach(v.theirs.files(v.ctx, v.derived.db, sqlFiles), func(row *Row) error {
		f := &file{verification: v, path: string(row.Path), theirs: row}
		if err := f.compare(); err != nil {
			return fmt.Errorf("%s: %w", Shown(f.path), err)
		}
		return nil
	})
}

// left counts the files that the old program has removed since they were imported, and names the
// things that an import would remove here too.
func (v *verification) left() error {
	_, follows := v.layout.(Follower)
	return ForEach(v.Source.files(v.ctx, v.DB, sqlFiles), func(row *Row) error {
		if !isGone(v.Root, row.Path) {
			return nil
		}
		v.Report.Files.Gone++
		if follows && row.State != StateRefused {
			v.Report.Differ(string(row.Path), v.layout.Title(row.Entity())+
				" was imported, and the file is gone: import the folder again")
		}
		return nil
	})
}

// contested names the open conflicts.
func (v *verification) contested() error {
	rows := Each(v.ctx, v.DB, "look for conflicts",
		func(rx *db.Rx, last *conflictRow, rows *[]conflictRow) error {
			return rx.Select(rows, sqlOpenOfSource, v.Source.ID, last.ID, PageRows)
		})
	return ForEach(rows, func(row *conflictRow) error {
		v.Report.Contested(string(row.Path), row.EntityID, row.Reason)
		return nil
	})
}

// A file is one of the tree, with its rows in both ledgers.
type file struct {
	*verification
	path   string
	theirs *Row
	ours   *Row    // nil: it was not imported
	have   []Thing // what it is here, by our ledger
	where  *int64  // the count in the report; nil: Already
}

func (f *file) compare() error {
	var wanted []Thing
	err := f.both(func(derived, here *db.Rx) (err error) {
		if wanted, err = f.layout.Things(derived, f.verification.theirs, f.theirs); err != nil || f.Source.ID == 0 {
			return err
		}
		if f.ours, err = f.Source.File(here, f.path); err != nil || f.ours == nil {
			return err
		}
		f.have, err = f.layout.Things(here, f.Source, f.ours)
		return err
	})
	if err != nil {
		return err
	}
	f.telling = f.theirs.State == StateTaken
	for _, w := range wanted {
		if err := f.compareThing(w, len(wanted) == 1); err != nil {
			return err
		}
	}
	switch {
	case f.where != nil:
		f.moveFile()
	case f.ours != nil:
		f.compareLedger()
	case f.Source.ID != 0 && len(wanted) > 0:
		f.Report.Differ(f.path, "all that it holds is here, but the ledger does not know it: import it again")
	}
	return nil
}

// compareThing compares one of the things that the file became.
func (f *file) compareThing(w Thing, only bool) error {
	mine, alike, refused, err := f.counterpart(w, only)
	if err != nil {
		return err
	}
	if refused {
		f.where = &f.Report.Files.Refused
		_, err := f.compareRows(w.Row, 0, false, Quarantine)
		return err
	}
	d, err := f.compareRows(w.Row, mine.Row, alike, New)
	if err != nil {
		return err
	}
	title, where, reason := f.layout.Title(w.Entity), &f.Report.Files.Changed, ""
	if d.grown(f.tables[0].Noun) {
		where = &f.Report.Files.Grown
	}
	switch {
	case d.none() && mine.Entity == w.Entity:
		return nil
	case d.none():
		reason = fmt.Sprintf("is here as %s, and is %s", f.layout.Title(mine.Entity), title)
	case d.absent && f.ours == nil:
		where, reason = &f.Report.Files.New, "was not imported: "+title
	case d.absent:
		reason = title + " was removed here since it was imported"
	case d.touched:
		reason = title + " was written to here since it was imported: " + d.String()
	case f.ours == nil || alike:
		reason = title + " is here from elsewhere, and is another one: " + d.String()
	case !f.asImported():
		reason = "the file has changed since it was imported as " + title + ": " + d.String()
	default:
		reason = title + " is not as it was imported, and nobody wrote to it: " + d.String()
	}
	f.where = where
	f.Report.Differ(f.path, reason)
	return nil
}

// counterpart finds the thing here that matches w; it has no row if there is none. alike: it came
// from elsewhere. refused: it was not imported and is in quarantine.
func (f *file) counterpart(w Thing, only bool) (mine Thing, alike, refused bool, err error) {
	if f.ours != nil && f.ours.State == StateRefused {
		return mine, false, true, nil
	}
	for _, t := range f.have {
		if t.Entity == w.Entity || only && len(f.have) == 1 {
			return t, f.ours.State == StateShared && f.theirs.State == StateTaken, false, nil
		}
	}
	err = f.DB.Read(f.ctx, "look for what a file holds", func(rx *db.Rx) (err error) {
		if f.ours != nil {
			if err := rx.Get(&refused, sqlIsRefused, f.Source.ID, f.theirs.Path, w.ID); err != nil || refused {
				return err
			}
		}
		t, ok, err := f.layout.Find(rx, f.Scope, w.Entity)
		if ok {
			mine = t
		}
		return err
	})
	return mine, true, refused, err
}

var sqlIsRefused = `SELECT EXISTS (SELECT 1 FROM quarantine WHERE ` + ofFile +
	` AND what = 'conflict' AND entity_id = ?3)`

// asImported reports whether the file is unchanged since its import, by the ledger.
func (f *file) asImported() bool {
	return f.ours.Consumed == f.theirs.Consumed && bytes.Equal(f.ours.PrefixSHA256, f.theirs.PrefixSHA256)
}

// compareLedger compares the ledgers' rows of a file whose things are as they should be.
func (f *file) compareLedger() {
	theirs, ours := reflect.ValueOf(*f.theirs), reflect.ValueOf(*f.ours)
	elsewhere := f.theirs.State == StateTaken && f.ours.State == StateShared
	var columns []string
	for i := range theirs.NumField() {
		switch name := theirs.Type().Field(i).Tag.Get("db"); {
		case same(theirs.Field(i).Interface(), ours.Field(i).Interface()), name == "entity_row":
		case elsewhere && (name == "state" || name == "last_sequence"):
		default:
			columns = append(columns, name)
		}
	}
	if len(columns) > 0 {
		f.Report.Differ(f.path, "the ledger says something else of the file: "+strings.Join(columns, ", "))
	}
}

// moveFile counts a file, or the files of a folder, in another column than Already.
func (f *file) moveFile() {
	n, _ := f.sizeOf(f.path)
	n = min(n, f.Report.Files.Already)
	f.Report.Files.Already -= n
	*f.where += n
}

// quarantine yields what is in quarantine of the source.
func (s Source) quarantine(ctx context.Context, d *db.DB) iter.Seq2[*quarantineRow, error] {
	return Each(ctx, d, "list quarantine", func(rx *db.Rx, last *quarantineRow, rows *[]quarantineRow) error {
		return rx.Select(rows, sqlAsideAfter, s.ID, last.ID, PageRows)
	})
}

var (
	sqlAsideAfter = quarantineColumns + `WHERE q.source = ? AND q.id > ? ORDER BY q.id LIMIT ?`
	asideTable    = Table{
		Name:  "quarantine",
		Query: `SELECT reason, entity_group, entity_id, bytes FROM quarantine WHERE id = ?1`,
	}
	partsTable = Table{
		Name:  "quarantine_parts",
		Query: `SELECT * FROM quarantine_parts WHERE quarantine = ?1 ORDER BY part`, Key: []string{"part"},
		Numbers: []string{"quarantine", "checksum"},
	}
)

// aside checks that what could not be imported is in quarantine as a derivation puts it there.
func (v *verification) aside() error {
	for theirs, err := range v.theirs.quarantine(v.ctx, v.derived.db) {
		if err != nil {
			return err
		}
		var ours quarantineRow
		found, d, parts := false, newDifference(), newDifference()
		err := v.both(func(derived, here *db.Rx) error {
			row, err := v.Source.File(here, string(theirs.Path))
			if err != nil || row != nil && (row.State == StateRefused || row.State == StateShared &&
				(theirs.What != WhatFile || theirs.Bytes == 0)) {
				found = true // a refused file has one row for all; a shared one needs a row only for a whole file
				return err
			}
			if found, err = here.Find(&ours, sqlFindQuarantine, v.Source.ID, theirs.Path, theirs.ByteOffset,
				theirs.What); err != nil || !found {
				return err
			}
			return cmp.Or(v.table(&asideTable, derived, here, theirs.ID, ours.ID, false, New, d, false),
				v.table(&partsTable, derived, here, theirs.ID, ours.ID, false, New, parts, false))
		})
		if err != nil {
			return err
		}
		columns := d.columns
		if !parts.none() {
			columns = append(columns, "bytes")
		}
		if !found {
			v.Report.Differ(string(theirs.Path), theirs.Reason+"; and it is not in quarantine")
		} else if len(columns) > 0 {
			slices.Sort(columns)
			v.Report.Differ(string(theirs.Path), fmt.Sprintf(
				"what is in quarantine of it (%d) is not what the file gives: %s", ours.ID,
				strings.Join(slices.Compact(columns), ", ")))
		}
	}
	return nil
}

// stale names all that is in quarantine here, and checks that the source still produces it.
func (v *verification) stale() error {
	return ForEach(v.Source.quarantine(v.ctx, v.DB), func(ours *quarantineRow) error {
		v.Report.Aside(ours.public())
		return v.staleOne(ours)
	})
}

func (v *verification) staleOne(ours *quarantineRow) error {
	path := string(ours.Path)
	_, derived, err := stores.Find(v.ctx, v.derived.db.Read, "look into the quarantine",
		func(rx *db.Rx) (Quarantined, bool, error) {
			return v.theirs.Quarantined(rx, path, ours.ByteOffset, ours.What)
		})
	if err != nil || derived || isGone(v.Root, ours.Path) {
		return err
	}
	if ours.What != WhatConflict { // a derivation never finds a conflict with what is here from elsewhere
		v.Report.Differ(path, fmt.Sprintf("lies in quarantine (%d), and nothing is wrong with it any more: "+
			"import it again", ours.ID))
		return nil
	}
	same, err := v.inFile(ours)
	if err == nil && !same {
		v.Report.Differ(path, fmt.Sprintf("lies in quarantine (%d), and the file holds other bytes", ours.ID))
	}
	return err
}

// inFile reports whether the file has the bytes that the row keeps.
func (v *verification) inFile(q *quarantineRow) (bool, error) {
	if q.Bytes == 0 {
		return true, nil // its folder keeps them
	}
	f, _, err := v.Folder.Open(string(q.Path))
	if err != nil {
		return false, nil //nolint:nilerr // it then counts as different
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	here, there := sha256.New(), sha256.New()
	_, _ = io.Copy(there, io.NewSectionReader(f, q.ByteOffset, q.Bytes)) // an error makes it shorter
	err = QuarantineRaw(v.ctx, v.DB, q.ID, here)
	return err == nil && bytes.Equal(here.Sum(nil), there.Sum(nil)), err
}

// A Settler is a Layout that imports more of a tree than the things in its files.
type Settler interface {
	// Settings returns tables whose rows belong to the source with the number ?1, and the file
	// that they come from, which may be gone. there is false if all content of the file is here,
	// though it was never imported.
	Settings(ctx context.Context, t *Tree) (tables []Table, file string, there bool, err error)
}

func (v *verification) settings() error {
	l, ok := v.layout.(Settler)
	if !ok {
		return nil
	}
	tables, path, there, err := l.Settings(v.ctx, v.Tree)
	if err != nil {
		return err
	}
	d := newDifference()
	err = v.both(func(derived, here *db.Rx) error {
		for i := range tables {
			if err := v.table(&tables[i], derived, here, v.theirs.ID, v.Source.ID, false, New, d, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !d.none() && there {
		v.Report.Differ(path, "what it says is not what is kept here: "+d.String())
	}
	return err
}
