package legacy

import (
	"bytes"
	"fmt"

	"selvedge/db"
)

// A batch is the writing half of an import for one transaction. It may run twice: what it counts goes into a report of
// its own, and what it decides about a file is decided again from the ledger.
type batch struct {
	*importer
	tx   *db.Tx // nil for a batch that changes nothing
	part Report
}

func (b *batch) apply(st *step) error {
	if st.kind == stepIgnored {
		return b.part.ignore(st.file.path, st.reason)
	}
	if st.kind == stepUnread {
		return b.unreadable(st)
	}
	if st.opens {
		b.part.Files.Found++
		b.part.Files.Bytes += st.file.size
	}
	if b.unread && b.tx != nil && st.opens {
		if err := b.source.releaseUnread(b.tx, st.file.path); err != nil {
			return err
		}
	}
	if st.kind == stepSame {
		return b.same(st)
	}
	if st.kind == stepShared {
		return b.shared(st)
	}
	return b.piece(st)
}

func (b *batch) unreadable(st *step) error {
	if st.opens {
		b.part.Files.Found++
	}
	b.part.Files.Unreadable++
	return b.source.putAside(b.tx, &b.part, finding{path: st.file.path, what: whatFile, reason: st.reason})
}

// same counts a file that is as it was.
func (b *batch) same(st *step) error {
	if st.row.State == stateRefused {
		q, ok, err := b.source.quarantined(&b.tx.Rx, st.file.path, 0, whatConflict)
		if err != nil {
			return err
		}
		if ok {
			b.part.quarantined(q)
		}
		b.part.Files.Refused++
	} else {
		b.part.Files.Already++
	}
	return b.countKnown(st)
}

// countKnown counts the records that the ledger says were there before.
func (b *batch) countKnown(st *step) error {
	known, err := parseTally(st.row.Records)
	if err != nil {
		return err
	}
	if st.kind == stepSame && st.tail != "" {
		known[st.tail]++
	}
	b.countAll(known, func(c *Count) *int64 {
		if st.row.State == stateRefused {
			return &c.Quarantined
		}
		return &c.Already
	})
	return nil
}

func (b *batch) countAll(t tally, of func(*Count) *int64) {
	for kind, n := range t {
		b.part.count(kind, func(c *Count) {
			c.Read += n
			*of(c) += n
		})
	}
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
	if state != stateShared {
		return b.moved(c.entity)
	}
	records := st.records
	if st.tail != "" {
		records = tally{st.tail: 1}
		for kind, n := range st.records {
			records[kind] += n
		}
	}
	b.countAll(records, func(c *Count) *int64 { return &c.Already })
	b.part.Files.Already++
	row := &ledgerRow{State: stateShared, EntityGroup: c.group, EntityID: c.id, EntityRow: &c.was.row, LastSequence: c.was.last}
	return b.advance(st, row, st.records)
}

// piece takes records.
func (b *batch) piece(st *step) error {
	row, err := b.target(st)
	if err != nil {
		return err
	}
	if st.file.kept {
		b.countAll(b.met(st), func(c *Count) *int64 { return &c.Changed })
		return nil
	}
	known, err := parseTally(row.Records)
	if err != nil {
		return err
	}
	if row.State == stateRefused {
		err = b.setAside(st, row)
	} else {
		err = b.take(st, row)
	}
	if err != nil {
		return err
	}
	return b.advance(st, row, known.with(st.piece.records))
}

// met is what the piece holds, a torn tail too.
func (b *batch) met(st *step) tally {
	t := tally{}.with(st.piece.records)
	if st.tail != "" {
		t[st.tail]++
	}
	return t
}

// advance writes how far the file is read.
func (b *batch) advance(st *step, row *ledgerRow, records tally) error {
	row.Path, row.Size, row.Consumed = []byte(st.file.path), st.file.size, st.to
	row.PrefixSHA256, row.OpenLine, row.Tail = st.sum, st.openLine, st.piece.tail
	row.Records = records.String()
	return b.source.put(b.tx, row)
}

// target is the ledger's row that the piece goes on, or a new one for a piece that begins a file.
func (b *batch) target(st *step) (*ledgerRow, error) {
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
	row := &ledgerRow{State: state, EntityGroup: c.group, EntityID: c.id}
	switch {
	case state == stateShared:
		return nil, b.moved(c.entity)
	case state == stateRefused:
		b.part.Files.Refused++
		reason := fmt.Sprintf("%s is here already, from elsewhere and with other records; import this tree into a scope of its own", b.layout.title(c.entity))
		if err := b.source.putAside(b.tx, &b.part, finding{path: st.file.path, what: whatConflict, reason: reason, whose: &c.entity}); err != nil {
			return nil, err
		}
	case known:
		b.part.Files.Changed++
	default:
		b.part.Files.New++
	}
	if passed != nil && state == stateTaken {
		reason := fmt.Sprintf("its records name %s, which is here already, from %s; kept apart as %s", b.layout.title(passed.wanted), shown(string(passed.by)), b.layout.title(c.entity))
		if err := b.source.putAside(b.tx, &b.part, finding{path: st.file.path, what: whatName, reason: reason, whose: &passed.wanted}); err != nil {
			return nil, err
		}
	}
	return row, nil
}

// putAway makes room for a file that is read from its beginning again. It reports whether records of the file had been
// taken before; where ours was touched since, they stay and the file is kept out.
func (b *batch) putAway(st *step) (known bool, err error) {
	st.file.kept, st.file.changed = false, false
	row, err := b.source.file(&b.tx.Rx, st.file.path)
	if err != nil || row == nil {
		return false, err
	}
	if row.State == stateTaken {
		untouched, err := b.untouched(row)
		if err != nil {
			return false, err
		}
		if !untouched {
			b.keep(st, row)
			return true, nil
		}
		if err := b.store.remove(b.tx, row.entity()); err != nil {
			return false, err
		}
		known = row.Consumed > 0 // else it held no whole line yet
		st.file.changed = known
	}
	if err := b.source.releaseFile(b.tx, st.file.path); err != nil {
		return false, err
	}
	return known, b.source.forget(b.tx, st.file.path)
}

// keep leaves ours as it is, and says so.
func (b *batch) keep(st *step, row *ledgerRow) {
	st.file.kept = true
	b.part.Files.Changed++
	b.part.remark(&b.part.Differs, st.file.path, fmt.Sprintf("the file has changed, and %s was written to or removed here since it was imported: ours stays", b.layout.title(row.entity())))
}

func (b *batch) untouched(row *ledgerRow) (bool, error) {
	s, ok, err := b.store.state(&b.tx.Rx, row.entity())
	return ok && row.holds(s) && s.last == row.LastSequence, err
}

// goOn checks that the file goes on where the ledger says that it was left.
func (b *batch) goOn(st *step) (*ledgerRow, error) {
	if st.file.kept && !st.opens {
		return nil, nil
	}
	st.file.kept = false
	row, err := b.source.file(&b.tx.Rx, st.file.path)
	if err != nil {
		return nil, err
	}
	if row == nil || st.from != row.Consumed && (!row.OpenLine || st.from != row.Consumed+1) {
		return nil, fmt.Errorf("%w: another import of the same tree has moved on meanwhile; run the import again", db.ErrConflict)
	}
	if st.opens {
		if err := b.countKnown(st); err != nil {
			return nil, err
		}
	}
	if row.State == stateTaken {
		untouched, err := b.untouched(row)
		if err != nil {
			return nil, err
		}
		if !untouched {
			b.keep(st, row)
			return nil, nil
		}
	}
	if st.opens && row.State == stateRefused {
		b.part.Files.Refused++
	} else if st.opens {
		b.part.Files.Grown++
	}
	if len(row.Tail) > 0 {
		err = b.source.release(b.tx, st.file.path, row.Consumed, whatTail)
	}
	return row, err
}

// take appends the records to the store. A line that can't be read goes into the trace as it is, and into quarantine.
func (b *batch) take(st *step, row *ledgerRow) error {
	e := row.entity()
	s, err := b.store.append(b.tx, e, st.piece.records)
	if err != nil {
		return err
	}
	row.EntityRow, row.LastSequence = &s.row, s.last
	for i := range st.piece.records {
		if rec := &st.piece.records[i]; rec.reason != "" {
			if err := b.bad(st, e, rec.offset, whatLine, rec.reason, rec.text); err != nil {
				return err
			}
		}
	}
	if st.tail != "" && st.tail != kindBlank {
		if err := b.bad(st, e, st.to, whatTail, "a last line without line feed that can't be read, and may still grow", st.piece.tail); err != nil {
			return err
		}
	}
	b.countAll(b.met(st), func(c *Count) *int64 {
		if st.file.changed {
			return &c.Changed
		}
		return &c.New
	})
	return nil
}

// bad quarantines a line. It was counted with the others of its kind, all of which are bad: the count is corrected.
func (b *batch) bad(st *step, e entity, offset int64, what, reason string, raw []byte) error {
	err := b.source.putAside(b.tx, &b.part, finding{path: st.file.path, offset: offset, what: what, reason: reason, whose: &e, raw: raw})
	if err != nil {
		return err
	}
	b.part.count(kindUndecodable, func(c *Count) {
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
func (b *batch) setAside(st *step, row *ledgerRow) error {
	q, ok, err := b.source.quarantined(&b.tx.Rx, st.file.path, 0, whatConflict)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the refused file is not in quarantine", db.ErrCorrupt)
	}
	if err == nil && row.OpenLine && st.from > row.Consumed {
		err = growQuarantine(b.tx, q.ID, newline)
	}
	if err == nil {
		err = growQuarantine(b.tx, q.ID, bytes.Join([][]byte{st.raw, st.piece.tail}, nil))
	}
	b.countAll(b.met(st), func(c *Count) *int64 { return &c.Quarantined })
	return err
}

// passedOver is the best id of a file that another file of the tree holds.
type passedOver struct {
	wanted entity
	by     []byte
}

// decide finds out what the file is; see choose.
func (b *batch) decide(st *step) (c choice, state string, passed *passedOver, err error) {
	var refused *choice
	for i := range st.choices {
		c = st.choices[i]
		v, now, by, err := b.standing(&b.tx.Rx, c.entity)
		switch {
		case err != nil:
			return c, "", nil, err
		case v == verdictFree && refused == nil:
			return c, stateTaken, passed, nil
		case v == verdictFree:
		case v == verdictSibling:
			if passed == nil && i == 0 {
				passed = &passedOver{c.entity, by}
			}
		case c.verdict == verdictSame && c.was == now:
			return c, stateShared, nil, nil
		case c.verdict == verdictOther && c.was == now:
			if refused == nil {
				refused = &st.choices[i]
			}
		case refused == nil:
			return c, "", nil, b.moved(c.entity)
		}
	}
	if refused != nil {
		return *refused, stateRefused, nil, nil
	}
	return c, "", nil, fmt.Errorf("%w: every id that the file could have is taken", db.ErrConflict)
}

// moved is the error where the store changed between the look at it and the write.
func (b *batch) moved(e entity) error {
	return fmt.Errorf("%w: %s was written while it was being imported; run the import again", db.ErrConflict, b.layout.title(e))
}
