package legacy

import (
	"bytes"
	"errors"
	"fmt"

	"selvedge/db"
)

// A documentBatch is one transaction of an import of documents. It may run twice: what it counts goes into a report of
// its own.
type documentBatch struct {
	*documentImport
	tx   *db.Tx
	part *Report
}

// whole marks a thing that is one document in the ledger, where a trace has the sequence of its last line.
const whole = 0

// file takes one file.
func (b *documentBatch) file(f *documentFile) error {
	countFile(b.part, f)
	row, err := b.source.file(&b.tx.Rx, f.path)
	switch {
	case err != nil:
		return err
	case f.reason != "":
		return b.undecodable(f, row)
	case row != nil && bytes.Equal(row.PrefixSHA256, f.sum):
		return b.same(f, row)
	case row == nil:
		return b.take(f, false)
	}
	return b.changed(f, row)
}

// add counts the document in one of the report's columns.
func (b *documentBatch) add(f *documentFile, column func(*Count) *int64) {
	b.part.count(f.noun(b.layout), func(c *Count) {
		c.Read++
		*column(c)++
	})
}

func inNew(c *Count) *int64         { return &c.New }
func inAlready(c *Count) *int64     { return &c.Already }
func inChanged(c *Count) *int64     { return &c.Changed }
func inQuarantined(c *Count) *int64 { return &c.Quarantined }

// undecodable puts a file that is no document into quarantine, with its bytes. What was taken from it earlier stays: a
// damaged source is no reason to lose it.
func (b *documentBatch) undecodable(f *documentFile, row *ledgerRow) error {
	if f.unread {
		b.part.Files.Unreadable++
	} else {
		b.add(f, inQuarantined)
	}
	if row != nil {
		b.part.remark(&b.part.Differs, f.path, "the file was a document when it was imported, which stays: "+f.reason)
	}
	q, there, err := b.source.quarantined(&b.tx.Rx, f.path, 0, whatFile)
	if err == nil && there && (q.Reason != f.reason || q.Bytes != int64(len(f.text))) {
		there, err = false, b.source.release(b.tx, f.path, 0, whatFile)
	}
	if err == nil && !there {
		q, err = b.source.quarantine(b.tx, finding{path: f.path, what: whatFile, reason: f.reason, raw: f.text})
	}
	b.part.quarantined(q)
	return err
}

// same counts a file that is as it was.
func (b *documentBatch) same(f *documentFile, row *ledgerRow) error {
	if row.State != stateRefused {
		b.part.Files.Already++
		b.add(f, inAlready)
		return b.source.release(b.tx, f.path, 0, whatFile)
	}
	b.part.Files.Refused++
	b.add(f, inQuarantined)
	q, ok, err := b.source.quarantined(&b.tx.Rx, f.path, 0, whatConflict)
	if ok {
		b.part.quarantined(q)
	}
	return err
}

// changed takes a file that differs from what was imported, unless ours was touched since.
func (b *documentBatch) changed(f *documentFile, row *ledgerRow) error {
	known := row.State == stateTaken
	if known {
		untouched, err := b.untouched(row)
		if err != nil {
			return err
		}
		if !untouched {
			b.part.Files.Changed++
			b.add(f, inChanged)
			b.part.remark(&b.part.Differs, f.path, fmt.Sprintf(
				"the file has changed, and %s was written to or removed here since it was imported: ours stays", b.layout.title(row.entity())))
			return nil
		}
		if err := b.store.remove(b.tx, *row.EntityRow); err != nil {
			return err
		}
	}
	if err := b.source.forget(b.tx, f.path); err != nil {
		return err
	}
	return b.take(f, known)
}

// untouched reports whether what the file became is still what was imported.
func (b *documentBatch) untouched(row *ledgerRow) (bool, error) {
	text, ok, err := b.store.text(&b.tx.Rx, *row.EntityRow)
	return ok && bytes.Equal(sumOf(text), row.PrefixSHA256), err
}

// take finds out what the file is, by the rules of choose, and adds it.
func (b *documentBatch) take(f *documentFile, known bool) error {
	if err := b.source.releaseFile(b.tx, f.path); err != nil {
		return err
	}
	for _, e := range b.layout.identities(f.path, f.value, b.claimed) {
		row, taken, err := b.store.row(&b.tx.Rx, e)
		if err != nil {
			return err
		}
		if !taken {
			return b.put(f, e, known)
		}
		held, ok, err := b.source.holder(&b.tx.Rx, e, row)
		if err != nil {
			return err
		}
		if ok && held.Source == b.source.id {
			continue
		}
		text, _, err := b.store.text(&b.tx.Rx, row)
		if err != nil {
			return err
		}
		if bytes.Equal(text, f.text) {
			b.part.Files.Already++
			b.add(f, inAlready)
			return b.note(f, e, stateShared, &row)
		}
		return b.refuse(f, e, "is here already, from elsewhere and with other contents; import this tree into a scope of its own")
	}
	return b.refuse(f, b.layout.own(f.value), "is what another file of the tree became")
}

func (b *documentBatch) put(f *documentFile, e entity, known bool) error {
	row, err := b.store.put(b.tx, e, f.value, f.text)
	if errors.Is(err, db.ErrInvalid) {
		f.reason = err.Error()
		return b.undecodable(f, nil)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", shown(f.path), err)
	}
	column := inNew
	if known {
		b.part.Files.Changed++
		column = inChanged
	} else {
		b.part.Files.New++
	}
	if f.flaw != "" {
		column = inQuarantined
		if err := b.source.putAside(b.tx, b.part, finding{path: f.path, what: whatLine, reason: f.flaw, whose: &e, raw: f.text}); err != nil {
			return err
		}
	}
	b.add(f, column)
	if own := b.layout.own(f.value); own != e {
		err := b.source.putAside(b.tx, b.part, finding{
			path: f.path, what: whatName, whose: &own,
			reason: fmt.Sprintf("it says that it is %s, which belongs into another file; kept as %s", b.layout.title(own), b.layout.title(e)),
		})
		if err != nil {
			return err
		}
	}
	return b.note(f, e, stateTaken, &row)
}

// refuse puts a document that can't be taken under any id into quarantine, with its bytes.
func (b *documentBatch) refuse(f *documentFile, e entity, reason string) error {
	b.part.Files.Refused++
	b.add(f, inQuarantined)
	err := b.source.putAside(b.tx, b.part, finding{
		path: f.path, what: whatConflict, reason: b.layout.title(e) + " " + reason, whose: &e, raw: f.text,
	})
	if err != nil {
		return err
	}
	return b.note(f, e, stateRefused, nil)
}

// note writes the file's row of the ledger.
func (b *documentBatch) note(f *documentFile, e entity, state string, row *int64) error {
	return b.source.put(b.tx, &ledgerRow{
		Path: []byte(f.path), State: state, EntityGroup: e.group, EntityID: e.id, EntityRow: row, LastSequence: whole,
		Size: int64(len(f.text)), Consumed: int64(len(f.text)), PrefixSHA256: f.sum, Records: tally{f.noun(b.layout): 1}.String(),
	})
}
