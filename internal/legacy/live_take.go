package legacy

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"selvedge/db"
	"selvedge/internal/live"
)

const (
	kindRun   = "run"
	kindEvent = "event"
)

// countRun counts a run and its events in one of the report's columns.
func countRun(part *Report, events int, column func(*Count) *int64) {
	part.count(kindRun, func(c *Count) {
		c.Read++
		*column(c)++
	})
	if events > 0 {
		part.count(kindEvent, func(c *Count) {
			c.Read += int64(events)
			*column(c) += int64(events)
		})
	}
}

func countBad(part *Report) {
	part.count(kindUndecodable, func(c *Count) {
		c.Read++
		c.Quarantined++
	})
}

// take brings one file in. Most of a second import changes nothing, which a read finds out.
func (x *liveImport) take(ctx context.Context, f *liveFile) error {
	known, part := false, newReport("", "", "")
	err := x.d.Read(ctx, "look for changes of a tree", func(rx *db.Rx) (err error) {
		part = newReport("", "", "")
		known, err = x.same(rx, f, &part)
		return err
	})
	if err == nil && !known {
		f.parse()
		err = x.d.Write(ctx, "import live", func(tx *db.Tx) error {
			part = newReport("", "", "")
			b := liveBatch{x, tx, f, &part}
			return b.file()
		})
	}
	if err == nil {
		x.report.add(&part)
	}
	return err
}

// same counts a file that is as it was, and names again what could not be taken of it.
func (x *liveImport) same(rx *db.Rx, f *liveFile, part *Report) (bool, error) {
	if f.reason != "" {
		return false, nil
	}
	row, err := x.source.file(rx, f.path)
	if err != nil || row == nil || !bytes.Equal(row.PrefixSHA256, f.sum) {
		return false, err
	}
	part.Files.Found++
	part.Files.Already++
	part.Files.Bytes += int64(len(f.text))
	var rows []quarantineRow
	if err := rx.Select(&rows, quarantineColumns+`WHERE q.source = ? AND q.path = ? ORDER BY q.id`, x.source.id, row.Path); err != nil {
		return false, err
	}
	for i := range rows {
		part.quarantined(rows[i].public())
	}
	known, err := parseTally(row.Records)
	for name, n := range known {
		kind, refused := strings.CutSuffix(name, refusedSuffix)
		part.count(kind, func(c *Count) {
			c.Read += n
			if refused || kind == kindUndecodable {
				c.Quarantined += n
			} else {
				c.Already += n
			}
		})
	}
	return true, err
}

// A liveBatch is one file in one transaction. It may run twice: what it counts goes into a report of its own.
type liveBatch struct {
	*liveImport
	tx   *db.Tx
	f    *liveFile
	part *Report
}

func (b *liveBatch) file() error {
	f := b.f
	b.part.Files.Found++
	b.part.Files.Bytes += int64(len(f.text))
	row, err := b.source.file(&b.tx.Rx, f.path)
	if err != nil {
		return err
	}
	if err := b.source.releaseFile(b.tx, f.path); err != nil {
		return err
	}
	if f.reason != "" {
		b.part.Files.Unreadable++
		return b.aside(finding{what: whatFile, reason: f.reason})
	}
	records := tally{}
	for i := range f.elements {
		taken, err := b.element(i)
		if err != nil {
			return err
		}
		suffix := refusedSuffix
		if taken {
			suffix = ""
		}
		switch n := int64(len(f.elements[i].Record.Events)); {
		case f.elements[i].Reason != "":
			records[kindUndecodable]++
		case n > 0:
			records[kindEvent+suffix] += n
			fallthrough
		default:
			records[kindRun+suffix]++
		}
	}
	if d := f.damage; d != nil {
		b.part.Files.Unreadable++
		if len(d.Text) > 0 || len(f.elements) == 0 {
			countBad(b.part)
			records[kindUndecodable]++
		}
		what := whatTail
		if d.Offset == 0 {
			what = whatFile
		}
		if err := b.aside(finding{what: what, offset: int64(d.Offset), reason: d.Reason, raw: d.Text}); err != nil {
			return err
		}
	} else if row == nil {
		b.part.Files.New++
	} else {
		b.part.Files.Changed++
	}
	// The runs have their places in live_imports: this row is the file's.
	return b.source.put(b.tx, &ledgerRow{
		Path: []byte(f.path), State: stateTaken, EntityID: shown(f.path), EntityRow: &b.source.id,
		Size: int64(len(f.text)), Consumed: int64(len(f.text)), PrefixSHA256: f.sum, Records: records.String(),
	})
}

// aside puts bytes of the file into quarantine.
func (b *liveBatch) aside(f finding) error {
	f.path = b.f.path
	return b.source.putAside(b.tx, b.part, f)
}

// refusedSuffix is how the ledger's counts tell records that are in quarantine.
const refusedSuffix = "_refused"

// element takes one record of the file; taken is false when it went into quarantine.
func (b *liveBatch) element(i int) (taken bool, err error) {
	e := &b.f.elements[i]
	if e.Reason != "" {
		countBad(b.part)
		return false, b.aside(finding{what: whatLine, offset: int64(e.Offset), reason: e.Reason, raw: e.Text})
	}
	id := e.Record.Snapshot.ID
	if b.f.superseded(i) {
		return false, b.refuse(e, "has a later record in the same file, which the original takes")
	}
	ours, found, err := b.store.FindImported(&b.tx.Rx, id)
	from := live.Origin{Source: b.source.id, Path: []byte(b.f.path), Position: i}
	switch {
	case err != nil:
		return false, err
	case !found:
		countRun(b.part, len(e.Record.Events), inNew)
		return true, b.store.ImportRun(b.tx, e, from)
	case ours.Source != from.Source || !bytes.Equal(ours.Path, from.Path):
		same, err := b.store.Holds(&b.tx.Rx, ours.Key, e)
		if err != nil {
			return false, err
		}
		if !same {
			return false, b.refuse(e, "is here already, from elsewhere and with other contents; import this tree into a scope of its own")
		}
		countRun(b.part, len(e.Record.Events), inAlready)
		return true, nil
	case bytes.Equal(ours.Digest, sumOf(e.Text)):
		countRun(b.part, len(e.Record.Events), inAlready)
		return true, b.store.SetPosition(b.tx, ours.Key, i)
	}
	countRun(b.part, len(e.Record.Events), inChanged)
	if ours.Touched {
		b.part.remark(&b.part.Differs, b.f.path, fmt.Sprintf("run %q has changed, and was written to here since it was imported: ours stays", id))
		return true, nil
	}
	if err := b.store.RemoveImported(b.tx, ours.Key); err != nil {
		return false, err
	}
	return true, b.store.ImportRun(b.tx, e, from)
}

func (b *liveBatch) refuse(e *live.FileElement, reason string) error {
	id := e.Record.Snapshot.ID
	countRun(b.part, len(e.Record.Events), inQuarantined)
	return b.aside(finding{
		what: whatConflict, offset: int64(e.Offset), reason: fmt.Sprintf("run %q %s", id, reason), raw: e.Text,
		whose: &entity{group: e.Record.Snapshot.SessionID, id: id},
	})
}

// superseded reports whether a later record of the file has the same id.
func (f *liveFile) superseded(i int) bool {
	for _, later := range f.elements[i+1:] {
		if later.Reason == "" && later.Record.Snapshot.ID == f.elements[i].Record.Snapshot.ID {
			return true
		}
	}
	return false
}

// verify compares one file, record by record.
func (x *liveImport) verify(ctx context.Context, f *liveFile) error {
	r := &x.report
	r.Files.Found++
	r.Files.Bytes += int64(len(f.text))
	if f.reason != "" {
		r.Files.Unreadable++
		r.remark(&r.Differs, f.path, f.reason)
		return nil
	}
	f.parse()
	differ := len(r.Differs)
	err := x.d.Read(ctx, "verify live", func(rx *db.Rx) error {
		for i := range f.elements {
			if err := x.compare(rx, f, i); err != nil {
				return err
			}
		}
		return nil
	})
	if d := f.damage; d != nil {
		r.Files.Unreadable++
		if len(d.Text) > 0 || len(f.elements) == 0 {
			countBad(r)
		}
		r.remark(&r.Differs, f.path, d.String())
		return err
	}
	if len(r.Differs) > differ {
		r.Files.Changed++
	} else {
		r.Files.Already++
	}
	return err
}

func (x *liveImport) compare(rx *db.Rx, f *liveFile, i int) error {
	e, r := &f.elements[i], &x.report
	differs := func(reason string) { r.remark(&r.Differs, f.path, reason) }
	if e.Reason != "" {
		countBad(r)
		differs(fmt.Sprintf("offset %d: %s", e.Offset, e.Reason))
		return nil
	}
	id, n := e.Record.Snapshot.ID, len(e.Record.Events)
	if f.superseded(i) {
		countRun(r, n, inQuarantined)
		differs(fmt.Sprintf("run %q has a later record in the same file", id))
		return nil
	}
	ours, found, err := x.store.FindImported(rx, id)
	if err != nil {
		return err
	}
	if !found {
		countRun(r, n, inNew)
		differs(fmt.Sprintf("run %q is not here", id))
		return nil
	}
	same, err := x.store.Holds(rx, ours.Key, e)
	switch {
	case err != nil:
		return err
	case same:
		countRun(r, n, inAlready)
	case ours.Source != x.source.id || string(ours.Path) != f.path:
		countRun(r, n, inQuarantined)
		differs(fmt.Sprintf("run %q is here from elsewhere and with other contents", id))
	default:
		countRun(r, n, inChanged)
		reason := "has changed since it was imported"
		if ours.Touched {
			reason = "was written to here since it was imported"
		}
		differs(fmt.Sprintf("run %q %s", id, reason))
	}
	return nil
}
