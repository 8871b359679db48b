package live

import (
	"bytes"
	"fmt"
	"strings"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/internal/usage"
)

const (
	kindRun   = "run"
	kindEvent = "event"
)

// tallyOf counts a record and its events by kind.
func tallyOf(e *fileElement) tree.Tally {
	t := tree.Tally{kindRun: 1}
	if n := int64(len(e.Record.Events)); n > 0 {
		t[kindEvent] = n
	}
	return t
}

func (f *file) Path() string { return f.path }

func (f *file) Held() int { return len(f.text) }

func (f *file) Progress() (files, bytes int64) { return 1, int64(len(f.text)) }

// Take imports the file.
func (f *file) Take(tx *db.Tx, part *tree.Part) error {
	f.parse()
	b := &taking{file: f, tx: tx, part: part, counts: tree.Tally{}}
	row, err := f.Source.File(&tx.Rx, f.path)
	switch {
	case err != nil:
		return err
	case f.reason != "": // what the quarantine has of it stays
		part.Files.Found++
		part.Files.Unreadable++
		return b.aside(tree.WhatFile, 0, f.reason, nil)
	case f.retried:
		return b.all(nil)
	case !f.asItWas(row):
		return b.all(row)
	}
	stale, err := f.wasUnread(&tx.Rx)
	if err == nil && stale {
		err = f.Source.Release(tx, f.path, 0, tree.WhatFile)
	}
	if err != nil {
		return err
	}
	return f.again(&tx.Rx, row, part)
}

// Prefetch names the queries about the file and the runs in it.
func (f *file) Prefetch(prefetcher *tree.Prefetcher) error {
	prefetcher.File(f.path)
	prefetcher.Ask(sqlScopeOfFile, f.Source.ID, []byte(f.path))
	prefetcher.Aside(f.Tree, f.path)
	if !prefetcher.Taken() {
		return nil
	}
	if f.reason != "" {
		prefetcher.ExpectAside(1)
		return nil
	}
	f.parse()
	if f.damage != nil {
		prefetcher.ExpectAside(1)
	}
	scope, known, err := prefetcher.Rx.Store().Scope(f.Scope)
	if err != nil {
		return err
	}
	asked := map[string]struct{}{}
	for i := range f.elements {
		if f.elements[i].Reason != "" {
			prefetcher.ExpectAside(1)
			continue
		}
		id := f.elements[i].Record.Snapshot.ID
		if _, ok := asked[id]; ok {
			prefetcher.ExpectAside(1) // a later record replaces it
			continue
		}
		asked[id] = struct{}{}
		prefetcher.About("run " + id)
		prefetcher.Expect("live_runs", 1)
		if known {
			prefetcher.Ask(sqlFindImported, scope, id)
		}
	}
	return nil
}

// Known counts an unchanged file.
func (f *file) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	row, err := f.Source.File(rx, f.path)
	if err != nil || !f.asItWas(row) {
		return false, err
	}
	if stale, err := f.wasUnread(rx); err != nil || stale {
		return false, err
	}
	return true, f.again(rx, row, part)
}

// asItWas reports whether the file is as it was imported, by the ledger's row.
func (f *file) asItWas(row *tree.Row) bool {
	return f.reason == "" && row != nil && bytes.Equal(row.PrefixSHA256, f.sum)
}

// wasUnread reports whether an unchanged file that can be read is in quarantine as unreadable,
// since it could not be read once.
func (f *file) wasUnread(rx *db.Rx) (bool, error) {
	if !f.Unread {
		return false, nil
	}
	q, ok, err := f.Source.Quarantined(rx, f.path, 0, tree.WhatFile)
	if err != nil || !ok {
		return false, err
	}
	f.parse()
	return f.damage == nil || f.damage.Offset > 0 || f.damage.Reason != q.Reason, nil
}

// again counts an unchanged file, and reports again what could not be imported of it.
func (f *file) again(rx *db.Rx, row *tree.Row, part *tree.Part) error {
	part.Files.Found++
	part.Files.Already++
	part.Files.Bytes += int64(len(f.text))
	var scope string
	found, err := rx.Find(&scope, sqlScopeOfFile, f.Source.ID, []byte(f.path))
	if err != nil {
		return err
	}
	if found && scope != f.Scope {
		part.KeepApart(f.path, scope)
	}
	known, err := tree.ParseTally(row.Records)
	for name, n := range known {
		kind, refused := strings.CutSuffix(name, refusedSuffix)
		column := tree.Already
		if refused || kind == tree.Undecodable {
			column = tree.Quarantine
		}
		part.CountAll(tree.Tally{kind: n}, column)
	}
	if err != nil {
		return err
	}
	return f.NameAside(rx, f.path, known[tree.Undecodable], part)
}

// A taking is the import of one file in one transaction.
type taking struct {
	*file
	tx   *db.Tx
	part *tree.Part
	kept bool // a run changed in the file and here, and stays as it is here

	counts tree.Tally // for the ledger
}

// count counts records in a column of the report and for the ledger.
func (b *taking) count(met tree.Tally, column func(*tree.Count) *int64, suffix string) {
	b.part.CountAll(met, column)
	for kind, n := range met {
		b.counts[kind+suffix] += n
	}
}

func (b *taking) countBad() { b.count(tree.Tally{tree.Undecodable: 1}, tree.Quarantine, "") }

// all imports a file that is new, or differs from row.
func (b *taking) all(row *tree.Row) error {
	f := b.file
	b.part.Files.Found++
	b.part.Files.Bytes += int64(len(f.text))
	if err := b.ReleasePrefetched(b.tx, f.path); err != nil {
		return err
	}
	if err := f.inScope(&b.tx.Rx); err != nil {
		return err
	}
	if f.scope != f.Scope {
		b.part.KeepApart(f.path, f.scope)
	}
	if err := b.tx.Store().Queue(sqlForgetCopies, f.Source.ID, []byte(f.path)); err != nil {
		return err
	}
	for i := range f.elements {
		if err := b.element(i); err != nil {
			return err
		}
	}
	if d := f.damage; d != nil {
		b.part.Files.Unreadable++
		if len(d.Text) > 0 || len(f.elements) == 0 {
			b.countBad()
		}
		what := tree.WhatTail
		if d.Offset == 0 {
			what = tree.WhatFile
		}
		if err := b.aside(what, d.Offset, d.Reason, d.Text); err != nil {
			return err
		}
	} else if row == nil {
		b.part.Files.New++
	} else {
		b.part.Files.Changed++
	}
	if b.kept && row != nil {
		return nil // so that the next import reports it again
	}
	// live_imports holds the places of the runs; this row is that of the file.
	return b.Source.Put(b.tx, &tree.Row{
		Path: []byte(f.path), State: tree.StateTaken, EntityID: tree.Shown(f.path), EntityRow: &b.Source.ID,
		Size: int64(len(f.text)), Consumed: int64(len(f.text)), PrefixSHA256: f.sum, Records: b.counts.String(),
	})
}

// aside puts bytes of the file into quarantine.
func (b *taking) aside(what string, offset int, reason string, raw []byte) error {
	return b.Source.PutAside(b.tx, b.part,
		tree.Finding{Path: b.path, What: what, Offset: int64(offset), Reason: reason, Raw: raw})
}

// refusedSuffix marks the records in the ledger's counts that are in quarantine.
const refusedSuffix = "_refused"

// element imports one record of the file, or puts it into quarantine.
func (b *taking) element(i int) error {
	e := &b.elements[i]
	if e.Reason != "" {
		b.countBad()
		return b.aside(tree.WhatLine, e.Offset, e.Reason, e.Text)
	}
	id := e.Record.Snapshot.ID
	if b.superseded(i) {
		return b.refuse(e, hasLater)
	}
	ours, found, err := b.find(id)
	from := origin{Source: b.Source.ID, Path: []byte(b.path), Position: i}
	switch {
	case err != nil:
		return err
	case !found || ours.Source != from.Source || !bytes.Equal(ours.Path, from.Path):
		taken, err := b.takeEqual(e, ours, found, from)
		if err == nil && !taken {
			err = b.refuse(e, "is here already, from elsewhere and with other contents; import this tree "+
				"into a scope of its own")
		}
		return err
	case bytes.Equal(ours.Digest, sumOf(e.Text)):
		b.count(tallyOf(e), tree.Already, "")
		return b.tx.Store().Queue(sqlSetPlace, i, ours.Key)
	}
	b.count(tallyOf(e), tree.Changed, "")
	if !bytes.Equal(ours.Stamp, ours.stamp()) {
		b.kept = true
		b.part.Differ(b.path, fmt.Sprintf("run %q has changed, and was written to here since it was imported: "+
			"ours stays", id))
		return nil
	}
	if held, err := b.tx.Store().IsReserved(ours.Epoch); err != nil {
		return err
	} else if held {
		b.kept = true
		b.part.Differ(b.path, fmt.Sprintf("run %q has changed, and is held here: ours stays", id))
		return nil
	}
	var copies [][]byte
	if err := b.tx.Select(&copies, sqlCopiesOf, ours.Key); err != nil {
		return err
	}
	for _, path := range copies { // they hold the old record, and count as new
		if err := b.Source.Forget(b.tx, string(path)); err != nil {
			return err
		}
	}
	if err := usage.ForgetLive(b.tx, ours.Scope, ours.RunID); err != nil {
		return err
	}
	if err := ours.removeAll(b.tx); err != nil {
		return err
	}
	return importRun(b.tx, b.scope, e, from)
}

// takeEqual imports a record whose run is not here. It reports false if the run is here and
// differs.
func (b *taking) takeEqual(e *fileElement, ours imported, found bool, from origin) (bool, error) {
	if !found {
		b.count(tallyOf(e), tree.New, "")
		return true, importRun(b.tx, b.scope, e, from)
	}
	if same, err := holds(&b.tx.Rx, ours.Key, e); err != nil || !same {
		return false, err
	}
	b.count(tallyOf(e), tree.Already, "")
	if ours.Source != from.Source || bytes.Equal(ours.Path, from.Path) {
		return true, nil
	}
	return true, addCopy(b.tx, ours.Key, from)
}

// find is findImported, without a query for runs that inScope did not find.
func (b *taking) find(id string) (imported, bool, error) {
	if _, lacks := b.lacks[id]; lacks && b.scope == b.Scope {
		return imported{}, false, nil
	}
	return findImported(&b.tx.Rx, b.scope, id)
}

// hasLater is the reason to refuse a record that the original ignores too.
const hasLater = "has a later record in the same file, which the original takes"

func refusal(e *fileElement, why string) string {
	return fmt.Sprintf("run %q %s", e.Record.Snapshot.ID, why)
}

func (b *taking) refuse(e *fileElement, why string) error {
	b.count(tallyOf(e), tree.Quarantine, refusedSuffix)
	return b.Source.PutAside(b.tx, b.part, tree.Finding{
		Path: b.path, What: tree.WhatConflict, Offset: int64(e.Offset), Reason: refusal(e, why), Raw: e.Text,
		Whose: &tree.Entity{Group: e.Record.Snapshot.SessionID, ID: e.Record.Snapshot.ID},
	})
}

// superseded reports whether a later record of the file has the same id.
func (f *file) superseded(i int) bool {
	for _, later := range f.elements[i+1:] {
		if later.Reason == "" && later.Record.Snapshot.ID == f.elements[i].Record.Snapshot.ID {
			return true
		}
	}
	return false
}
