package legacy

import (
	"bytes"
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/workers"
)

// take brings one runtime in. Most of a second import changes nothing, which a read finds out.
func (x *workersImport) take(ctx context.Context, t *runtimeTree) error {
	var row *ledgerRow
	err := x.d.Read(ctx, "look for changes of a tree", func(rx *db.Rx) (err error) {
		row, err = x.source.file(rx, t.path)
		return err
	})
	if err != nil {
		return err
	}
	part := newReport("", "", "")
	if row != nil && bytes.Equal(row.PrefixSHA256, t.sum) {
		err = x.d.Read(ctx, "look up a runtime", func(rx *db.Rx) error { return x.same(rx, t, row, &part) })
	} else {
		err = x.d.Write(ctx, "import workers", func(tx *db.Tx) error {
			part = newReport("", "", "")
			return x.bringIn(tx, t, &part)
		})
	}
	if err == nil {
		x.report.add(&part)
	}
	return err
}

func countTree(t *runtimeTree, part *Report) {
	part.Files.Found += t.files
	part.Files.Bytes += t.bytes
	if t.broken > 0 {
		part.count(kindUndecodable, func(c *Count) { c.Read += t.broken; c.Quarantined += t.broken })
	}
	for kind, n := range t.aside {
		part.count(kind, func(c *Count) { c.Read += n; c.Quarantined += n })
	}
	for _, path := range t.ignored {
		_ = part.ignore(path, "nothing of the runtime is read from it")
	}
}

// all counts the runtime's records in the column that each names.
func (t *runtimeTree) all(part *Report, each Count) {
	for kind, n := range t.records {
		part.count(kind, func(c *Count) {
			c.Read += n
			c.New += n * each.New
			c.Already += n * each.Already
			c.Changed += n * each.Changed
			c.Quarantined += n * each.Quarantined
		})
	}
}

// putAside puts what lies in a runtime's place into quarantine.
func (x *workersImport) putAside(ctx context.Context, f finding) error {
	var q Quarantined
	err := x.d.Write(ctx, "import workers", func(tx *db.Tx) (err error) {
		q, err = x.source.quarantine(tx, f)
		return err
	})
	if err == nil {
		x.report.quarantined(q)
	}
	return err
}

// same counts a runtime whose files are as they were.
func (x *workersImport) same(rx *db.Rx, t *runtimeTree, row *ledgerRow, part *Report) error {
	countTree(t, part)
	if row.State != stateRefused {
		part.Files.Already += t.files
		t.all(part, Count{Already: 1})
		return nil
	}
	part.Files.Refused += t.files
	t.all(part, Count{Quarantined: 1})
	q, ok, err := x.source.quarantined(rx, t.path, 0, whatConflict)
	if ok {
		part.quarantined(q)
	}
	return err
}

// bringIn takes a runtime that is new, or not as it was. It may run twice.
func (x *workersImport) bringIn(tx *db.Tx, t *runtimeTree, part *Report) error {
	countTree(t, part)
	row, err := x.source.file(&tx.Rx, t.path)
	if err != nil {
		return err
	}
	id := t.imported.RuntimeID
	key, next, pruned, there, err := workers.RowOf(&tx.Rx, x.scope, t.imported.RuntimeID)
	if err != nil {
		return err
	}
	if row != nil && row.State == stateTaken {
		if !there || *row.EntityRow != key || row.LastSequence != next || pruned {
			part.Files.Changed += t.files
			t.all(part, Count{Changed: 1})
			part.remark(&part.Differs, t.path, fmt.Sprintf("the folder has changed, and runtime %q was written to or removed here since it was imported: ours stays", id))
			return nil
		}
		return x.replace(tx, t, key, part)
	}
	if err := x.forget(tx, t.path); err != nil {
		return err
	}
	if !there {
		part.Files.New += t.files
		t.all(part, Count{New: 1})
		return x.add(tx, t, part)
	}
	ours, err := workers.ExportRuntime(&tx.Rx, key)
	if err != nil {
		return err
	}
	if d := compareRuntime(t, &ours); d.same() {
		part.Files.Already += t.files
		t.all(part, Count{Already: 1})
		if err := x.putAway(tx, t, part, (*finding).only); err != nil {
			return err
		}
		return x.note(tx, t, stateShared, &key, next)
	}
	return x.refuse(tx, t, part)
}

// replace takes a runtime again whose folder has changed since, and which nobody has touched here.
func (x *workersImport) replace(tx *db.Tx, t *runtimeTree, key int64, part *Report) error {
	ours, err := workers.ExportRuntime(&tx.Rx, key)
	if err != nil {
		return err
	}
	compareRuntime(t, &ours).count(part)
	if err := workers.RemoveImported(tx, key); err != nil {
		return err
	}
	if err := x.forget(tx, t.path); err != nil {
		return err
	}
	return x.add(tx, t, part)
}

func (x *workersImport) add(tx *db.Tx, t *runtimeTree, part *Report) error {
	key, err := workers.ImportRuntime(tx, x.scope, t.imported)
	if err != nil {
		return err
	}
	if err := x.putAway(tx, t, part, func(*finding) bool { return true }); err != nil {
		return err
	}
	_, next, _, _, err := workers.RowOf(&tx.Rx, x.scope, t.imported.RuntimeID)
	if err != nil {
		return err
	}
	return x.note(tx, t, stateTaken, &key, next)
}

// putAway puts what is wrong with a runtime's folder into quarantine.
func (x *workersImport) putAway(tx *db.Tx, t *runtimeTree, part *Report, which func(*finding) bool) error {
	for i := range t.findings {
		if !which(&t.findings[i]) {
			continue
		}
		if err := x.source.putAside(tx, part, t.findings[i]); err != nil {
			return err
		}
	}
	return nil
}

// refuse leaves a runtime where it is whose id is here from elsewhere: the row of the quarantine names it, the folder keeps
// it.
func (x *workersImport) refuse(tx *db.Tx, t *runtimeTree, part *Report) error {
	part.Files.Refused += t.files
	t.all(part, Count{Quarantined: 1})
	err := x.source.putAside(tx, part, finding{
		path: t.path, what: whatConflict, whose: &entity{group: t.imported.RuntimeID}, reason: fmt.Sprintf(
			"runtime %q is here already, from elsewhere and with other contents; import this tree into a scope of its own", t.imported.RuntimeID),
	})
	if err != nil {
		return err
	}
	return x.note(tx, t, stateRefused, nil, 0)
}

// note writes the runtime's row of the ledger. Its bytes are not counted as consumed: they lie in many files, of which the
// hash speaks.
func (x *workersImport) note(tx *db.Tx, t *runtimeTree, state string, row *int64, next int64) error {
	return x.source.put(tx, &ledgerRow{
		Path: []byte(t.path), State: state, EntityGroup: t.imported.RuntimeID, EntityRow: row, LastSequence: next,
		Size: t.bytes, PrefixSHA256: t.sum, Records: t.records.String(),
	})
}

// sqlReleaseBelow ends at the character behind '/'.
const sqlReleaseBelow = `DELETE FROM quarantine WHERE source = ? AND (path = ? OR path > ? AND path < ?)`

// forget takes out what was said about a runtime's folder.
func (x *workersImport) forget(tx *db.Tx, path string) error {
	if _, err := tx.Exec(sqlReleaseBelow, x.source.id, []byte(path), []byte(path+"/"), []byte(path+"0")); err != nil {
		return err
	}
	return x.source.forget(tx, path)
}
