package workers

import (
	"bytes"
	"fmt"
	"slices"

	"selvedge/db"
	"selvedge/internal/tree"
	pool "selvedge/internal/workers"
)

// A runtime is a runtime's folder on its way in.
type runtime struct {
	*tree.Tree
	*content
}

// Path is where the folder lies in its tree.
func (t *runtime) Path() string { return t.path }

// Held is how much memory the runtime takes.
func (t *runtime) Held() int { return int(t.bytes) }

// Progress is all of its files.
func (t *runtime) Progress() (files, bytes int64) { return t.files, t.bytes }

// Prefetch names what is about to be asked of the folder and of the runtime.
func (t *runtime) Prefetch(f *tree.Prefetcher) error {
	f.File(t.path)
	if !f.Taken() {
		f.Aside(t.Tree, t.path)
		return nil
	}
	f.About("runtime " + t.imported.RuntimeID)
	f.Expect("worker_runtimes", 1)
	f.Expect("workers", len(t.imported.Workers))
	f.ExpectAside(len(t.findings))
	return pool.Prefetch(f.Rx, t.Scope, t.imported.RuntimeID, f.Ask)
}

// Known counts a runtime whose files are as they were.
func (t *runtime) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	row, err := t.Source.File(rx, t.path)
	if err != nil || row == nil || !bytes.Equal(row.PrefixSHA256, t.sum) {
		return false, err
	}
	if row.State == tree.StateRefused {
		if _, _, _, there, err := pool.RowOf(rx, t.Scope, t.imported.RuntimeID); err != nil || !there {
			return false, err // what had its id is gone
		}
	}
	return true, t.same(rx, row, part)
}

func (t *content) countTree(part *tree.Part) {
	part.Files.Found += t.files
	part.Files.Bytes += t.bytes
	if t.broken > 0 {
		part.CountAll(tree.Tally{tree.Undecodable: t.broken}, tree.Quarantine)
	}
	part.CountAll(t.aside, tree.Quarantine)
	for _, path := range t.ignored {
		_ = part.Ignore(path, "nothing of the runtime is read from it")
	}
}

// all counts the runtime's records in the column that each names.
func (t *content) all(part *tree.Part, column func(*tree.Count) *int64) {
	part.CountAll(t.records, column)
}

// same counts a runtime whose files are as they were.
func (t *runtime) same(rx *db.Rx, row *tree.Row, part *tree.Part) error {
	t.countTree(part)
	if row.State == tree.StateRefused {
		part.Files.Refused += t.files
		t.all(part, tree.Quarantine)
	} else {
		part.Files.Already += t.files
		t.all(part, tree.Already)
	}
	return t.NameAside(rx, t.path, part)
}

// Take takes a runtime that is new, or not as it was.
func (t *runtime) Take(tx *db.Tx, part *tree.Part) error {
	t.countTree(part)
	row, err := t.Source.File(&tx.Rx, t.path)
	if err != nil {
		return err
	}
	id := t.imported.RuntimeID
	key, next, pruned, there, err := pool.RowOf(&tx.Rx, t.Scope, t.imported.RuntimeID)
	if err != nil {
		return err
	}
	if row != nil && row.State == tree.StateTaken {
		if !there || *row.EntityRow != key || row.LastSequence != next || pruned {
			part.Files.Changed += t.files
			t.all(part, tree.Changed)
			part.Differ(t.path, fmt.Sprintf("the folder has changed, and runtime %q was written to or removed here "+
				"since it was imported: ours stays", id))
			return nil
		}
		return t.replace(tx, row, part)
	}
	if row != nil {
		err = t.forget(tx, t.path)
	} else {
		err = t.Source.ReleaseBelow(tx, t.path, nil)
	}
	if err != nil {
		return err
	}
	if !there {
		part.Files.New += t.files
		t.all(part, tree.New)
		return t.add(tx, part)
	}
	ours, err := pool.ExportRuntime(&tx.Rx, key)
	if err != nil {
		return err
	}
	if d := compareRuntime(t.content, &ours); d.same() {
		part.Files.Already += t.files
		t.all(part, tree.Already)
		if err := t.putAway(tx, part, (*tree.Finding).Only); err != nil {
			return err
		}
		return t.note(tx, tree.StateShared, &key, next)
	}
	return t.refuse(tx, part)
}

// replace takes a runtime again whose folder has changed since, and which nobody has touched here.
func (t *runtime) replace(tx *db.Tx, row *tree.Row, part *tree.Part) error {
	key := *row.EntityRow
	ours, err := pool.ExportRuntime(&tx.Rx, key)
	if err != nil {
		return err
	}
	compareRuntime(t.content, &ours).count(part)
	if err := pool.RemoveImported(tx, key); err != nil {
		return err
	}
	if bytes.Equal(row.PrefixSHA256, t.sum) { // it is tried again: what is still wrong keeps its row
		err = t.Source.ReleaseBelow(tx, t.path, t.found)
	} else {
		err = t.Source.ReleaseBelow(tx, t.path, nil)
	}
	if err != nil {
		return err
	}
	return t.add(tx, part)
}

func (t *runtime) add(tx *db.Tx, part *tree.Part) error {
	key, next, err := pool.ImportRuntime(tx, t.Scope, t.imported)
	if err != nil {
		return err
	}
	if err := t.putAway(tx, part, func(*tree.Finding) bool { return true }); err != nil {
		return err
	}
	return t.note(tx, tree.StateTaken, &key, next)
}

// putAway puts what is wrong with a runtime's folder into quarantine.
func (t *runtime) putAway(tx *db.Tx, part *tree.Part, which func(*tree.Finding) bool) error {
	for i := range t.findings {
		if !which(&t.findings[i]) {
			continue
		}
		if err := t.Source.PutAside(tx, part, t.findings[i]); err != nil {
			return err
		}
	}
	return nil
}

// refuse leaves a runtime where it is whose id is here from elsewhere: the row of the quarantine
// names it, the folder keeps it.
func (t *runtime) refuse(tx *db.Tx, part *tree.Part) error {
	part.Files.Refused += t.files
	t.all(part, tree.Quarantine)
	err := t.Source.PutAside(tx, part, tree.Finding{
		Path: t.path, What: tree.WhatConflict, Whose: &tree.Entity{Group: t.imported.RuntimeID},
		Reason: fmt.Sprintf(
			"runtime %q is here already, from elsewhere and with other contents; import this tree into a scope "+
				"of its own", t.imported.RuntimeID),
	})
	if err != nil {
		return err
	}
	return t.note(tx, tree.StateRefused, nil, 0)
}

// note writes the runtime's row of the ledger. Its bytes are not counted as consumed: they lie in
// many files, of which the hash speaks.
func (t *runtime) note(tx *db.Tx, state string, row *int64, next int64) error {
	return t.Source.Put(tx, &tree.Row{
		Path: []byte(t.path), State: state, EntityGroup: t.imported.RuntimeID, EntityRow: row, LastSequence: next,
		Size: t.bytes, PrefixSHA256: t.sum, Records: t.records.String(),
	})
}

// found reports whether a row of the quarantine says what is wrong with the folder now.
func (t *runtime) found(q *tree.Aside) bool {
	return slices.ContainsFunc(t.findings, func(f tree.Finding) bool {
		return f.Path == q.Path && f.Offset == q.ByteOffset && f.What == q.What && f.Reason == q.Reason
	})
}

// forget takes out what was said about a runtime's folder.
func (t *runtime) forget(tx *db.Tx, path string) error {
	if err := t.Source.ReleaseBelow(tx, path, nil); err != nil {
		return err
	}
	return t.Source.Forget(tx, path)
}
