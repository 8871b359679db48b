package runs

import (
	"bytes"
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/tree"
)

// A sourceFile is a file on its way through an import.
type sourceFile struct {
	path string
	size int64
	// kept is set by the writer when ours was touched since the last import: the file's records are
	// counted and not taken.
	kept bool
	// changed is set by the writer when the file takes the place of what was imported from it before.
	changed bool
}

type stepKind int

const (
	stepPiece  stepKind = iota // records
	stepSame                   // the file is as it was
	stepShared                 // the file's content is there from elsewhere
	stepUnread
)

// A step is what the reader hands to the writer.
type step struct {
	*room
	kind  stepKind
	file  *sourceFile
	row   *tree.Row // the ledger's, when the file was opened; nil: none
	opens bool      // the first step of the file
	tail  string    // the kind of record of the torn last line; "" for none

	*piece             // stepPiece
	choices []choice   // stepPiece from 0, stepShared: what the file may be
	records tree.Tally // stepShared
	reason  string     // stepUnread
}

// Path is the file's.
func (st *step) Path() string { return st.file.path }

// Held is what the step's lines take.
func (st *step) Held() int {
	if st.piece == nil {
		return 0
	}
	return len(st.raw) + len(st.piece.tail)
}

// Progress is how many bytes of the source the step stands for.
func (st *step) Progress() (files, bytes int64) {
	if st.opens {
		files = 1
	}
	switch st.kind {
	case stepSame, stepShared:
		bytes = st.file.size
	case stepPiece:
		bytes = st.to - st.from + int64(len(st.piece.tail))
		if st.opens {
			bytes += st.from
		}
	case stepUnread:
	}
	return files, bytes
}

// Prefetch names what is about to be asked of the file and of what it is.
func (st *step) Prefetch(f *tree.Prefetcher) error {
	if st.kind == stepSame {
		f.About("file " + st.file.path)
		f.Aside(st.Tree, st.file.path)
		return nil
	}
	if st.kind != stepPiece && st.kind != stepShared {
		return nil
	}
	f.File(st.file.path)
	if st.piece != nil {
		for i := range st.piece.records {
			if st.piece.records[i].reason != "" {
				f.ExpectAside(1)
			}
		}
		if st.tail != "" && st.tail != tree.Blank {
			f.ExpectAside(1)
		}
	}
	prefetch := func(e tree.Entity, row int64) error {
		f.About("run " + e.Group + "\x00" + e.ID)
		return st.store.prefetch(f.Rx, e, row, f.Ask)
	}
	switch {
	case len(st.choices) > 0:
		if st.choices[0].verdict == verdictFree {
			f.Expect("runs", 1)
		}
		return prefetch(st.choices[0].Entity, 0)
	case st.row != nil && st.row.EntityRow != nil:
		return prefetch(st.row.Entity(), *st.row.EntityRow)
	}
	return nil
}

// Known counts a file that is as it was and was taken.
func (st *step) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	if st.kind != stepSame {
		return false, nil
	}
	if st.Unread {
		if _, unread, err := st.Source.Quarantined(rx, st.file.path, 0, tree.WhatFile); err != nil || unread {
			return false, err
		}
	}
	b := &batch{room: st.room, part: part}
	b.open(st)
	return true, b.same(rx, st)
}

// Take takes the step.
func (st *step) Take(tx *db.Tx, part *tree.Part) error {
	b := &batch{room: st.room, tx: tx, part: part}
	if st.kind == stepUnread {
		return b.unreadable(st)
	}
	b.open(st)
	if b.Unread && st.opens {
		if err := b.Source.ReleaseReadable(tx, st.file.path); err != nil {
			return err
		}
	}
	switch st.kind {
	case stepSame:
		return b.same(&tx.Rx, st)
	case stepShared:
		return b.shared(st)
	case stepPiece, stepUnread:
	}
	return b.piece(st)
}

// A batch is the writing half of an import for one step. What it decides about a file is decided
// again from the ledger.
type batch struct {
	*room
	tx   *db.Tx // nil where nothing changes
	part *tree.Part
}

func (b *batch) open(st *step) {
	if st.opens {
		b.part.Files.Found++
		b.part.Files.Bytes += st.file.size
	}
}

func (b *batch) unreadable(st *step) error {
	if st.opens {
		b.part.Files.Found++
	}
	b.part.Files.Unreadable++
	return b.Source.PutAside(b.tx, b.part,
		tree.Finding{Path: st.file.path, What: tree.WhatFile, Reason: st.reason})
}

// same counts a file that is as it was.
func (b *batch) same(rx *db.Rx, st *step) error {
	if st.row.State == tree.StateRefused {
		b.part.Files.Refused++
	} else {
		b.part.Files.Already++
	}
	return b.countKnown(rx, st)
}

// countKnown counts the records that the ledger says were there before, and names what is in
// quarantine of them.
func (b *batch) countKnown(rx *db.Rx, st *step) error {
	known, err := tree.ParseTally(st.row.Records)
	if err != nil {
		return err
	}
	if st.kind == stepSame && st.tail != "" {
		known[st.tail]++
	}
	bad := tree.Tally{}
	for kind, n := range known {
		if st.row.State == tree.StateRefused || st.row.State == tree.StateTaken && kind == tree.Undecodable {
			bad[kind] = n
			delete(known, kind)
		}
	}
	b.part.CountAll(known, tree.Already)
	b.part.CountAll(bad, tree.Quarantine)
	return b.NameAside(rx, st.file.path, b.part)
}

// shared notes that what the file holds is here from elsewhere.
func (b *batch) shared(st *step) error {
	if _, err := b.putAway(st); err != nil || st.file.kept {
		return err
	}
	c, state, _, err := b.decide(st)
	if err != nil {
		return err
	}
	if state != tree.StateShared {
		return b.moved(c.Entity)
	}
	records := st.records
	if st.tail != "" {
		records = tree.Tally{st.tail: 1}
		for kind, n := range st.records {
			records[kind] += n
		}
	}
	b.part.CountAll(records, tree.Already)
	b.part.Files.Already++
	row := &tree.Row{
		State: tree.StateShared, EntityGroup: c.Group, EntityID: c.ID, EntityRow: &c.was.Row,
		LastSequence: c.was.Last,
	}
	return b.advance(st, row, st.records)
}

// piece takes records.
func (b *batch) piece(st *step) error {
	row, err := b.target(st)
	if err != nil {
		return err
	}
	if st.file.kept {
		b.part.CountAll(b.met(st), tree.Changed)
		return nil
	}
	known, err := tree.ParseTally(row.Records)
	if err != nil {
		return err
	}
	if row.State == tree.StateRefused {
		err = b.setAside(st, row)
	} else {
		err = b.take(st, row)
	}
	if err != nil {
		return err
	}
	return b.advance(st, row, with(known, st.piece.records))
}

// met is what the piece holds, a torn tail too.
func (b *batch) met(st *step) tree.Tally {
	t := with(tree.Tally{}, st.piece.records)
	if st.tail != "" {
		t[st.tail]++
	}
	return t
}

// advance writes how far the file is read.
func (b *batch) advance(st *step, row *tree.Row, records tree.Tally) error {
	row.Path, row.Size, row.Consumed = []byte(st.file.path), st.file.size, st.to
	row.PrefixSHA256, row.OpenLine, row.Tail = st.sum, st.openLine, st.piece.tail
	row.Records = records.String()
	return b.Source.Put(b.tx, row)
}

// target is the ledger's row that the piece goes on, or a new one for a piece that begins a file.
func (b *batch) target(st *step) (*tree.Row, error) {
	if st.from > 0 {
		return b.goOn(st)
	}
	known, err := b.putAway(st)
	if err != nil || st.file.kept {
		return nil, err
	}
	c, state, passed, err := b.decide(st)
	if err != nil {
		return nil, err
	}
	row := &tree.Row{State: state, EntityGroup: c.Group, EntityID: c.ID}
	switch {
	case state == tree.StateShared:
		return nil, b.moved(c.Entity)
	case state == tree.StateRefused && b.Alone: // what had its id was gone when that was looked at
		return nil, b.moved(c.Entity)
	case state == tree.StateRefused:
		b.part.Files.Refused++
		reason := fmt.Sprintf("%s is here already, from elsewhere and with other records; import this tree into "+
			"a scope of its own", title(c.Entity))
		if err := b.Source.PutAside(b.tx, b.part,
			tree.Finding{Path: st.file.path, What: tree.WhatConflict, Reason: reason, Whose: &c.Entity}); err != nil {
			return nil, err
		}
	case known:
		b.part.Files.Changed++
	default:
		b.part.Files.New++
	}
	if passed != nil && state == tree.StateTaken {
		reason := fmt.Sprintf("its records name %s, which is here already, from %s; kept apart as %s",
			title(passed.wanted), tree.Shown(string(passed.by)), title(c.Entity))
		if err := b.Source.PutAside(b.tx, b.part,
			tree.Finding{Path: st.file.path, What: tree.WhatName, Reason: reason, Whose: &passed.wanted}); err != nil {
			return nil, err
		}
	}
	return row, nil
}

// putAway makes room for a file that is read from its beginning again. It reports whether records
// of the file had been taken before; where ours was touched since, they stay and the file is kept
// out.
func (b *batch) putAway(st *step) (known bool, err error) {
	st.file.kept, st.file.changed = false, false
	row, err := b.Source.File(&b.tx.Rx, st.file.path)
	switch {
	case err != nil || row == nil && b.Alone:
		return false, err
	case row == nil: // a retry that was stopped has left it in quarantine
		return false, b.Source.ReleaseFile(b.tx, st.file.path)
	}
	if row.State == tree.StateTaken {
		untouched, err := b.untouched(row)
		if err != nil {
			return false, err
		}
		if !untouched {
			b.keep(st, row)
			return true, nil
		}
		if err := b.store.remove(b.tx, row.Entity()); err != nil {
			return false, err
		}
		known = row.Consumed > 0 // else it held no whole line yet
		st.file.changed = known
	}
	if err := b.Source.ReleaseFile(b.tx, st.file.path); err != nil {
		return false, err
	}
	return known, b.Source.Forget(b.tx, st.file.path)
}

// keep leaves ours as it is, and says so.
func (b *batch) keep(st *step, row *tree.Row) {
	st.file.kept = true
	b.part.Files.Changed++
	b.part.Differ(st.file.path, fmt.Sprintf("the file has changed, and %s was written to or removed here "+
		"since it was imported: ours stays", title(row.Entity())))
}

func (b *batch) untouched(row *tree.Row) (bool, error) {
	s, ok, err := b.store.state(&b.tx.Rx, row.Entity())
	return ok && holds(row, s) && s.Last == row.LastSequence, err
}

// goOn checks that the file goes on where the ledger says that it was left.
func (b *batch) goOn(st *step) (*tree.Row, error) {
	if st.file.kept && !st.opens {
		return nil, nil
	}
	st.file.kept = false
	row, err := b.Source.File(&b.tx.Rx, st.file.path)
	if err != nil {
		return nil, err
	}
	if row == nil || st.from != row.Consumed && (!row.OpenLine || st.from != row.Consumed+1) {
		return nil, fmt.Errorf("%w: another import of the same tree has moved on meanwhile; run the import again",
			db.ErrConflict)
	}
	untouched := true
	if row.State == tree.StateTaken {
		untouched, err = b.untouched(row)
	}
	if err == nil && untouched && len(row.Tail) > 0 { // it is read again; a file that is kept out keeps its own
		err = b.Source.Release(b.tx, st.file.path, row.Consumed, tree.WhatTail)
	}
	if err == nil && st.opens {
		err = b.countKnown(&b.tx.Rx, st)
	}
	if err != nil {
		return nil, err
	}
	if !untouched {
		b.keep(st, row)
		return nil, nil
	}
	if st.opens && row.State == tree.StateRefused {
		b.part.Files.Refused++
	} else if st.opens {
		b.part.Files.Grown++
	}
	return row, nil
}

// take appends the records to the store. A line that can't be read goes into the trace as it is,
// and into quarantine.
func (b *batch) take(st *step, row *tree.Row) error {
	e := row.Entity()
	var was *stored
	if row.EntityRow != nil {
		was = &stored{*row.EntityRow, row.LastSequence}
	}
	s, err := b.store.append(b.tx, e, was, st.piece.records)
	if err != nil {
		return err
	}
	row.EntityRow, row.LastSequence = &s.Row, s.Last
	for i := range st.piece.records {
		if rec := &st.piece.records[i]; rec.reason != "" {
			if err := b.bad(st, e, rec.offset, tree.WhatLine, rec.reason, rec.text); err != nil {
				return err
			}
		}
	}
	if st.tail != "" && st.tail != tree.Blank {
		if err := b.bad(st, e, st.to, tree.WhatTail,
			"a last line without line feed that can't be read, and may still grow", st.piece.tail); err != nil {
			return err
		}
	}
	if st.last && (b.Alone || b.Aside) { // it was refused once, and a retry may have been stopped in it
		if err := b.Source.Release(b.tx, st.file.path, 0, tree.WhatConflict); err != nil {
			return err
		}
	}
	b.part.CountAll(b.met(st), func(c *tree.Count) *int64 {
		if st.file.changed {
			return &c.Changed
		}
		return &c.New
	})
	return nil
}

// bad quarantines a line. It was counted with the others of its kind, all of which are bad: the
// count is corrected.
func (b *batch) bad(st *step, e tree.Entity, offset int64, what, reason string, raw []byte) error {
	err := b.Source.PutAside(b.tx, b.part,
		tree.Finding{Path: st.file.path, Offset: offset, What: what, Reason: reason, Whose: &e, Raw: raw})
	if err != nil {
		return err
	}
	b.part.Count(tree.Undecodable, func(c *tree.Count) {
		c.Quarantined++
		if st.file.changed {
			c.Changed--
		} else {
			c.New--
		}
	})
	return nil
}

// setAside keeps the bytes of a refused file.
func (b *batch) setAside(st *step, row *tree.Row) error {
	q, ok, err := b.Source.Quarantined(&b.tx.Rx, st.file.path, 0, tree.WhatConflict)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the refused file is not in quarantine", db.ErrCorrupt)
	}
	if err == nil && row.OpenLine && st.from > row.Consumed {
		err = tree.GrowQuarantine(b.tx, q.ID, newline)
	}
	if err == nil {
		err = tree.GrowQuarantine(b.tx, q.ID, bytes.Join([][]byte{st.raw, st.piece.tail}, nil))
	}
	b.part.CountAll(b.met(st), tree.Quarantine)
	return err
}

// passedOver is the best id of a file that another file of the tree holds.
type passedOver struct {
	wanted tree.Entity
	by     []byte
}

// decide finds out what the file is; see choose.
func (b *batch) decide(st *step) (c choice, state string, passed *passedOver, err error) {
	var refused *choice
	for i := range st.choices {
		c = st.choices[i]
		v, now, by, err := b.standing(&b.tx.Rx, c.Entity)
		switch {
		case err != nil:
			return c, "", nil, err
		case v == verdictFree && refused == nil:
			return c, tree.StateTaken, passed, nil
		case v == verdictFree:
		case v == verdictSibling:
			if passed == nil && i == 0 {
				passed = &passedOver{c.Entity, by}
			}
		case c.verdict == verdictSame && c.was == now:
			return c, tree.StateShared, nil, nil
		case c.verdict == verdictOther && c.was == now:
			if refused == nil {
				refused = &st.choices[i]
			}
		case refused == nil:
			return c, "", nil, b.moved(c.Entity)
		}
	}
	if refused != nil {
		return *refused, tree.StateRefused, nil, nil
	}
	return c, "", nil, fmt.Errorf("%w: every id that the file could have is taken", db.ErrConflict)
}

// moved is the error where the store changed between the look at it and the write.
func (b *batch) moved(e tree.Entity) error {
	return fmt.Errorf("%w: %s was written while it was being imported; run the import again", db.ErrConflict,
		title(e))
}

// holds reports whether what the row's file became is what the store has under that number.
func holds(row *tree.Row, s stored) bool { return row.EntityRow != nil && *row.EntityRow == s.Row }

// with adds the records of a piece.
func with(t tree.Tally, records []record) tree.Tally {
	for i := range records {
		t[records[i].kind]++
	}
	return t
}

// releaseGone takes out of the quarantine what could not be read and is gone, and agents' folders
// that can be read again.
func releaseGone(ctx context.Context, t *tree.Tree) error {
	for after := []byte{}; ; {
		var paths [][]byte
		err := t.DB.Read(ctx, "look for what could not be read", func(rx *db.Rx) (err error) {
			paths, err = t.Source.Unread(rx, after)
			return err
		})
		if err != nil || len(paths) == 0 {
			return err
		}
		err = t.Hold(ctx, "release what is gone", func(tx *db.Tx) error {
			for _, path := range append(tree.GoneFrom(t.Root, paths), readableAgents(t.Folder, paths)...) {
				if err := t.Source.ReleaseUnread(tx, string(path)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		after = paths[len(paths)-1]
	}
}

// readableAgents gives those of the paths that are agents' folders whose files can be listed.
func readableAgents(root tree.Folder, paths [][]byte) (agents [][]byte) {
	for _, path := range paths {
		if !bytes.ContainsRune(path, '/') && root.List(string(path)) == nil {
			agents = append(agents, path)
		}
	}
	return agents
}
