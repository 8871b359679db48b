package runs

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/internal/usage"
)

// A sourceFile is a file during an import.
type sourceFile struct {
	path string
	size int64
	// kept is set by the writer if the imported run was changed since the last import: the file's
	// records are counted then and not taken.
	kept bool
	// changed is set by the writer if the file replaces what was imported from it before.
	changed bool
}

type stepKind int

const (
	stepPiece  stepKind = iota // records
	stepSame                   // the file is unchanged
	stepShared                 // the file's content is in the store already, from elsewhere
	stepUnread
)

// A step is what the reader passes to the writer, which decides about the file again, from the
// ledger.
type step struct {
	*tree.Tree
	tx   *db.Tx     // of Take; nil in Known, where nothing changes
	part *tree.Part // of Take and Known

	kind  stepKind
	file  *sourceFile
	row   *tree.Row // the ledger's, when the file was opened; nil: none
	opens bool      // the first step of the file
	tail  string    // the kind of record of the torn last line; "": none

	*piece             // stepPiece
	choices []choice   // stepPiece from 0, stepShared: the ids that the file may have
	records tree.Tally // stepShared
	reason  string     // stepUnread
}

// Path returns the path of the file.
func (st *step) Path() string { return st.file.path }

// Held returns how many bytes the step's lines take.
func (st *step) Held() int {
	if st.piece == nil {
		return 0
	}
	return len(st.raw) + len(st.piece.tail)
}

// Progress returns how many files and bytes of the source the step covers.
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

// Prefetch names the queries about the file and about the run that it is.
func (st *step) Prefetch(f *tree.Prefetcher) error {
	switch st.kind {
	case stepSame:
		f.About("file " + st.file.path)
		f.Aside(st.Tree, st.file.path)
		return nil
	case stepUnread:
		return nil
	case stepPiece, stepShared:
	}
	f.File(st.file.path)
	for i := range st.piece.records {
		if st.piece.records[i].kind == lineUndecodable {
			f.ExpectAside(1)
		}
	}
	if st.torn() {
		f.ExpectAside(1)
	}
	var e tree.Entity
	var row int64
	switch {
	case len(st.choices) > 0:
		if st.choices[0].verdict == verdictFree {
			f.Expect("runs", 1)
		}
		e = st.choices[0].Entity
	case st.row != nil && st.row.EntityRow != nil:
		e, row = st.row.Entity(), *st.row.EntityRow
	default:
		return nil
	}
	f.About("run " + e.Group + "\x00" + e.ID)
	prefetch(f.Ask, st.Source.Scope, e, row)
	return nil
}

// torn reports whether the last line goes into quarantine.
func (st *step) torn() bool { return st.tail != "" && st.tail != tree.Blank }

// Known counts a file that is unchanged and was taken, and reports whether the file is one.
func (st *step) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	if st.kind != stepSame {
		return false, nil
	}
	if st.Unread {
		if _, unread, err := st.Source.Quarantined(rx, st.file.path, 0, tree.WhatFile); err != nil || unread {
			return false, err
		}
	}
	st.part = part
	st.open()
	return true, st.same(rx)
}

// Take applies the step to the store.
func (st *step) Take(tx *db.Tx, part *tree.Part) error {
	st.tx, st.part = tx, part
	st.open()
	if st.kind == stepUnread {
		part.Files.Unreadable++
		return st.putAside(tree.WhatFile, 0, st.reason, nil, nil)
	}
	if st.Unread && st.opens {
		if err := st.Source.ReleaseReadable(tx, st.file.path); err != nil {
			return err
		}
	}
	switch st.kind {
	case stepSame:
		return st.same(&tx.Rx)
	case stepShared:
		return st.shared()
	case stepPiece, stepUnread:
	}
	return st.take()
}

// open counts the file on its first step, and its bytes if it can be read.
func (st *step) open() {
	if st.opens {
		st.part.Files.Found++
	}
	if st.opens && st.kind != stepUnread {
		st.part.Files.Bytes += st.file.size
	}
}

func (st *step) putAside(what string, offset int64, reason string, whose *tree.Entity, raw []byte) error {
	return st.Source.PutAside(st.tx, st.part, tree.Finding{
		Path: st.file.path, Offset: offset, What: what, Reason: reason, Whose: whose, Raw: raw,
	})
}

// same counts an unchanged file.
func (st *step) same(rx *db.Rx) error {
	if st.row.State == tree.StateRefused {
		st.part.Files.Refused++
	} else {
		st.part.Files.Already++
	}
	return st.countKnown(rx)
}

// countKnown counts the records that were there before, by the ledger, and names those of them that
// are in quarantine.
func (st *step) countKnown(rx *db.Rx) error {
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
	st.part.CountAll(known, tree.Already)
	st.part.CountAll(bad, tree.Quarantine)
	lines := int64(0)
	if st.row.State == tree.StateTaken {
		lines = bad[tree.Undecodable]
	}
	return st.NameAside(rx, st.file.path, lines, st.part)
}

// shared records that the content of the file is in the store already, from elsewhere.
func (st *step) shared() error {
	if _, err := st.putAway(); err != nil || st.file.kept {
		return err
	}
	c, state, _, err := st.decide()
	if err != nil {
		return err
	}
	if state != tree.StateShared {
		return moved(c.Entity)
	}
	records := maps.Clone(st.records)
	if st.tail != "" {
		records[st.tail]++
	}
	st.part.CountAll(records, tree.Already)
	st.part.Files.Already++
	row := &tree.Row{
		State: tree.StateShared, EntityGroup: c.Group, EntityID: c.ID, EntityRow: &c.was.Row,
		LastSequence: c.was.Last,
	}
	return st.advance(row, st.records)
}

// take imports a piece.
func (st *step) take() error {
	row, err := st.target()
	if err != nil {
		return err
	}
	met := with(tree.Tally{}, st.piece.records)
	if st.tail != "" {
		met[st.tail]++
	}
	column := tree.New
	switch {
	case st.file.kept:
		st.part.CountAll(met, tree.Changed)
		return nil
	case row.State == tree.StateRefused:
		column = tree.Quarantine
		err = st.refuse(row)
	case st.file.changed:
		column = tree.Changed
		fallthrough
	default:
		err = st.add(row, column)
	}
	if err != nil {
		return err
	}
	st.part.CountAll(met, column)
	known, err := tree.ParseTally(row.Records)
	if err != nil {
		return err
	}
	return st.advance(row, with(known, st.piece.records))
}

// advance writes to the ledger how far the file has been read.
func (st *step) advance(row *tree.Row, records tree.Tally) error {
	row.Path, row.Size, row.Consumed = []byte(st.file.path), st.file.size, st.to
	row.PrefixSHA256, row.OpenLine, row.Tail = st.sum, st.openLine, st.piece.tail
	row.Records = records.String()
	return st.Source.Put(st.tx, row)
}

// target returns the ledger's row that the piece continues, or a new one if the piece begins a
// file.
func (st *step) target() (*tree.Row, error) {
	if st.from > 0 {
		return st.goOn()
	}
	known, err := st.putAway()
	if err != nil || st.file.kept {
		return nil, err
	}
	c, state, passed, err := st.decide()
	switch {
	case err != nil:
		return nil, err
	case state == tree.StateShared, state == tree.StateRefused && st.Alone: // its conflict was gone
		return nil, moved(c.Entity)
	case state == tree.StateRefused:
		st.part.Files.Refused++
		err = st.putAside(tree.WhatConflict, 0, title(c.Entity)+" is here already, from elsewhere and with other "+
			"records; import this tree into a scope of its own", &c.Entity, nil)
	case known:
		st.part.Files.Changed++
	default:
		st.part.Files.New++
	}
	if err == nil && passed != nil && state == tree.StateTaken {
		reason := fmt.Sprintf("its records name %s, which is here already, from %s; kept apart as %s",
			title(st.choices[0].Entity), tree.Shown(string(passed)), title(c.Entity))
		err = st.putAside(tree.WhatName, 0, reason, &st.choices[0].Entity, nil)
	}
	return &tree.Row{State: state, EntityGroup: c.Group, EntityID: c.ID}, err
}

// putAway prepares for reading a file from its beginning again. known reports whether records of
// the file were taken before. If the imported run was changed since, it stays as it is, and the
// file is not imported.
func (st *step) putAway() (known bool, err error) {
	st.file.kept, st.file.changed = false, false
	row, err := st.Source.File(&st.tx.Rx, st.file.path)
	switch {
	case err != nil || row == nil && st.Alone:
		return false, err
	case row == nil: // a stopped retry has left it in quarantine
		return false, st.Source.ReleaseFile(st.tx, st.file.path)
	}
	if row.State == tree.StateTaken {
		if untouched, err := st.untouched(row); err != nil || !untouched {
			return true, err
		}
		if err := usage.ForgetTrace(st.tx, *row.EntityRow); err != nil {
			return false, err
		}
		if err := removeRun(st.tx, *row.EntityRow); err != nil {
			return false, err
		}
		known = row.Consumed > 0 // else it held no whole line yet
		st.file.changed = known
	}
	if err := st.Source.ReleaseFile(st.tx, st.file.path); err != nil {
		return false, err
	}
	return known, st.Source.Forget(st.tx, st.file.path)
}

// untouched reports whether the run is as it was imported. If not, the run stays as it is, and the
// report notes it.
func (st *step) untouched(row *tree.Row) (bool, error) {
	s, ok, err := stateOf(&st.tx.Rx, st.Source.Scope, row.Entity())
	if err != nil || ok && row.EntityRow != nil && s == (stored{*row.EntityRow, row.LastSequence}) {
		return err == nil, err
	}
	st.file.kept = true
	st.part.Files.Changed++
	st.part.Differ(st.file.path, fmt.Sprintf("the file has changed, and %s was written to or removed here "+
		"since it was imported: ours stays", title(row.Entity())))
	return false, nil
}

// goOn checks that the file continues where the ledger left off.
func (st *step) goOn() (*tree.Row, error) {
	if st.file.kept && !st.opens {
		return nil, nil
	}
	st.file.kept = false
	row, err := st.Source.File(&st.tx.Rx, st.file.path)
	if err != nil {
		return nil, err
	}
	if row == nil || st.from != row.Consumed && (!row.OpenLine || st.from != row.Consumed+1) {
		return nil, fmt.Errorf("%w: another import of the same tree has moved on meanwhile; run the import again",
			db.ErrConflict)
	}
	if row.State == tree.StateTaken {
		_, err = st.untouched(row)
	}
	if err == nil && !st.file.kept && len(row.Tail) > 0 { // the tail is read again
		err = st.Source.Release(st.tx, st.file.path, row.Consumed, tree.WhatTail)
	}
	if err == nil && st.opens {
		err = st.countKnown(&st.tx.Rx)
	}
	switch {
	case err != nil || st.file.kept || !st.opens:
	case row.State == tree.StateRefused:
		st.part.Files.Refused++
	default:
		st.part.Files.Grown++
	}
	return row, err
}

// add appends the records to the store. A line that cannot be read goes into the trace as it is,
// and into quarantine. It was counted with the others of its kind, none of which can be read, so
// the count is corrected.
func (st *step) add(row *tree.Row, column func(*tree.Count) *int64) error {
	e := row.Entity()
	var was *stored
	if row.EntityRow != nil {
		was = &stored{*row.EntityRow, row.LastSequence}
	}
	s, err := importRecords(st.tx, st.Source.Scope, e, was, st.piece.records)
	if err != nil {
		return err
	}
	row.EntityRow, row.LastSequence = &s.Row, s.Last
	bad := func(what string, offset int64, reason string, raw []byte) error {
		st.part.Count(tree.Undecodable, func(c *tree.Count) { c.Quarantined++; *column(c)-- })
		return st.putAside(what, offset, reason, &e, raw)
	}
	for i := range st.piece.records {
		if rec := &st.piece.records[i]; rec.kind == lineUndecodable {
			if err := bad(tree.WhatLine, rec.offset, rec.err.Reason, rec.given); err != nil {
				return err
			}
		}
	}
	if st.torn() {
		if err := bad(tree.WhatTail, st.to, "a last line without line feed that can't be read, and may still grow",
			st.piece.tail); err != nil {
			return err
		}
	}
	if st.last && (st.Alone || st.Aside) { // refused once, and a retry may have been stopped in it
		return st.Source.Release(st.tx, st.file.path, 0, tree.WhatConflict)
	}
	return nil
}

// refuse adds the bytes of a refused file to its quarantine.
func (st *step) refuse(row *tree.Row) error {
	q, ok, err := st.Source.Quarantined(&st.tx.Rx, st.file.path, 0, tree.WhatConflict)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the refused file is not in quarantine", db.ErrCorrupt)
	}
	if err == nil && row.OpenLine && st.from > row.Consumed {
		err = tree.GrowQuarantine(st.tx, q.ID, newline)
	}
	if err == nil {
		err = tree.GrowQuarantine(st.tx, q.ID, bytes.Join([][]byte{st.raw, st.piece.tail}, nil))
	}
	return err
}

// decide determines which run the file is; see choose. passed is the path of the other file of the
// tree that holds the best id, or nil.
func (st *step) decide() (c choice, state string, passed []byte, err error) {
	var refused *choice
	for i := range st.choices {
		c = st.choices[i]
		v, now, by, err := standing(&st.tx.Rx, st.Tree, c.Entity)
		switch {
		case err != nil:
			return c, "", nil, err
		case v == verdictFree && refused == nil:
			return c, tree.StateTaken, passed, nil
		case v == verdictFree:
		case v == verdictSibling:
			if i == 0 {
				passed = by
			}
		case c.verdict == verdictSame && c.was == now:
			return c, tree.StateShared, nil, nil
		case c.verdict == verdictOther && c.was == now:
			if refused == nil {
				refused = &st.choices[i]
			}
		case refused == nil:
			return c, "", nil, moved(c.Entity)
		}
	}
	if refused != nil {
		return *refused, tree.StateRefused, nil, nil
	}
	return c, "", nil, fmt.Errorf("%w: every id that the file could have is taken", db.ErrConflict)
}

// moved is the error for a store that changed between the reader's query and the write.
func moved(e tree.Entity) error {
	return fmt.Errorf("%w: %s was written while it was being imported; run the import again", db.ErrConflict,
		title(e))
}

// with adds the records of a piece to a tally.
func with(t tree.Tally, records []record) tree.Tally {
	for i := range records {
		t[records[i].name()]++
	}
	return t
}

// releaseGone releases from quarantine what could not be read and is gone, and agents' folders that
// can be read again.
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
				if err := t.Source.Release(tx, string(path), 0, tree.WhatFile); err != nil {
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

// readableAgents returns those paths that are agents' folders whose files can be listed.
func readableAgents(root tree.Folder, paths [][]byte) (agents [][]byte) {
	for _, path := range paths {
		if !bytes.ContainsRune(path, '/') && root.List(string(path)) == nil {
			agents = append(agents, path)
		}
	}
	return agents
}
